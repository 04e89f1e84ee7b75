"""Records on their way out and the chains they continue. Knows bytes and ids, no keys."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.entries import StoredEntry, refresh, stored_rows
from atomic_sessions.clock import MAX_SKEW_MS
from atomic_sessions.envelope import ZERO32, Header, parse


class Waiting(Struct, frozen=True):
    """A sealed record that the service has not acknowledged. `entries` are the ids it holds."""

    row: int
    id: bytes
    session: int
    wire: bytes
    entries: list[str]
    raw: bytes


class Chain(Struct, frozen=True):
    """The last record of a (session, writer)."""

    device: bytes
    n: int
    last: bytes


def unsealed_sessions(cache: Cache) -> list[int]:
    """Sessions with entries that are in no record yet."""
    rows = cache.connection.execute(
        cache.sql("SELECT DISTINCT session FROM {p}session_entries WHERE sealed = 0 ORDER BY session")
    )
    return [int(row[0]) for row in rows.fetchall()]


def unsealed_count(cache: Cache) -> int:
    """Entries in no record yet."""
    return int(
        cache.connection.execute(
            cache.sql("SELECT count(*) FROM {p}session_entries WHERE sealed = 0")
        ).fetchone()[0]
    )


def unsealed(cache: Cache, session: int) -> Iterator[StoredEntry]:
    """Those entries of one session, in the order they came in."""
    yield from stored_rows(cache, "session = ? AND sealed = 0 ORDER BY row", (session,))


def mark_sealed(cache: Cache, rows: Iterable[int]) -> None:
    cache.connection.executemany(
        cache.sql("UPDATE {p}session_entries SET sealed = 1 WHERE row = ?"), [(row,) for row in rows]
    )


def put(cache: Cache, session: int, wire: bytes, record_id: bytes, raw: bytes, entries: list[str]) -> None:
    """Queue a record; call in the transaction that marks its entries sealed and moves its chain."""
    cache.connection.execute(
        cache.sql("INSERT INTO {p}session_outbox (id, session, wire, entries, raw) VALUES (?, ?, ?, ?, ?)"),
        (record_id, session, wire, msgspec.msgpack.encode(entries), raw),
    )


def waiting(cache: Cache, limit_events: int, limit_bytes: int) -> list[Waiting]:
    """The next records to send, oldest first, within the limits, at least one if there is one."""
    found: list[Waiting] = []
    size = 0
    for values in cache.connection.execute(
        cache.sql("SELECT row, id, session, wire, entries, raw FROM {p}session_outbox ORDER BY row LIMIT ?"),
        (limit_events,),
    ):
        size += len(values[5]) + 16
        if found and size > limit_bytes:
            break
        entries = msgspec.msgpack.decode(values[4], type=list[str])
        found.append(
            Waiting(values[0], bytes(values[1]), values[2], bytes(values[3]), entries, bytes(values[5]))
        )
    return found


def waiting_tombstones(cache: Cache, limit: int) -> list[Waiting]:
    """The next deletions to send, past whatever else waits."""
    rows = cache.connection.execute(
        cache.sql(
            "SELECT row, id, session, wire, raw FROM {p}session_outbox WHERE entries = ? ORDER BY row LIMIT ?"
        ),
        (msgspec.msgpack.encode([]), limit),
    ).fetchall()
    return [
        Waiting(row, bytes(id_), session, bytes(wire), [], bytes(raw))
        for row, id_, session, wire, raw in rows
    ]


def count(cache: Cache) -> int:
    """Records that wait."""
    return int(cache.connection.execute(cache.sql("SELECT count(*) FROM {p}session_outbox")).fetchone()[0])


def drop(cache: Cache, rows: Iterable[int]) -> None:
    cache.connection.executemany(
        cache.sql("DELETE FROM {p}session_outbox WHERE row = ?"), [(row,) for row in rows]
    )


def expect(cache: Cache, item: Waiting) -> None:
    """The service acknowledged this record: the log must show it. Call inside a transaction."""
    if not item.entries:
        # A tombstone empties what was sent before it.
        cache.connection.execute(cache.sql("DELETE FROM {p}session_sent WHERE wire = ?"), (item.wire,))
    cache.connection.execute(
        cache.sql("INSERT OR IGNORE INTO {p}session_sent (id, wire) VALUES (?, ?)"), (item.id, item.wire)
    )


def meet(cache: Cache, record_id: bytes) -> None:
    """The log showed this record; call inside a transaction."""
    cache.connection.execute(cache.sql("DELETE FROM {p}session_sent WHERE id = ?"), (record_id,))


def is_missing_any(cache: Cache) -> bool:
    """True when the log, read to its end, has not shown what the service acknowledged before."""
    return cache.connection.execute(cache.sql("SELECT 1 FROM {p}session_sent LIMIT 1")).fetchone() is not None


def change_writer(cache: Cache, writer: bytes) -> None:
    """Go on as another writer: the waiting records' entries are sealed anew, and the old writer's chains
    end at what was sent. Tombstones are made again from `sessions.doomed`. Call inside a transaction."""
    held = cache.connection.execute(cache.sql("SELECT session, entries FROM {p}session_outbox")).fetchall()
    for session, ids in held:
        cache.connection.executemany(
            cache.sql("UPDATE {p}session_entries SET sealed = 0 WHERE session = ? AND id = ?"),
            [(session, entry_id) for entry_id in msgspec.msgpack.decode(ids, type=list[str])],
        )
    wires = cache.connection.execute(cache.sql("SELECT DISTINCT wire FROM {p}session_outbox")).fetchall()
    for (wire,) in wires:
        rewind_waiting(cache, bytes(wire), cache.writer)
    cache.connection.execute(cache.sql("DELETE FROM {p}session_uploads"))
    cache.put("writer", writer)


def is_contradicted(cache: Cache, header: Header, record_id: bytes) -> bool:
    """True when a record of the log stands where this cache has sealed another one: a copy of this
    cache has written under our writer's name. Waiting records are the last of their chain."""
    if header.writer != cache.writer:
        return False
    (count,) = cache.connection.execute(
        cache.sql("SELECT count(*) FROM {p}session_outbox WHERE wire = ?"), (header.session,)
    ).fetchone()
    at = header.n - (chain(cache, header.session, header.writer).n - count + 1)
    if not 0 <= at < count:
        return False
    (waiting_id,) = cache.connection.execute(
        cache.sql("SELECT id FROM {p}session_outbox WHERE wire = ? ORDER BY row LIMIT 1 OFFSET ?"),
        (header.session, at),
    ).fetchone()
    return bytes(waiting_id) != record_id


