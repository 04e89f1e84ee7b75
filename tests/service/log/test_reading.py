"""Pull, sessions, records, have and snapshot: what agents read of a log."""

import asyncio
import struct

import asyncpg
import pytest

from atomic_sessions import wire
from atomic_sessions.clock import MAX_SKEW_MS
from atomic_sessions.envelope import Kind
from service.devices import NOW, Refusal
from service.running import RunningService


def test_cursor_goes_on_where_the_last_page_ended(service: RunningService) -> None:
    """Pages join without gap or overlap, and the last cursor brings only what is new."""
    device = service.device()
    writer = device.writer()
    raws = [writer.seal(size=300_000) for _ in range(20)]
    for start in range(0, 20, 10):
        device.push(*raws[start : start + 10])
    first = device.pull()
    assert first.more
    assert sum(len(e.raw) for e in first.events) <= wire.MAX_PULL_BYTES
    assert [e.raw for e in device.pull_all()] == raws
    end = device.pull(device.pull(first.cursor).cursor)
    assert (end.events, end.more) == ([], False)
    late = writer.seal()
    device.push(late)
    assert [e.raw for e in device.pull(end.cursor).events] == [late]


def test_page_of_emptied_events_moves_the_cursor(service: RunningService) -> None:
    """A reader behind many emptied events lands at the head in one call."""
    device = service.device()
    writer, kept = device.writer(), device.writer()
    start = device.pull().cursor
    device.push(*[writer.seal() for _ in range(5)])
    device.push(kept.seal())
    device.push(writer.seal(Kind.TOMBSTONE))
    page = device.pull(start)
    assert [e.seq for e in page.events] == [6, 7]
    assert not page.more
    assert device.pull(page.cursor).events == []


@pytest.mark.parametrize("fault", ["other chain", "beyond the head", "far beyond"])
def test_cursor_of_another_life_is_told_so(service: RunningService, fault: str) -> None:
    """I07, I08: a cursor whose content check does not hold here is gone, never silently restarted."""
    device = service.device()
    writer = device.writer()
    device.push(writer.seal(), writer.seal())
    seq, chain = struct.unpack(">Q16s", device.pull().cursor)
    cursor = {
        "other chain": struct.pack(">Q16s", 1, chain),
        "beyond the head": struct.pack(">Q16s", seq + 1, chain),
        "far beyond": struct.pack(">Q16s", (1 << 64) - 1, chain),
    }[fault]
    with pytest.raises(Refusal, match="410 cursor_gone"):
        device.pull(cursor)


def test_malformed_cursors_are_bad_requests(service: RunningService) -> None:
    """A cursor is 24 bytes in hex or nothing."""
    device = service.device()
    for cursor in ("zz", "abc", "00" * 8, "00" * 40):
        with pytest.raises(Refusal, match="400 bad_request"):
            device.send("GET", f"/v1/pull?cursor={cursor}")


def test_restored_database_refuses_newer_cursors_and_takes_the_rest_again(
    own_service: RunningService,
) -> None:
    """I07: the log lost its last events; a reader ahead of it is told, a new writer fills it again."""
    device = own_service.device()
    writer = device.writer()
    device.push(writer.seal())
    kept = device.pull().cursor
    device.push(writer.seal(), writer.seal())
    ahead = device.pull().cursor
    asyncio.run(_lose_last_events(own_service.owner_url()))
    with pytest.raises(Refusal, match="cursor_gone"):
        device.pull(ahead)
    assert device.pull(kept).events == []
    device.push(device.writer(writer.session).seal())
    with pytest.raises(Refusal, match="cursor_gone"):
        device.pull(ahead)


async def _lose_last_events(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("DELETE FROM event WHERE seq > 1")
    await connection.execute("UPDATE account SET head = 1, chain = (SELECT chain FROM event WHERE seq = 1)")
    await connection.execute("UPDATE progress SET last_n = 1, last_id = (SELECT id FROM event WHERE seq = 1)")
    await connection.close()


def test_sessions_show_the_newest_message_over_all_writers(own_service: RunningService) -> None:
    """C4: the later message wins whichever device pushed last, and a wild clock wins by five minutes at most."""
    device = own_service.device()
    mate = device.new_mate()
    now = own_service.clock()
    mine, theirs = device.writer(), mate.writer()
    theirs.session = mine.session
    device.push(mine.seal(newest_at=now - 1000, newest_tag=b"11111111"))
    mate.push(theirs.seal(newest_at=now - 5000, newest_tag=b"22222222"))
    row = device.sessions()[mine.session]
    assert (row.newest_at, row.newest_tag, row.records) == (now - 1000, b"11111111", 2)
    year = 365 * 24 * 3600 * 1000
    mate.push(theirs.seal(newest_at=now + year, newest_tag=b"33333333"))
    assert device.sessions()[mine.session].newest_tag == b"33333333"
    own_service.clock.forward(seconds=MAX_SKEW_MS / 1000 + 60)
    device.push(mine.seal(newest_at=own_service.clock(), newest_tag=b"44444444"))
    assert device.sessions()[mine.session].newest_tag == b"44444444"
    # Named once more, the message from the future still counts from its first arrival.
    mate.push(theirs.seal(newest_at=now + year, newest_tag=b"33333333"))
    assert device.sessions()[mine.session].newest_tag == b"44444444"


def test_records_of_one_session_in_pages(service: RunningService) -> None:
    """Only that session's events, after a place in the log; an unknown session is not found."""
    device = service.device()
    one, other = device.writer(), device.writer()
    device.push(one.seal(), other.seal(), one.seal())
    path = f"/v1/sessions/{one.session.hex()}/records"
    assert [e.seq for e in device.get(path, wire.Records).events] == [1, 3]
    assert [e.seq for e in device.get(f"{path}?after=1", wire.Records).events] == [3]
    with pytest.raises(Refusal, match="404 not_found"):
        device.get(f"/v1/sessions/{'0' * 32}/records", wire.Records)


def test_have_names_what_the_log_never_saw(service: RunningService) -> None:
    """Emptied events were seen: offering them again would raise the dead."""
    device = service.device()
    writer = device.writer()
    first = device.push(writer.seal()).results[0].id
    device.push(writer.seal(Kind.TOMBSTONE))
    unknown = b"u" * 32
    assert device.post("/v1/have", wire.Have([first, unknown]), wire.Missing).missing == [unknown]
    with pytest.raises(Refusal, match="413 too_large"):
        device.post("/v1/have", wire.Have([unknown] * (wire.MAX_HAVE_IDS + 1)), wire.Missing)


def test_accounts_do_not_see_each_other(service: RunningService) -> None:
    """The same session id in two accounts is two sessions."""
    one, two = service.device(), service.device()
    writer = one.writer(b"s" * 16)
    one.push(writer.seal(newest_at=NOW))
    assert two.pull().events == []
    assert two.sessions() == {}
    with pytest.raises(Refusal, match="404"):
        two.get(f"/v1/sessions/{writer.session.hex()}/records", wire.Records)
