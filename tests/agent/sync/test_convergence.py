"""Machines that have exchanged everything agree: over interleavings, cuts, clocks, copies and failovers."""

import json
import shutil
import tempfile
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.sync.account import SESSION, Node, account, settle
from agent.sync.memory_log import Cut
from atomic_agent.cache import outbox, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.capture.follow import take
from atomic_agent.capture.sources import Source
from atomic_agent.sync.identity import membership
from atomic_sessions import ledger
from atomic_sessions.ledger import LedgerEntry

YEAR = 365 * 86_400_000
OTHER = "01a22c81-7192-70af-aa13-000000000002"


class Machines(RuleBasedStateMachine):
    """Three machines and a log; the model is the set of lines ever said in a session not deleted."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.nodes, self.log = account(self.root, 3)
        self.said: dict[str, set[str]] = {}
        self.deleted: set[str] = set()
        self.copies: dict[int, Path] = {}

    @rule(who=st.integers(0, 2), session=st.sampled_from(["01a22c81-7192-70af-aa13-000000000001", OTHER]))
    def say(self, who: int, session: str) -> None:
        node = self.nodes[who]
        if session in self.deleted and _is_deleted(node, session):
            return
        self.said.setdefault(session, set()).add(node.say(f"said {node.count}", session))

    @rule(who=st.integers(0, 2))
    def sync(self, who: int) -> None:
        self.nodes[who].sync(self.log)

    @rule(who=st.integers(0, 2), where=st.sampled_from(["cut_before", "cut_after"]))
    def sync_with_a_cut(self, who: int, where: str) -> None:
        setattr(self.log, where, True)
        try:
            self.nodes[who].sync(self.log)
        except Cut:
            pass
        setattr(self.log, where, False)

    @rule(who=st.integers(0, 2), by=st.sampled_from([1000, 60_000, -3_600_000, YEAR, -YEAR]))
    def turn_the_clock(self, who: int, by: int) -> None:
        self.nodes[who].clock = max(0, self.nodes[who].clock + by)

    @rule(by=st.integers(0, 600_000))
    def time_passes(self, by: int) -> None:
        self.log.clock += by

    @rule(size=st.integers(1, 5))
    def pages_change(self, size: int) -> None:
        self.log.page = size

    @precondition(lambda self: bool(self.said))
    @rule(who=st.integers(0, 2), data=st.data())
    def delete(self, who: int, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.said)))
        for row in sessions.listed(self.nodes[who].journal.cache):
            if row.id == session:
                self.nodes[who].delete(row)
                self.deleted.add(session)

    @rule(who=st.integers(0, 2))
    def keep_a_copy(self, who: int) -> None:
        self.copies[who] = self.nodes[who].copied()

    @precondition(lambda self: bool(self.copies))
    @rule(data=st.data())
    def put_the_copy_back(self, data: st.DataObject) -> None:
        """An older life of a cache, whose later one has been heard of."""
        who = data.draw(st.sampled_from(sorted(self.copies)))
        self.nodes[who].sync(self.log)
        self.nodes[who].put_back(self.copies[who])

    @rule(count=st.integers(1, 4))
    def the_log_loses_its_end(self, count: int) -> None:
        """A failover; somebody must still hold what it lost."""
        for node in self.nodes:
            node.sync(self.log)
        self.log.lose_last(min(count, len(self.log.rows)))

    @invariant()
    def nothing_was_refused(self) -> None:
        for node in getattr(self, "nodes", []):
            assert outbox.quarantined(node.journal.cache) == []

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        settle(self.nodes, self.log)
        states = [node.state() for node in self.nodes]
        assert states[0] == states[1] == states[2]
        lines = self.nodes[0].texts()
        for session, ids in self.said.items():
            for one in ids:
                there = any(f'"id": "{one}"'.encode() in raw for raw in lines)
                assert there is (session not in self.deleted), (session, one)
        for node in self.nodes:
            node.close()
        shutil.rmtree(self.root)


def _is_deleted(node: Node, session: str) -> bool:
    cache = node.journal.cache
    row = cache.connection.execute("SELECT deleted FROM session_sessions WHERE id = ?", (session,)).fetchone()
    return bool(row and row[0])


TestMachines = Machines.TestCase
TestMachines.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_deletion_finds_a_session_that_was_never_sealed_here(tmp_path: Path) -> None:
    """A session captured here and pulled from elsewhere dies with the other machine's tombstone."""
    nodes, log = account(tmp_path)
    nodes[0].say("theirs")
    nodes[0].sync(log)
    with transaction(nodes[1].journal.cache.connection):
        sessions.ensure(nodes[1].journal.cache, nodes[1]._facts(SESSION))
    nodes[1].sync(log)
    (row,) = sessions.listed(nodes[0].journal.cache)
    nodes[0].delete(row)
    settle(nodes, log)
    assert nodes[0].state() == nodes[1].state() == []
    for node in nodes:
        node.close()


@given(skews=st.lists(st.sampled_from([0, -86_400_000, 86_400_000, 1000]), min_size=2, max_size=2))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_one_file_captured_on_two_machines_is_one_session(skews: list[int]) -> None:
    """The same lines taken in by clocks that differ end in the same stamps, order and list."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, log = account(Path(folder))
        lines = b"".join(
            json.dumps(
                {"type": "user", "uuid": f"u{n}", "sessionId": "s", "message": {"content": f"line {n}"}}
            ).encode()
            + b"\n"
            for n in range(5)
        )
        for node, skew in zip(nodes, skews, strict=True):
            node.clock += skew
            path = node.home.root / f"{SESSION}.jsonl"
            path.write_bytes(lines)
            take(node.journal.cache, Source(path, "claude-code"), node.clock)
            node.sync(log)
        settle(nodes, log)
        assert nodes[0].state() == nodes[1].state()
        for node in nodes:
            node.close()


def test_a_machine_that_joined_meanwhile_is_believed(tmp_path: Path) -> None:
    """Records of a device that the list gained after it was read are not refused."""
    nodes, log = account(tmp_path, 2)
    nodes[1].say("from the new machine")
    nodes[1].sync(log)
    whole, log.entries = log.entries, log.entries[:1]
    calls = []

    def grows() -> list[LedgerEntry]:
        calls.append(1)
        return whole if len(calls) > 1 else whole[:1]

    log.ledger = grows  # type: ignore[method-assign]  # the list as it is seen grows between two looks
    mine = membership(nodes[0].journal)
    first = ledger.verify(whole[:1], mine.account)
    nodes[0].journal.change(membership=msgspec.structs.replace(mine, ledger_head=first.head, ledger_size=1))
    done = nodes[0].sync(log)
    assert done.refused == 0
    assert any(b"new machine" in raw for raw in nodes[0].texts())
    for node in nodes:
        node.close()


def test_a_lost_object_costs_only_its_record(tmp_path: Path) -> None:
    """A large object that is gone makes its record refused; the rest goes on, and an update heals it."""
    nodes, log = account(tmp_path)
    nodes[0].say("x" * 400_000)
    nodes[0].say("bystander", OTHER)
    nodes[0].sync(log)
    kept, log.objects = log.objects, {}
    assert nodes[1].sync(log).refused == 1
    assert any(b"bystander" in raw for raw in nodes[1].texts())
    log.objects = kept
    with transaction(nodes[1].journal.cache.connection):
        nodes[1].journal.cache.put("reader", b"an older program")
    settle(nodes, log)
    assert nodes[0].state() == nodes[1].state()
    for node in nodes:
        node.close()
