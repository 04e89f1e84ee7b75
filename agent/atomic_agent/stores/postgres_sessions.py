"""Session rows in Postgres: made, found, listed, folded, deleted. Reads no entry."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import Struct

from atomic_agent.cache.digest import Digest
from atomic_agent.stores.postgres_connection import Database, Record
from atomic_agent.stores.postgres_text import identity, kept, kept_or_none, said, said_or_none
from atomic_agent.stores.rows import Row
from atomic_sessions.clock import Order
from atomic_sessions.entry import Facts
from atomic_sessions.formats.lines import plain
from atomic_sessions.ids import PREFIX, SessionKey

_PAGE = 200
_BEGINNING = 8

_COLUMNS = (
    "key, agent, id, scope, cwd, project, created_at, parent, internal, header, name, title, first_message, summary,"
    " messages, sorted_at, newest_id, next_pos"
)


class Found(Struct, frozen=True):
    """A session and its number here; `next_pos` is the place of its next line."""

    key: int
    row: Row
    next_pos: int


class Standing(Struct, frozen=True):
    """Where a person moved in a session, and over which newest message: None when they never did. `newest` is now's."""

    key: int
    leaf: str | None
    over: Order | None
    newest: Order
    newest_id: str | None


_BY_IDENTITY = f'SELECT {_COLUMNS} FROM "{{p}}session_sessions" WHERE identity = $1'
# So that two who append at once do so one after the other.
_BY_IDENTITY_LOCKED = f"{_BY_IDENTITY} FOR UPDATE"


def by_identity(database: Database, session: SessionKey, *, locked: bool = False) -> Found | None:
    """The session of this identity; `locked` until the transaction ends."""
    found = database.one(_BY_IDENTITY_LOCKED if locked else _BY_IDENTITY, identity(session))
    return None if found is None else _found(found)


_NEW = (
    'INSERT INTO "{p}session_sessions"'
    " (identity, agent, id, scope, beginning, cwd, project, created_at, parent, internal, header)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    ' ON CONFLICT ON CONSTRAINT "{p}session_once" DO NOTHING RETURNING key'
)


def make(database: Database, facts: Facts) -> int | None:
    """The number of a new session; None when there is one of its identity."""
    found = database.one(
        _NEW,
        identity(facts.key),
        kept(facts.agent),
        kept(facts.id),
        kept(facts.scope),
        _beginning(facts.id),
        kept(facts.cwd),
        kept(facts.project),
        facts.created_at,
        kept(facts.parent),
        facts.internal,
        facts.header,
    )
    return None if found is None else int(found["key"])


_KEYS = (
    'SELECT key FROM "{p}session_sessions" WHERE ($1 OR NOT internal)'
    " AND ($2::bytea IS NULL OR (project = $2 AND length(project) > 0) OR (cwd = $3 AND length(cwd) > 0))"
    " ORDER BY sorted_at DESC, newest_tag DESC, id, key LIMIT $4 OFFSET $5"
)
_BY_KEYS = f'SELECT {_COLUMNS} FROM "{{p}}session_sessions" WHERE key = ANY($1::bigint[])'


def listed(
    database: Database,
    *,
    project: str | None = None,
    folder: str = "",
    internal: bool = False,
    limit: int = -1,
    offset: int = 0,
    among: Collection[int] | None = None,
) -> Iterator[tuple[int, Row]]:
    """What `Store.listed` answers, with the numbers; of some numbers, or all. The order is found first, by numbers
    alone, and the rows as they are asked for."""
    order = database.fetch(
        _KEYS, internal, kept_or_none(project), kept(folder), None if limit < 0 else limit, offset
    )
    keys = [int(found["key"]) for found in order if among is None or found["key"] in among]
    for at in range(0, len(keys), _PAGE):
        page = keys[at : at + _PAGE]
        rows = {found["key"]: _found(found).row for found in database.fetch(_BY_KEYS, page)}
        yield from ((key, rows[key]) for key in page if key in rows)


