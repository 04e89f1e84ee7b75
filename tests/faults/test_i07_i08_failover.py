"""I07, I08: the service lost its last commits, or came back from a backup."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.sync.account import account, settle
from atomic_agent.cache import sessions
from atomic_agent.sync.delete import delete_session


@given(lost=st.integers(1, 6), turns=st.lists(st.integers(0, 1), min_size=3, max_size=8))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_failover_that_lost_commits_is_refilled(lost: int, turns: list[int]) -> None:
    """I07, I08: after the log lost its end, the machines offer again what they hold; the union is as
    before, and nothing is doubled."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, log = account(Path(folder))
        for who in turns:
            nodes[who].say("x")
            nodes[who].sync(log)
        settle(nodes, log)
        before = nodes[0].texts()
        log.lose_last(min(lost, len(log.rows)))
        settle(nodes, log)
        assert nodes[0].texts() == nodes[1].texts() == before
        assert nodes[0].state() == nodes[1].state()
        for node in nodes:
            node.close()


def test_a_deletion_survives_a_log_that_forgot_it(tmp_path: Path) -> None:
    """I08: after a restore from a backup the tombstone is offered again, whoever deleted."""
    nodes, log = account(tmp_path, 3)
    nodes[0].say("to be deleted")
    settle(nodes[:2], log)
    (row,) = sessions.listed(nodes[0].journal.cache)
    delete_session(nodes[0].journal, row)
    settle(nodes, log)
    log.lose_last(1)
    assert not log.dead
    settle(nodes, log)
    assert len(log.dead) == 1
    assert nodes[0].state() == nodes[1].state() == nodes[2].state() == []
    for node in nodes:
        node.close()
