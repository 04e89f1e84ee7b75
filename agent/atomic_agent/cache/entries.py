"""Entries of the cache: union on the way in, canonical order and branch tails on the way out.

What is inserted is indexed for search in the same transaction, whoever brought it (D6).
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.digest import Digest, load_digest, save_digest
from atomic_agent.cache.open import transaction
from atomic_agent.cache.packing import pack_all, unpack
from atomic_sessions import merge
from atomic_sessions.clock import MAX_SKEW_MS
from atomic_sessions.entry import Entry, Node, View
from atomic_sessions.formats.agents import viewer

_PAGE = 400
SEARCHED_CHARS = 1 << 20

Incoming = tuple[Entry, View]


class StoredEntry(Struct, frozen=True):
    """An entry with what the cache alone knows of it."""

    row: int
    entry: Entry
    received: int | None
    sealed: bool = False


class Added(Struct, frozen=True):
    """What an insert changed: how many entries are new."""

    new: int


def insert(
    cache: Cache,
    session: int,
    batch: Sequence[Incoming],
    *,
    received: int | None = None,
    sealed: bool = False,
) -> Added:
    """Put entries into a session by the rules of `merge`; call inside a transaction.

    `received`: ms when the service first saw them. `sealed`: they are in a record already. A session that
    was deleted takes nothing in. When an entry that was there changed, the row is left stale; call
    `refresh_stale` when the work is done.
    """
    if _is_deleted(cache, session):
        return Added(0)
    # By the object, not its bytes: hashing a large session costs more than all else here.
    views = {id(entry.raw): view for entry, view in batch}
    wanted: dict[str, Entry] = {}
    for entry, _ in batch:
        merge.add(wanted, entry)
    known = _known(cache, session, list(wanted))
    fresh: list[Entry] = []
    clashing: list[Entry] = []
    moved = False
    for entry in wanted.values():
        stored = known.get(entry.id)
        if stored is None:
            fresh.append(entry)
        elif stored.entry.raw == entry.raw:
            moved |= _join(cache, stored, entry, received, sealed)
        else:
            clashing.append(entry)
    _append(cache, session, fresh, views, received, sealed)
    new = len(fresh)
    for entry in clashing:
        new += _settle(cache, session, entry, views, received, sealed)
    if moved or clashing:
        _mark_stale(cache, session)
    return Added(new)


def _is_deleted(cache: Cache, session: int) -> bool:
    row = cache.connection.execute(
        cache.sql("SELECT deleted FROM {p}session_sessions WHERE key = ?"), (session,)
    ).fetchone()
    return row is None or bool(row[0])


def _mark_stale(cache: Cache, session: int) -> None:
    cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET stale = 1 WHERE key = ?"), (session,))


def refresh_stale(cache: Cache) -> None:
    """Make the rows anew whose entries changed: once a session, however many batches changed it."""
    rows = cache.connection.execute(
        cache.sql("SELECT key FROM {p}session_sessions WHERE stale = 1")
    ).fetchall()
    for (session,) in rows:
        with transaction(cache.connection):
            refresh(cache, session)


def refresh(cache: Cache, session: int) -> None:
    """Make a session's row anew from its entries: needed only when an entry that was there changed its
    place, its time or its id. Call inside a transaction."""
    digest = Digest()
    agent, internal = cache.connection.execute(
        cache.sql("SELECT agent, internal FROM {p}session_sessions WHERE key = ?"), (session,)
    ).fetchone()
    view = viewer(agent, internal=bool(internal))
    for stored in read(cache, session):
        if not stored.entry.file:
            digest.fold(stored.entry, view(stored.entry.raw), stored.received)
    save_digest(cache, session, digest)
    cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET stale = 0 WHERE key = ?"), (session,))


def acknowledge(cache: Cache, session: int, ids: Sequence[str], received: int) -> None:
    """The service first saw these entries at `received` ms; call inside a transaction."""
    late = False
    for at in range(0, len(ids), _PAGE):
        page = ids[at : at + _PAGE]
        marks = ",".join("?" * len(page))
        rows = cache.connection.execute(
            cache.sql(
                "UPDATE {p}session_entries SET received = min(coalesce(received, ?), ?)"
                f" WHERE session = ? AND id IN ({marks}) RETURNING stamp"
            ),
            (received, received, session, *page),
        ).fetchall()
        late |= any(stamp > received + MAX_SKEW_MS for (stamp,) in rows)
    if late:
        _mark_stale(cache, session)


def unsealed_at(cache: Cache, session: int, pos: int) -> list[StoredEntry]:
    """The entries at a place that are in no record yet: what this machine alone knows of."""
    return list(stored_rows(cache, "session = ? AND file = '' AND pos = ? AND sealed = 0", (session, pos)))


def ends(cache: Cache, session: int) -> int:
    """How many branches end in a message: user or assistant messages that none follows."""
    row = cache.connection.execute(
        cache.sql(
            "WITH RECURSIVE said (id, parent) AS (SELECT id, parent FROM {p}session_entries"
            "   WHERE session = :s AND role IN ('user', 'assistant')),"
            " above (id) AS (SELECT parent FROM said WHERE parent IS NOT NULL UNION"
            "   SELECT e.parent FROM above a JOIN {p}session_entries e ON e.session = :s AND e.id = a.id"
            "   WHERE e.parent IS NOT NULL)"
            " SELECT count(*) FROM said WHERE id NOT IN (SELECT id FROM above)"
        ),
        {"s": session},
    ).fetchone()
    return int(row[0])


def has_children(cache: Cache, session: int, entry_id: str) -> bool:
    found = cache.connection.execute(
        cache.sql("SELECT 1 FROM {p}session_entries WHERE session = ? AND parent = ? LIMIT 1"),
        (session, entry_id),
    ).fetchone()
    return found is not None


def take_back(cache: Cache, session: int, row: int) -> None:
    """Take out an entry of `unsealed_at` that turned out to be the beginning of another line; call inside
    a transaction."""
    _remove(cache, row)
    _mark_stale(cache, session)


def _known(cache: Cache, session: int, ids: list[str]) -> dict[str, StoredEntry]:
    empty = cache.connection.execute(
        cache.sql("SELECT 1 FROM {p}session_entries WHERE session = ? LIMIT 1"), (session,)
    ).fetchone()
    found: dict[str, StoredEntry] = {}
    if empty is None:
        return found
    for at in range(0, len(ids), _PAGE):
        page = ids[at : at + _PAGE]
        marks = ",".join("?" * len(page))
        rows = cache.connection.execute(
            cache.sql(f"SELECT {_ENTRY} FROM {{p}}session_entries WHERE session = ? AND id IN ({marks})"),
            (session, *page),
        )
        for values in rows:
            stored = _stored(values)
            found[stored.entry.id] = stored
    return found


def _join(cache: Cache, stored: StoredEntry, entry: Entry, received: int | None, sealed: bool) -> bool:
    """Join two sightings of a line; True when its place or time changed.

    The entry counts as sealed only when a record tells what the join came to, so that an earlier place or
    stamp known here alone still reaches the other machines. Both only fall, so this ends.
    """
    joined = merge.join(stored.entry, entry)
    first = stored.received if received is None else min(received, stored.received or received)
    # A log that was refilled may say a later time than this machine knows.
    in_time = stored.received is None or received is None or received <= stored.received
    told = (sealed and in_time and joined == entry) or (stored.sealed and joined == stored.entry)
    if joined != stored.entry or first != stored.received or told != stored.sealed:
        cache.connection.execute(
            cache.sql(
                "UPDATE {p}session_entries SET parent = ?, loose = ?, pos = ?, stamp = ?, received = ?, sealed = ?"
                " WHERE row = ?"
            ),
            (joined.parent, int(joined.loose), joined.pos, joined.stamp, first, int(told), stored.row),
        )
    bounded = first is not None and first != stored.received and joined.stamp > first + MAX_SKEW_MS
    return joined != stored.entry or bounded


def _settle(
    cache: Cache,
    session: int,
    entry: Entry,
    views: dict[int, View],
    received: int | None,
    sealed: bool,
) -> int:
    """Put in one line whose id another line may carry; 1 when it is new. Each step looks again, since
    the one before may have given an id away."""
    stored = _known(cache, session, [entry.id]).get(entry.id)
    if stored is not None:
        if stored.entry.raw == entry.raw:
            _join(cache, stored, entry, received, sealed)
            return 0
        if merge.keeps_id(stored.entry.raw, entry.raw):
            renamed = msgspec.structs.replace(entry, id=merge.clashing_id(entry.id, entry.raw))
            return _settle(cache, session, renamed, views, received, sealed)
        _rename(cache, session, stored, merge.clashing_id(entry.id, stored.entry.raw))
    _append(cache, session, [entry], views, received, sealed)
    return 1


def _rename(cache: Cache, session: int, stored: StoredEntry, to: str) -> None:
    """Give a stored line another id, by the same rules as when it came in."""
    there = _known(cache, session, [to]).get(to)
    if there is not None:
        if there.entry.raw == stored.entry.raw:
            _join(cache, there, stored.entry, stored.received, sealed=False)
            _remove(cache, stored.row)
            return
        if merge.keeps_id(there.entry.raw, stored.entry.raw):
            _rename(cache, session, stored, merge.clashing_id(to, stored.entry.raw))
            return
        _rename(cache, session, there, merge.clashing_id(to, there.entry.raw))
    cache.connection.execute(
        cache.sql("UPDATE {p}session_entries SET id = ? WHERE row = ?"), (to, stored.row)
    )


def _remove(cache: Cache, row: int) -> None:
    cache.connection.execute(cache.sql("DELETE FROM {p}session_search WHERE rowid = ?"), (row,))
    cache.connection.execute(cache.sql("DELETE FROM {p}session_entries WHERE row = ?"), (row,))


def _append(
    cache: Cache,
    session: int,
    fresh: list[Entry],
    views: dict[int, View],
    received: int | None,
    sealed: bool,
) -> None:
    if not fresh:
        return
    row = int(
        cache.connection.execute(
            cache.sql("SELECT coalesce(max(row), 0) FROM {p}session_entries")
        ).fetchone()[0]
    )
    rows: list[tuple[object, ...]] = []
    texts: list[tuple[int, str]] = []
    packed = pack_all([entry.raw for entry in fresh])
    for entry, (codec, stored) in zip(fresh, packed, strict=True):
        row += 1
        view = views[id(entry.raw)]
        role = view.role if view.counts else ""
        rows.append(
            (
                row,
                session,
                entry.id,
                entry.parent,
                entry.pos,
                entry.stamp,
                received,
                view.kind,
                role,
                int(entry.loose),
                entry.file,
                int(sealed),
                len(entry.raw),
                codec,
                stored,
            )
        )
        text = searched(view)
        if text:
            texts.append((row, text))
    cache.connection.executemany(
        cache.sql("INSERT INTO {p}session_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"), rows
    )
    if texts:
        cache.connection.executemany(
            cache.sql("INSERT INTO {p}session_search (rowid, text) VALUES (?, ?)"), texts
        )
    digest = load_digest(cache, session)
    for entry in fresh:
        digest.fold(entry, views[id(entry.raw)], received)
    save_digest(cache, session, digest)


def searched(view: View) -> str:
    """The text an entry is found by: what was said, and names, titles and summaries; of a very long one its
    beginning."""
    return _searched(view)[:SEARCHED_CHARS]


def _searched(view: View) -> str:
    if view.decides or (view.role in {"summary", "custom"} and view.kind != "message"):
        return view.spoken()
    return view.text if view.kind in {"session_info", "title", "session_summary"} else ""


_ENTRY = "row, id, parent, pos, stamp, received, loose, file, sealed, codec, raw"


def _stored(values: tuple) -> StoredEntry:  # type: ignore[type-arg]  # a database row
    row, entry_id, parent, pos, stamp, received, loose, file, sealed, codec, raw = values
    entry = Entry(entry_id, parent, pos, stamp, unpack(codec, raw), bool(loose), file)
    return StoredEntry(row, entry, received, bool(sealed))


def stored_rows(cache: Cache, condition: str, values: tuple[object, ...]) -> Iterator[StoredEntry]:
    """Entries by a fixed SQL condition, streamed."""
    for found in cache.connection.execute(
        cache.sql(f"SELECT {_ENTRY} FROM {{p}}session_entries WHERE {condition}"), values
    ):
        yield _stored(found)


def read(cache: Cache, session: int) -> Iterator[StoredEntry]:
    """All entries in canonical order, streamed."""
    yield from stored_rows(cache, "session = ? ORDER BY file, pos, stamp, id", (session,))


def climb(cache: Cache, session: int, leaf: str | None) -> Iterator[Entry]:
    """Entries from the leaf to the root; each is one look-up, so the cost is what is asked for."""
    statement = cache.sql(
        f"SELECT {_ENTRY} FROM {{p}}session_entries WHERE session = ? AND id = ? AND loose = 0"
    )
    seen: set[str] = set()
    at = leaf
    while at is not None and at not in seen:
        seen.add(at)
        values = cache.connection.execute(statement, (session, at)).fetchone()
        if values is None:
            return
        entry = _stored(values).entry
        yield entry
        at = entry.parent


def one(cache: Cache, session: int, entry_id: str) -> Entry | None:
    """One entry by its id."""
    values = cache.connection.execute(
        cache.sql(f"SELECT {_ENTRY} FROM {{p}}session_entries WHERE session = ? AND id = ?"),
        (session, entry_id),
    ).fetchone()
    return None if values is None else _stored(values).entry


def at_wire(cache: Cache, wire: bytes, entry_id: str) -> bytes | None:
    """The raw line of an entry of the session with this wire id, None when it is not here."""
    row = cache.connection.execute(
        cache.sql(
            "SELECT e.codec, e.raw FROM {p}session_entries e JOIN {p}session_sessions s ON s.key = e.session"
            " WHERE s.wire = ? AND e.id = ?"
        ),
        (wire, entry_id),
    ).fetchone()
    return None if row is None else unpack(row[0], row[1])


def stamp_of(cache: Cache, session: int, entry_id: str) -> int:
    """The stamp of an entry, 0 when it is unknown."""
    values = cache.connection.execute(
        cache.sql("SELECT stamp FROM {p}session_entries WHERE session = ? AND id = ?"), (session, entry_id)
    ).fetchone()
    return 0 if values is None else int(values[0])


def nodes(entries: Iterable[StoredEntry | Entry], views: Iterable[View]) -> list[Node]:
    """Entries and their views as tree nodes, loose lines left out."""
    found = []
    for item, view in zip(entries, views, strict=True):
        entry = item.entry if isinstance(item, StoredEntry) else item
        if not entry.loose and not entry.file:
            found.append(Node(entry.id, entry.parent, entry.stamp, view))
    return found
