"""I05, I06: a cache is copied, or an older one put back, and work goes on."""

from pathlib import Path

import pytest

from agent.sync.account import account, settle
from atomic_agent.cache import outbox
from atomic_agent.sync.identity import membership
from atomic_agent.sync.sealing import Sealer


@pytest.mark.parametrize("sealed_before", [False, True])
def test_two_lives_of_one_cache(tmp_path: Path, *, sealed_before: bool) -> None:
    """I05, I06: a cache is copied and both copies write, also when the copy has sealed its record before
    it hears of the other's; all three histories arrive, and no number is used for two records."""
    nodes, log = account(tmp_path)
    first = nodes[0]
    first.say("before")
    first.sync(log)
    copy = first.copied()
    first.say("original")
    first.sync(log)
    first.put_back(copy)
    first.say("restored")
    if sealed_before:
        Sealer(first.journal.cache, membership(first.journal)).seal_all()
    settle(nodes, log)
    places = [(row[0].header.session, row[0].header.writer, row[0].header.n) for row in log.rows]
    assert len(set(places)) == len(places)
    assert nodes[0].state() == nodes[1].state()
    assert all(any(w in raw for raw in nodes[1].texts()) for w in (b"before", b"original", b"restored"))
    assert all(outbox.quarantined(node.journal.cache) == [] for node in nodes)
    for node in nodes:
        node.close()
