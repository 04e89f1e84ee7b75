"""What agents read of a log: pages after a cursor, sessions, one session's records. Writes nothing.

A cursor is a place and a check of content there (seq and chain), so that a log which was restored or
replaced is told from the one the cursor was made for.
"""

import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from atomic_service.log.rules import CHAIN_SIZE
from atomic_service.problems import Refused
from atomic_sessions.wire import MAX_PULL_BYTES, ErrorCode, Event, Pull, Records, SessionRow, Snapshot

if TYPE_CHECKING:
    from atomic_service.db import Connection

MAX_PAGE = 2000
"""Events in a page; bytes are the usual limit."""
CURSOR = struct.Struct(f">Q{CHAIN_SIZE}s")


class Cursor(Struct, frozen=True):
    """A place in one life of a log."""

    seq: int
    chain: bytes

    def pack(self) -> bytes:
        return CURSOR.pack(self.seq, self.chain)


START = Cursor(0, bytes(CHAIN_SIZE))


def read_cursor(raw: bytes) -> Cursor:
    """The cursor of these bytes; none at all means the start."""
    if not raw:
        return START
    if len(raw) != CURSOR.size:
        raise Refused(ErrorCode.BAD_REQUEST, "The cursor is malformed.")
    seq, chain = CURSOR.unpack(raw)
    if seq >= 1 << 63:
        raise Refused(ErrorCode.CURSOR_GONE)
    return Cursor(seq, chain)


_HEAD = "SELECT head, chain FROM account WHERE account = $1"


async def _head(connection: "Connection", account: bytes) -> Cursor:
    row = await connection.fetchrow(_HEAD, account)
    if row is None:
        raise Refused(ErrorCode.UNAUTHORIZED)
    return Cursor(row["head"], row["chain"])


async def read_head(connection: "Connection", account: bytes) -> int:
    return (await _head(connection, account)).seq


_CHAIN = "SELECT chain FROM event WHERE account = $1 AND seq = $2"


async def _check(connection: "Connection", account: bytes, cursor: Cursor, head: Cursor) -> None:
    if cursor.seq == 0:
        chain: bytes | None = START.chain
    elif cursor.seq == head.seq:
        chain = head.chain
    else:
        chain = await connection.fetchval(_CHAIN, account, cursor.seq)
    if cursor.seq > head.seq or chain != cursor.chain:
        raise Refused(ErrorCode.CURSOR_GONE, "Take a snapshot and begin again; keep everything local.")


# The sum runs over sizes, so bodies beyond the page are never read.
_PAGE = """
SELECT seq, received_at, body, chain FROM (
    SELECT seq, received_at, body, chain, size, sum(size) OVER (ORDER BY seq) AS total FROM (
        SELECT seq, received_at, body, chain, size FROM event
        WHERE account = $1 AND seq > $2 AND body IS NOT NULL ORDER BY seq LIMIT $4
    ) AS page
) AS summed WHERE total <= $3 OR total = size ORDER BY seq
"""
_MORE = "SELECT EXISTS (SELECT FROM event WHERE account = $1 AND seq > $2 AND body IS NOT NULL)"


async def pull(connection: "Connection", account: bytes, cursor: Cursor, limit: int = MAX_PULL_BYTES) -> Pull:
    """The next page. Run in one snapshot. Emptied events are left out; their tombstone is not."""
    head = await _head(connection, account)
    await _check(connection, account, cursor, head)
    rows = await connection.fetch(_PAGE, account, cursor.seq, limit, MAX_PAGE)
    events = [Event(row["seq"], row["received_at"], row["body"]) for row in rows]
    last = Cursor(rows[-1]["seq"], rows[-1]["chain"]) if rows else cursor
    more = bool(await connection.fetchval(_MORE, account, last.seq))
    return Pull(events, (last if more else head).pack(), more, head.seq)


_DEAD = "SELECT session FROM session WHERE account = $1 AND dead"


async def snapshot(connection: "Connection", account: bytes) -> Snapshot:
    """Where a new or reset agent begins: the start, as long as the log has no packs."""
    head = await _head(connection, account)
    dead = [row["session"] for row in await connection.fetch(_DEAD, account)]
    return Snapshot(START.pack(), dead, head.seq)


_SESSIONS = """
SELECT session, newest_at, newest_tag, received_at, records, bytes, last_seq, dead
FROM session WHERE account = $1 ORDER BY last_seq DESC
"""


async def sessions(connection: "Connection", account: bytes) -> list[SessionRow]:
    return [SessionRow(**row) for row in await connection.fetch(_SESSIONS, account)]


_RECORDS = """
SELECT seq, received_at, body FROM (
    SELECT seq, received_at, body, size, sum(size) OVER (ORDER BY seq) AS total FROM (
        SELECT seq, received_at, body, size FROM event
        WHERE account = $1 AND session = $2 AND seq > $3 AND body IS NOT NULL ORDER BY seq LIMIT $5
    ) AS page
) AS summed WHERE total <= $4 OR total = size ORDER BY seq
"""
_MORE_RECORDS = """
SELECT EXISTS (SELECT FROM event WHERE account = $1 AND session = $2 AND seq > $3 AND body IS NOT NULL)
"""
_KNOWN_SESSION = "SELECT EXISTS (SELECT FROM session WHERE account = $1 AND session = $2)"


async def records(
    connection: "Connection", account: bytes, session: bytes, after: int, limit: int = MAX_PULL_BYTES
) -> Records:
    """Events of one session. Run in one snapshot. Of a dead session only its tombstone is left."""
    if not await connection.fetchval(_KNOWN_SESSION, account, session):
        raise Refused(ErrorCode.NOT_FOUND)
    rows = await connection.fetch(_RECORDS, account, session, after, limit, MAX_PAGE)
    events = [Event(row["seq"], row["received_at"], row["body"]) for row in rows]
    last = events[-1].seq if events else after
    return Records(events, bool(await connection.fetchval(_MORE_RECORDS, account, session, last)))


_PRESENT = "SELECT id FROM event WHERE account = $1 AND id = ANY($2)"


async def missing(connection: "Connection", account: bytes, ids: list[bytes]) -> list[bytes]:
    """Which of these ids the log has never seen. Emptied events were seen."""
    present = {row["id"] for row in await connection.fetch(_PRESENT, account, ids)}
    return [event_id for event_id in ids if event_id not in present]
