"""I12: a machine whose clock is a year off, ahead or behind."""

import json
from pathlib import Path

import pytest

from agent.sync.account import SESSION, account
from atomic_agent.cache import entries, leaf, sessions
from atomic_sessions.clock import MAX_SKEW_MS

YEAR = 365 * 86_400_000
MINUTE = 60_000


@pytest.mark.parametrize("skew", [YEAR, -YEAR])
def test_a_year_off(tmp_path: Path, skew: int) -> None:
    """Stamps stay above their parents, every entry arrives, and five minutes after it the branch of the
    machine with the right clock is the newest again."""
    (right, wrong), log = account(tmp_path)
    wrong.clock += skew
    right.say("first")
    right.sync(log)
    wrong.sync(log)
    # Both go on from the same leaf without hearing of each other.
    late = wrong.say("from the wrong clock")
    wrong.sync(log)
    for machine in (right, log):
        machine.clock += MAX_SKEW_MS + MINUTE
    own = right.say("from the right clock, later")
    for node in (right, wrong, right, wrong):
        node.sync(log)
    assert right.state() == wrong.state()
    for node in (right, wrong):
        cache = node.journal.cache
        (row,) = sessions.listed(cache)
        stored = {s.entry.id: s for s in entries.read(cache, row.key)}
        assert {late, own} <= set(stored)
        for one in stored.values():
            if one.entry.parent:
                assert one.entry.stamp > stored[one.entry.parent].entry.stamp
        assert leaf.newest_leaf(cache, row.key) == own
        node.close()


@pytest.mark.parametrize("skew", [YEAR, -YEAR])
def test_a_parent_of_the_future_holds_nobody_up(tmp_path: Path, skew: int) -> None:
    """What is said after a message of a wrong clock still counts as later than it, on every machine."""
    (right, wrong), log = account(tmp_path)
    wrong.clock += skew
    wrong.say("from the wrong clock")
    wrong.sync(log)
    right.sync(log)
    answer = right.say("the answer to it")
    for node in (right, wrong, right):
        node.sync(log)
    for node in (right, wrong):
        (row,) = sessions.listed(node.journal.cache)
        assert row.id == SESSION
        assert leaf.newest_leaf(node.journal.cache, row.key) == answer
        texts = [
            json.loads(s.entry.raw)["message"]["content"] for s in entries.read(node.journal.cache, row.key)
        ]
        assert texts == ["from the wrong clock", "the answer to it"]
    assert right.state() == wrong.state()
    for node in (right, wrong):
        node.close()
