"""I03, I04: kill -9 before each SQL statement of a sync, and nothing is lost, doubled or half there."""

from collections.abc import Callable

import pytest

from atomic_agent.cache.cache import Cache
from atomic_agent.sync.identity import membership
from atomic_agent.sync.pulling import CURSOR
from atomic_sessions.envelope import parse
from atomic_sessions.seal import decode_body, open_sealed
from faults.machines import Account, Member, session_id
from faults.victim import Victim

LARGE = 300_000


def kill_at(victim: Victim, node: Member, statement: int) -> int:
    """One sync of this machine's store in another process, killed there; the statements of one that lived."""
    node.journal.close()
    done = victim.do(node.home, node.key, "sync", statement)
    node.journal = node._open()
    assert not done["error"], done
    assert node.journal.cache.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return int(done["statements"])


def cursor_agrees(node: Member, since: bytes) -> None:
    """Rows and cursor move together: of what came after `since`, all up to the cursor is here, nothing beyond it."""
    keys = membership(node.journal).account_keys()
    at = seq_of(node.journal.cache)
    known = "SELECT 1 FROM session_entries WHERE id = ?"
    for event in node.log(since):
        sealed = parse(event.raw)
        if sealed.header.device == membership(node.journal).device.id:
            continue
        for entry in decode_body(open_sealed(keys, sealed)).entries:
            here = node.journal.cache.connection.execute(known, (entry.id,)).fetchone() is not None
            assert here is (event.seq <= at), (event.seq, at)


def seq_of(cache: Cache) -> int:
    """The place in the log that the cursor stands at."""
    cursor = cache.get(CURSOR) or b""
    return int.from_bytes(cursor[:8], "big")


@pytest.mark.parametrize("size", [10, LARGE])
def test_sending_killed_before_each_statement(
    account: Callable[[int], Account], victim: Victim, size: int
) -> None:
    """I03: between sealing, outbox, sending, acknowledgement and marking, at every statement: the next sync
    completes, and no entry is in the log under two records; also where a large object goes first."""
    found = account(2)
    sender = found.nodes[0]
    sender.say("x" * size)
    statements = kill_at(victim, sender, 0)
    assert 20 < statements < 200
    for at in range(1, statements + 1):
        sender.say(f"{at} " + "x" * size)
        kill_at(victim, sender, at)
    found.agree()
    assert len(sender.sent()) == statements + 1
    assert len(found.nodes[1].texts()) == statements + 1


def test_fetching_killed_before_each_statement(account: Callable[[int], Account], victim: Victim) -> None:
    """I04: at every statement of a fetch that brings new and known sessions, rows and cursor agree."""
    found = account(2)
    sender, reader = found.nodes
    sender.say("first")
    sender.exchange()
    statements = kill_at(victim, reader, 0)
    assert 20 < statements < 200
    for at in range(1, statements + 1):
        sender.say(f"known {at}")
        sender.say(f"new {at}", session_id())
        sender.exchange()
        before = reader.journal.cache.get(CURSOR) or b""
        kill_at(victim, reader, at)
        cursor_agrees(reader, before)
    found.agree()
    assert len(reader.texts()) == 2 * statements + 1