def put_upload(cache: Cache, object_id: bytes, wire: bytes, raw: bytes) -> None:
    cache.connection.execute(
        cache.sql("INSERT OR REPLACE INTO {p}session_uploads VALUES (?, ?, ?)"), (object_id, wire, raw)
    )


def uploads(cache: Cache) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(id, wire session, sealed bytes) of the objects to upload."""
    ids = cache.connection.execute(cache.sql("SELECT id FROM {p}session_uploads")).fetchall()
    for (object_id,) in ids:
        row = cache.connection.execute(
            cache.sql("SELECT id, wire, raw FROM {p}session_uploads WHERE id = ?"), (object_id,)
        ).fetchone()
        if row is not None:
            yield bytes(row[0]), bytes(row[1]), bytes(row[2])


def drop_upload(cache: Cache, object_id: bytes) -> None:
    cache.connection.execute(cache.sql("DELETE FROM {p}session_uploads WHERE id = ?"), (object_id,))


def chain(cache: Cache, wire: bytes, writer: bytes) -> Chain:
    """Where a writer stands in a session; n 0 before its first record."""
    row = cache.connection.execute(
        cache.sql("SELECT device, n, last FROM {p}session_chains WHERE wire = ? AND writer = ?"),
        (wire, writer),
    ).fetchone()
    return Chain(b"", 0, ZERO32) if row is None else Chain(bytes(row[0]), int(row[1]), bytes(row[2]))


def move_chain(cache: Cache, header: Header, record_id: bytes) -> None:
    """The record is the writer's last one in its session now; call inside a transaction."""
    cache.connection.execute(
        cache.sql(
            "INSERT OR REPLACE INTO {p}session_chains (wire, writer, device, n, last) VALUES (?, ?, ?, ?, ?)"
        ),
        (header.session, header.writer, header.device, header.n, record_id),
    )


def forget_chains(cache: Cache) -> None:
    """Drop all chains and refusals, as when the log is read from its start again; call inside a
    transaction."""
    cache.connection.execute(cache.sql("DELETE FROM {p}session_chains"))
    cache.connection.execute(cache.sql("DELETE FROM {p}session_quarantine"))


def offer_again(cache: Cache) -> None:
    """Entries and tombstones count as unknown to the log until it is seen to hold them; call inside a
    transaction."""
    cache.connection.execute(cache.sql("DELETE FROM {p}session_sent"))
    cache.connection.execute(cache.sql("UPDATE {p}session_entries SET sealed = 0"))
    cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET deleted = 1 WHERE deleted = 2"))
    cache.connection.execute(cache.sql("UPDATE {p}session_tombstones SET told = 0"))