_MEANT = f'SELECT {_COLUMNS} FROM "{{p}}session_sessions" WHERE id = $1 OR beginning = $2'


def meant(database: Database, wanted: str) -> list[Row]:
    """The sessions an id may mean, for `rows.choose`."""
    wanted = plain(wanted)
    beginning = _beginning(wanted) if PREFIX.fullmatch(wanted) else None
    return [_found(found).row for found in database.fetch(_MEANT, kept(wanted), beginning)]


_BEGUN = f'SELECT {_COLUMNS} FROM "{{p}}session_sessions" WHERE beginning = ANY($1::bytea[])'


def begun_like(database: Database, rows: Sequence[Row]) -> list[Row]:
    """All sessions whose ids begin like one of these."""
    beginnings = list({_beginning(row.facts.id) for row in rows})
    return [_found(found).row for found in database.fetch(_BEGUN, beginnings)]


_DELETE = 'DELETE FROM "{p}session_sessions" WHERE key = $1'


def delete(database: Database, key: int) -> None:
    """A session with its entries."""
    database.run(_DELETE, key)


_FIELDS = Digest.__struct_fields__
_TEXTS = frozenset({"name", "title", "first_message", "summary", "newest_id", "cwd"})
_DIGEST = f'SELECT {", ".join(_FIELDS)} FROM "{{p}}session_sessions" WHERE key = $1'
_SET_DIGEST = (
    'UPDATE "{p}session_sessions" SET '
    + ", ".join(
        # A known folder stays.
        f"{field} = CASE length(cwd) WHEN 0 THEN ${at} ELSE cwd END" if field == "cwd" else f"{field} = ${at}"
        for at, field in enumerate(_FIELDS, 2)
    )
    + " WHERE key = $1"
)


def load_digest(database: Database, key: int) -> Digest:
    """What the row says of the entries so far."""
    found = database.one(_DIGEST, key)
    assert found is not None, "the row is locked"
    values: dict[str, Any] = {  # columns of several types
        field: said_or_none(found[field]) if field in _TEXTS else found[field] for field in _FIELDS
    }
    return Digest(**values)


def save_digest(database: Database, key: int, digest: Digest) -> None:
    values = [getattr(digest, field) for field in _FIELDS]
    database.run(_SET_DIGEST, key, *(kept(value) if isinstance(value, str) else value for value in values))


_STANDING = (
    "SELECT key, moved_leaf, moved_over, moved_tag, newest_at, newest_tag, newest_id"
    ' FROM "{p}session_sessions" WHERE identity = $1'
)


def standing(database: Database, session: SessionKey) -> Standing | None:
    """What decides where a session opens."""
    found = database.one(_STANDING, identity(session))
    if found is None:
        return None
    over = None if found["moved_over"] is None else (found["moved_over"], found["moved_tag"])
    newest = found["newest_at"], found["newest_tag"]
    return Standing(
        found["key"], said_or_none(found["moved_leaf"]), over, newest, said_or_none(found["newest_id"])
    )


_MOVE = (
    'UPDATE "{p}session_sessions" SET moved_leaf = $2, moved_over = newest_at, moved_tag = newest_tag'
    " WHERE key = $1"
)


def move(database: Database, key: int, leaf: str | None) -> None:
    """Stand at another entry until a later message comes."""
    database.run(_MOVE, key, kept_or_none(leaf))


def _beginning(session: str) -> bytes:
    return kept(session[:_BEGINNING].lower())


def _found(found: Record) -> Found:
    facts = Facts(
        said(found["agent"]),
        said(found["id"]),
        said(found["scope"]),
        said(found["cwd"]),
        said(found["project"]),
        found["created_at"],
        said(found["parent"]),
        found["internal"],
        found["header"],
    )
    row = Row(
        facts,
        said(found["name"]),
        said(found["title"]),
        said(found["first_message"]),
        said(found["summary"]),
        found["messages"],
        found["sorted_at"],
        said_or_none(found["newest_id"]),
    )
    return Found(found["key"], row, found["next_pos"])
