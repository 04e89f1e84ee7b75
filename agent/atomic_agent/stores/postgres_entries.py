"""Entries of a session in Postgres: union on the way in, pages and walks on the way out. Holds no whole session.

A page is as many entries as fit its bytes, one at least: the server adds up sizes before it sends a line.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from atomic_agent.cache.digest import Digest
from atomic_agent.cache.entries import searched
from atomic_agent.stores.postgres_connection import Database, Record
from atomic_agent.stores.postgres_sessions import Standing, load_digest, save_digest
from atomic_agent.stores.postgres_text import index_of, kept, kept_or_none, said, said_or_none
from atomic_sessions import merge
from atomic_sessions.entry import Entry, Node, View
from atomic_sessions.tree import build
from atomic_sessions.tree import leaf as tree_leaf

MOST_BYTES = 4 << 20
"""Of the lines in one page, or in one batch that is written."""
_MOST_ENTRIES = 1000
_FIRST = -(1 << 63)

Viewer = Callable[[bytes], View]


def batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries as they come, in parts that can be written at once."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.raw)
        if len(batch) >= _MOST_ENTRIES or size >= MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def insert(database: Database, session: int, entries: Sequence[Entry], view: Viewer) -> None:
    """Put entries into a session by the rules of `merge`; inside a transaction that has locked its row."""
    known, merged = _merged(database, session, entries)
    changed = [entry for entry in merged.values() if known.get(entry.id) != entry]
    views = [view(entry.raw) for entry in changed]
    _put(database, session, changed, views)
    if any(entry.id in known for entry in changed):
        _refresh(database, session, view)
        return
    digest = load_digest(database, session)
    for entry, seen in zip(changed, views, strict=True):
        digest.fold(entry, seen, None)
    save_digest(database, session, digest)


def _merged(
    database: Database, session: int, entries: Sequence[Entry]
) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Those that are there of all that the union touches, and the union: a clash gives an id that may be there too."""
    known: dict[str, Entry] = {}
    asked: set[str] = set()
    while True:
        merged = dict(known)
        for entry in entries:
            merge.add(merged, entry)
        missing = merged.keys() - asked
        if not missing:
            return known, merged
        known.update(_by_ids(database, session, missing))
        asked |= missing


_BY_IDS = (
    'SELECT id, parent, pos, stamp, loose, raw FROM "{p}session_entries" WHERE session = $1'
    " AND sha256(id) IN (SELECT sha256(given) FROM unnest($2::bytea[]) AS given)"
)


def _by_ids(database: Database, session: int, ids: Collection[str]) -> dict[str, Entry]:
    found = database.fetch(_BY_IDS, session, [kept(identity) for identity in ids])
    return {entry.id: entry for entry in map(_entry, found)}


_PUT = (
    'INSERT INTO "{p}session_entries" (session, id, parent, pos, stamp, loose, decides, spoken, words, size, raw)'
    " SELECT $1, id, parent, pos, stamp, loose, decides, spoken, array_to_tsvector(string_to_array(words, ' ')), size,"
    "  raw"
    " FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::boolean[], $7::boolean[], $8::boolean[],"
    "  $9::text[], $10::bigint[], $11::bytea[])"
    "  AS given (id, parent, pos, stamp, loose, decides, spoken, words, size, raw)"
    " ON CONFLICT (session, sha256(id)) DO UPDATE SET"
    " parent = excluded.parent, pos = excluded.pos, stamp = excluded.stamp, loose = excluded.loose,"
    " decides = excluded.decides, spoken = excluded.spoken, words = excluded.words, size = excluded.size,"
    " raw = excluded.raw"
)


def _put(database: Database, session: int, entries: Sequence[Entry], views: Sequence[View]) -> None:
    """One statement for all, whose values are columns."""
    if not entries:
        return
    texts = [searched(view) for view in views]
    indexes = [index_of(text) for text in texts]
    database.run(
        _PUT,
        session,
        [kept(entry.id) for entry in entries],
        [kept_or_none(entry.parent) for entry in entries],
        [entry.pos for entry in entries],
        [entry.stamp for entry in entries],
        [entry.loose for entry in entries],
        [view.decides for view in views],
        [bool(text) for text in texts],
        [None if index is None else " ".join(index) for index in indexes],
        [len(entry.raw) for entry in entries],
        [entry.raw for entry in entries],
    )


def _refresh(database: Database, session: int, view: Viewer) -> None:
    """Make the row anew: needed when an entry that was there changed its place, its time or its bytes."""
    digest = Digest()
    for entry in pages(database, session):
        digest.fold(entry, view(entry.raw), None)
    save_digest(database, session, digest)


