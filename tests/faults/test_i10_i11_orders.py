"""I10, I11: any order of deliveries gives the same tree; two machines that went on apart agree."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.sync.account import SESSION, Node, account, settle
from agent.sync.memory_log import MemoryLog
from atomic_agent.cache import leaf, outbox, sessions
from atomic_agent.sync.identity import membership
from atomic_agent.sync.sealing import Sealer

OTHER = "01a22c81-7192-70af-aa13-000000000002"


def records(node: Node, turns: list[tuple[str, int]]) -> list[bytes]:
    """Sealed records of one machine, one a turn, that no log has seen."""
    for session, later in turns:
        node.clock += later
        node.say("said", session)
        Sealer(node.journal.cache, membership(node.journal)).seal_all()
    return [item.raw for item in outbox.waiting(node.journal.cache, 1000, 1 << 30)]


turns = st.lists(
    st.tuples(st.sampled_from([SESSION, OTHER]), st.integers(-5000, 5000)), min_size=1, max_size=5
)


@given(
    one=turns,
    two=turns,
    order=st.randoms(use_true_random=False),
    pages=st.tuples(st.integers(1, 4), st.integers(1, 9)),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order_split_or_repetition_is_one_tree(one, two, order, pages) -> None:  # type: ignore[no-untyped-def]
    """I10: two logs took the same records of two machines in different orders, cut into different pages, some
    twice; who reads either sees the same."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, log = account(Path(folder), 4)
        sent = [records(nodes[0], one), records(nodes[1], two)]
        states = []
        for reader, page in zip(nodes[2:], pages, strict=True):
            copy = MemoryLog(log.entries)
            copy.page = page
            at = [0, 0]
            while any(at[n] < len(sent[n]) for n in (0, 1)):
                # A machine's own records come in their order; between the machines, and again, anything goes.
                n = order.choice([n for n in (0, 1) if at[n] < len(sent[n])])
                copy.push([sent[n][at[n]]])
                if order.random() < 0.3:
                    copy.push([sent[n][order.randint(0, at[n])]])
                at[n] += 1
            reader.sync(copy)
            states.append(reader.state())
            assert outbox.quarantined(reader.journal.cache) == []
        assert states[0] == states[1]
        for node in nodes:
            node.close()


def test_two_machines_go_on_from_one_leaf(tmp_path: Path) -> None:
    """I11: two branches, the newest message on top, the same on both, and nothing more to send afterwards."""
    (one, two), log = account(tmp_path)
    one.say("the common beginning")
    settle([one, two], log)
    earlier = one.say("one goes on")
    two.clock += 60_000
    later = two.say("two goes on")
    settle([one, two], log)
    assert one.state() == two.state()
    for node in (one, two):
        (row,) = sessions.listed(node.journal.cache)
        assert row.messages == 3
        assert leaf.newest_leaf(node.journal.cache, row.key) == later
        assert leaf.leaf(node.journal.cache, row.key) == later
    count = len(log.rows)
    settle([one, two], log)
    assert len(log.rows) == count
    assert earlier != later
    for node in (one, two):
        node.close()