def untold(cache: Cache) -> list[bytes]:
    """Dead sessions without a row here whose tombstone the log has to be given again."""
    rows = cache.connection.execute(
        cache.sql(
            "SELECT wire FROM {p}session_tombstones t WHERE told = 0"
            " AND NOT EXISTS (SELECT 1 FROM {p}session_sessions s WHERE s.wire = t.wire)"
            " AND NOT EXISTS (SELECT 1 FROM {p}session_outbox o WHERE o.wire = t.wire)"
        )
    )
    return [bytes(row[0]) for row in rows.fetchall()]


def is_tombstoned(cache: Cache, wire: bytes, *, in_log: bool = False) -> bool:
    """True for a session that is dead; `in_log`: and the log as it is now is known to say so."""
    row = cache.connection.execute(
        cache.sql("SELECT told FROM {p}session_tombstones WHERE wire = ?"), (wire,)
    ).fetchone()
    return row is not None and (bool(row[0]) or not in_log)


def tombstone(cache: Cache, wire: bytes) -> None:
    """The account's log holds this session's tombstone; call inside a transaction."""
    cache.connection.execute(
        cache.sql("INSERT OR REPLACE INTO {p}session_tombstones (wire, told) VALUES (?, 1)"), (wire,)
    )


def quarantine(cache: Cache, record_id: bytes, header: Header | None, reason: str, now: int) -> None:
    """Keep the name of a record that did not verify or open; its bytes are not kept."""
    wire, device = (header.session, header.device) if header is not None else (b"", b"")
    cache.connection.execute(
        cache.sql("INSERT OR IGNORE INTO {p}session_quarantine VALUES (?, ?, ?, ?, ?)"),
        (record_id, wire, device, reason, now),
    )


def quarantined(cache: Cache) -> list[tuple[str, int]]:
    """(reason, how many) of the records that were refused."""
    return cache.connection.execute(
        cache.sql("SELECT reason, count(*) FROM {p}session_quarantine GROUP BY reason ORDER BY reason")
    ).fetchall()


def drop_session(cache: Cache, wire: bytes) -> None:
    """Forget what waits for a session that is dead."""
    cache.connection.execute(cache.sql("DELETE FROM {p}session_outbox WHERE wire = ?"), (wire,))
    cache.connection.execute(cache.sql("DELETE FROM {p}session_uploads WHERE wire = ?"), (wire,))
    cache.connection.execute(cache.sql("DELETE FROM {p}session_sent WHERE wire = ?"), (wire,))


def rewind_waiting(cache: Cache, wire: bytes, writer: bytes) -> None:
    """Drop a session's waiting records and put its chain back to the last record that was sent."""
    row = cache.connection.execute(
        cache.sql("SELECT raw FROM {p}session_outbox WHERE wire = ? ORDER BY row LIMIT 1"), (wire,)
    ).fetchone()
    if row is None:
        return
    first = parse(bytes(row[0])).header
    cache.connection.execute(cache.sql("DELETE FROM {p}session_outbox WHERE wire = ?"), (wire,))
    cache.connection.execute(
        cache.sql("DELETE FROM {p}session_chains WHERE wire = ? AND writer = ?"), (wire, writer)
    )
    if first.n > 1:
        cache.connection.execute(
            cache.sql("INSERT INTO {p}session_chains VALUES (?, ?, ?, ?, ?)"),
            (wire, writer, first.device, first.n - 1, first.prev),
        )


def forget_log(cache: Cache) -> None:
    """Nothing is sent, nothing was received: the state before the first sync with an account. Call
    inside a transaction."""
    for table in ("outbox", "sent", "uploads", "chains", "tombstones", "quarantine"):
        cache.connection.execute(cache.sql(f"DELETE FROM {{p}}session_{table}"))
    bounded = cache.connection.execute(
        cache.sql("SELECT DISTINCT session FROM {p}session_entries WHERE stamp > received + ?"),
        (MAX_SKEW_MS,),
    ).fetchall()
    cache.connection.execute(cache.sql("UPDATE {p}session_entries SET sealed = 0, received = NULL"))
    cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET deleted = 1 WHERE deleted = 2"))
    for (session,) in bounded:
        refresh(cache, session)


def is_waited_for(cache: Cache, wire: bytes) -> bool:
    """True when something of this session was still to be sent."""
    row = cache.connection.execute(
        cache.sql(
            "SELECT EXISTS (SELECT 1 FROM {p}session_outbox WHERE wire = ?) OR EXISTS ("
            " SELECT 1 FROM {p}session_entries e JOIN {p}session_sessions s ON s.key = e.session"
            " WHERE s.wire = ? AND s.deleted = 0 AND e.sealed = 0)"
        ),
        (wire, wire),
    ).fetchone()
    return bool(row[0])


def waits(cache: Cache) -> bool:
    """True when this machine has something to send."""
    return bool(unsealed_sessions(cache)) or count(cache) > 0