_SIZED = (
    "SELECT id, parent, pos, stamp, loose, raw FROM"
    " (SELECT *, sum(size) OVER (ORDER BY pos, stamp, id) - size AS before"
    ' FROM (SELECT * FROM "{p}session_entries" WHERE session = $1 AND (pos, stamp, id) > ($2, $3, $4)%s'
    f" ORDER BY pos, stamp, id LIMIT {_MOST_ENTRIES}) AS next) AS sized"
    " WHERE before < $5::bigint ORDER BY pos, stamp, id"
)
_PAGE = _SIZED % ""
_MATCHING_PAGE = _SIZED % " AND spoken AND (words IS NULL OR words @@ $6::text::tsquery)"


def pages(
    database: Database, session: int, *, first: int = _FIRST, matching: str | None = None
) -> Iterator[Entry]:
    """The entries in canonical order from a place on; with `matching`, a tsquery, those that may match it."""
    statement, more = (_PAGE, ()) if matching is None else (_MATCHING_PAGE, (matching,))
    after = (first, _FIRST, b"")
    while found := database.fetch(statement, session, *after, MOST_BYTES, *more):
        yield from map(_entry, found)
        after = (found[-1]["pos"], found[-1]["stamp"], found[-1]["id"])


_UP = (
    "WITH RECURSIVE up (row, parent, size, depth, before) AS ("
    ' SELECT row, parent, size, 1, 0::bigint FROM "{p}session_entries"'
    "  WHERE session = $1 AND sha256(id) = sha256($2) AND NOT loose"
    " UNION ALL"
    ' SELECT e.row, e.parent, e.size, up.depth + 1, up.before + up.size FROM up JOIN "{p}session_entries" e'
    "  ON e.session = $1 AND sha256(e.id) = sha256(up.parent) AND NOT e.loose"
    f"  WHERE up.depth < {_MOST_ENTRIES} AND up.before + up.size < $3"
    ") SELECT e.row, e.id, e.parent, e.pos, e.stamp, e.loose, e.raw"
    ' FROM up JOIN "{p}session_entries" e ON e.row = up.row ORDER BY up.depth'
)


def climb(database: Database, session: int, leaf: str | None) -> Iterator[Entry]:
    """Entries from the leaf to the root; a cycle ends the walk where it closes."""
    seen: set[int] = set()
    size = 1 << 14  # most walks end soon: at a compaction, or at the few entries somebody looks at
    at = leaf
    while at is not None:
        found = database.fetch(_UP, session, kept(at), size)
        for one in found:
            if one["row"] in seen:
                return
            seen.add(one["row"])
            yield _entry(one)
        at = said_or_none(found[-1]["parent"]) if found else None
        size = min(size * 4, MOST_BYTES)


_ENDS = (
    "WITH RECURSIVE said (id, parent) AS MATERIALIZED ("
    ' SELECT id, parent FROM "{p}session_entries" WHERE session = $1 AND decides AND NOT loose),'
    " above (id) AS (SELECT parent FROM said WHERE parent IS NOT NULL UNION"
    ' SELECT e.parent FROM above a JOIN "{p}session_entries" e'
    "  ON e.session = $1 AND sha256(e.id) = sha256(a.id) AND NOT e.loose WHERE e.parent IS NOT NULL)"
    " SELECT count(*) FROM said WHERE NOT EXISTS (SELECT FROM above WHERE above.id = said.id)"
)


def ends(database: Database, session: int) -> int:
    """How many branches end in a message."""
    found = database.one(_ENDS, session)
    return 0 if found is None else int(found[0])


def one(database: Database, session: int, entry_id: str) -> Entry | None:
    """One entry by its id."""
    return _by_ids(database, session, [entry_id]).get(entry_id)


_TAIL = (
    'SELECT id, parent, stamp, decides FROM "{p}session_entries" WHERE session = $1 AND NOT loose AND pos >='
    ' coalesce((SELECT pos FROM "{p}session_entries" WHERE session = $1 AND sha256(id) = sha256($2)), 0)'
)


def leaf(database: Database, standing: Standing) -> str | None:
    """Where a session opens: where a person stands, else the end of the newest message's branch. `tree.leaf` over
    what lies behind that message, since an entry's place is before its children's."""
    if standing.over is not None and standing.over >= standing.newest:
        return standing.leaf
    nodes = [
        Node(
            said(found["id"]),
            said_or_none(found["parent"]),
            found["stamp"],
            View("message", role="user" if found["decides"] else ""),
        )
        for found in database.fetch(_TAIL, standing.key, kept_or_none(standing.newest_id))
    ]
    return tree_leaf(build(nodes), {})


def placed(entries: Iterable[Entry], first: int) -> Iterator[Entry]:
    """Entries at the next places; side files, which only sessions of other agents have, are not kept."""
    own = (entry for entry in entries if not entry.file)
    return (msgspec.structs.replace(entry, pos=pos) for pos, entry in enumerate(own, first))


def _entry(found: Record) -> Entry:
    return Entry(
        said(found["id"]),
        said_or_none(found["parent"]),
        found["pos"],
        found["stamp"],
        found["raw"],
        found["loose"],
    )
