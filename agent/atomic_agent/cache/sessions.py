"""Session rows: made, found, listed, named, deleted. Reads no entry's bytes."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_sessions.entry import Facts
from atomic_sessions.errors import AmbiguousError, NotFoundError
from atomic_sessions.ids import PREFIX, UUID, SessionKey, wire_id


class SessionRow(Struct, frozen=True):
    """One session as lists show it. Times in ms; `newest_at` falls back to the creation time."""

    key: int
    agent: str
    id: str
    scope: str
    wire: bytes | None
    cwd: str
    project: str
    created_at: int
    parent: str
    internal: bool
    header: bytes
    name: str
    title: str
    first_message: str
    summary: str
    messages: int
    next_pos: int
    newest_at: int
    newest_id: str | None

    @property
    def facts(self) -> Facts:
        return Facts(
            self.agent,
            self.id,
            self.scope,
            self.cwd,
            self.project,
            self.created_at,
            self.parent,
            self.internal,
            self.header,
        )

    @property
    def label(self) -> str:
        """What a person calls it: its name, else its agent's title, else how it began."""
        return self.name or self.title or self.first_message or "(no messages)"


_COLUMNS = (
    "key, agent, id, scope, wire, cwd, project, created_at, parent, internal, header, name, title, first_message,"
    " summary, messages, next_pos, CASE newest_at WHEN 0 THEN created_at ELSE newest_at END, newest_id"
)


_FIELDS = SessionRow.__struct_fields__


def _row(values: tuple) -> SessionRow:  # type: ignore[type-arg]  # a database row
    return msgspec.convert(dict(zip(_FIELDS, values, strict=True)), SessionRow, strict=False)


def get(cache: Cache, key: int) -> SessionRow:
    """The row of a session that is known to exist, deleted or not."""
    found = cache.connection.execute(
        cache.sql(f"SELECT {_COLUMNS} FROM {{p}}session_sessions WHERE key = ?"), (key,)
    ).fetchone()
    if found is None:
        raise NotFoundError("The session is no longer there.", "See: atomic sessions")
    return _row(found)


def wire_of(cache: Cache, row: SessionRow, id_key: bytes) -> bytes:
    """The session's wire id, written down when it is first needed."""
    if row.wire is not None:
        return row.wire
    wire = wire_id(id_key, SessionKey(row.agent, row.id, row.scope))
    cache.connection.execute(
        cache.sql("UPDATE {p}session_sessions SET wire = ? WHERE key = ?"), (wire, row.key)
    )
    return wire


def by_key(cache: Cache, session: SessionKey) -> SessionRow | None:
    """The session of this identity, deleted ones left out."""
    found = cache.connection.execute(
        cache.sql(
            f"SELECT {_COLUMNS} FROM {{p}}session_sessions"
            " WHERE agent = ? AND id = ? AND scope = ? AND deleted = 0"
        ),
        (session.agent, session.id, session.scope),
    ).fetchone()
    return None if found is None else _row(found)


def is_deleted(cache: Cache, session: SessionKey) -> bool:
    """True when a person deleted it here or elsewhere; nothing revives it (C4)."""
    found = cache.connection.execute(
        cache.sql("SELECT deleted FROM {p}session_sessions WHERE agent = ? AND id = ? AND scope = ?"),
        (session.agent, session.id, session.scope),
    ).fetchone()
    return found is not None and bool(found[0])


def by_wire(cache: Cache, wire: bytes) -> SessionRow | None:
    """The session that syncs under this id, deleted ones left out."""
    found = cache.connection.execute(
        cache.sql(f"SELECT {_COLUMNS} FROM {{p}}session_sessions WHERE wire = ? AND deleted = 0"), (wire,)
    ).fetchone()
    return None if found is None else _row(found)


def ensure(cache: Cache, facts: Facts, id_key: bytes | None = None) -> int:
    """The key of this session's row, made if there is none; call inside a transaction.

    A row that was made before its folder or project was known takes them from `facts`.
    """
    key = SessionKey(facts.agent, facts.id, facts.scope)
    wire = wire_id(id_key, key) if id_key is not None else None
    row = cache.connection.execute(
        cache.sql(
            "INSERT INTO {p}session_sessions"
            " (agent, id, scope, wire, cwd, project, created_at, parent, internal, header)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (agent, id, scope) DO UPDATE SET"
            " wire = coalesce(wire, excluded.wire),"
            " cwd = CASE cwd WHEN '' THEN excluded.cwd ELSE cwd END,"
            " project = CASE project WHEN '' THEN excluded.project ELSE project END,"
            " created_at = CASE WHEN excluded.created_at > 0"
            "   THEN min(created_at, excluded.created_at) ELSE created_at END"
            " RETURNING key"
        ),
        (
            facts.agent,
            facts.id,
            facts.scope,
            wire,
            facts.cwd,
            facts.project,
            facts.created_at,
            facts.parent,
            int(facts.internal),
            facts.header,
        ),
    ).fetchone()
    return int(row[0])


def listed(
    cache: Cache, *, project: str | None = None, internal: bool = False, limit: int = -1, offset: int = 0
) -> Iterator[SessionRow]:
    """Sessions, newest message first; of one project, or of all."""
    where = ["deleted = 0"]
    values: list[object] = []
    if project is not None:
        where.append("project = ?")
        values.append(project)
    if not internal:
        where.append("internal = 0")
    statement = (
        f"SELECT {_COLUMNS} FROM {{p}}session_sessions WHERE {' AND '.join(where)}"
        " ORDER BY CASE newest_at WHEN 0 THEN created_at ELSE newest_at END DESC, newest_tag DESC, id"
        " LIMIT ? OFFSET ?"
    )
    for values_ in cache.connection.execute(cache.sql(statement), (*values, limit, offset)):
        yield _row(values_)


def find(cache: Cache, wanted: str, project: str) -> SessionRow:
    """The session a person means: an exact id, or eight hex characters of a UUID (B8).

    Looked for in the project first, then everywhere. NotFoundError, or AmbiguousError with the ids.
    """
    exact = _select(cache, "id = ?", (wanted,))
    if exact:
        return _one(exact, project, wanted)
    if PREFIX.fullmatch(wanted):
        pattern = wanted.lower()
        matches = [
            r for r in _select(cache, "substr(lower(id), 1, 8) = ?", (pattern,)) if UUID.fullmatch(r.id)
        ]
        if matches:
            return _one(matches, project, wanted)
    if any(sign in wanted for sign in ("/", "\\")) or wanted.endswith(".jsonl"):
        raise NotFoundError(
            "That is a path, not a session id.", "To bring a file in use: atomic --import FILE"
        )
    raise NotFoundError(
        f"There is no session '{wanted[:64]}'.",
        "Use the whole id or its first eight characters; see: atomic sessions --all",
    )


def _select(cache: Cache, condition: str, values: tuple[object, ...]) -> list[SessionRow]:
    rows = cache.connection.execute(
        cache.sql(f"SELECT {_COLUMNS} FROM {{p}}session_sessions WHERE deleted = 0 AND {condition} LIMIT 50"),
        values,
    )
    return [_row(values_) for values_ in rows]


def _one(rows: list[SessionRow], project: str, wanted: str) -> SessionRow:
    local = [row for row in rows if row.project == project]
    rows = local or rows
    if len(rows) == 1:
        return rows[0]
    ids = ", ".join(f"{row.id} ({row.agent})" for row in rows)
    raise AmbiguousError(f"'{wanted[:64]}' fits several sessions: {ids}.", "Give the whole id.")


def children(cache: Cache, row: SessionRow) -> list[SessionRow]:
    """The sub-agents' sessions of a session."""
    found = cache.connection.execute(
        cache.sql(
            f"SELECT {_COLUMNS} FROM {{p}}session_sessions"
            " WHERE agent = ? AND parent = ? AND internal = 1 AND deleted = 0"
        ),
        (row.agent, row.id),
    )
    return [_row(values) for values in found]


def rekey(cache: Cache, id_key: bytes) -> None:
    """Compute each session's wire id anew, as after joining an account."""
    with transaction(cache.connection):
        cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET wire = NULL"))
        rows = cache.connection.execute(
            cache.sql("SELECT key, agent, id, scope FROM {p}session_sessions")
        ).fetchall()
        cache.connection.executemany(
            cache.sql("UPDATE {p}session_sessions SET wire = ? WHERE key = ?"),
            [(wire_id(id_key, SessionKey(agent, sid, scope)), key) for key, agent, sid, scope in rows],
        )


def bury(cache: Cache, wire: bytes) -> int:
    """A session that the account knows to be dead; 1 when it lived here until now. Call inside a
    transaction."""
    row = cache.connection.execute(
        cache.sql("SELECT key, deleted FROM {p}session_sessions WHERE wire = ?"), (wire,)
    ).fetchone()
    if row is None:
        return 0
    mark_deleted(cache, row[0])
    cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET deleted = 2 WHERE key = ?"), (row[0],))
    return int(not row[1])


def doomed(cache: Cache) -> list[int]:
    """Sessions deleted here whose tombstone is neither acknowledged nor waiting to be sent."""
    rows = cache.connection.execute(
        cache.sql(
            "SELECT key FROM {p}session_sessions s WHERE deleted = 1"
            " AND NOT EXISTS (SELECT 1 FROM {p}session_outbox o WHERE o.session = s.key)"
        )
    )
    return [int(row[0]) for row in rows.fetchall()]


def mark_deleted(cache: Cache, key: int) -> None:
    """Take every trace of a session's content out of the cache; its identity stays, so that nothing
    brings it back (`deleted` 1: its tombstone has to reach the account, 2: it did). Call inside a
    transaction."""
    run = cache.connection.execute
    rows = cache.sql("SELECT row FROM {p}session_entries WHERE session = ?")
    run(cache.sql(f"DELETE FROM {{p}}session_search WHERE rowid IN ({rows})"), (key,))
    for table in ("entries", "outbox", "turns", "claims", "files"):
        run(cache.sql(f"DELETE FROM {{p}}session_{table} WHERE session = ?"), (key,))
    run(
        cache.sql(
            "UPDATE {p}session_sessions SET deleted = max(deleted, 1), cwd = '', project = '', header = X'',"
            " name = '', title = '', first_message = '', summary = '', messages = 0, newest_id = NULL WHERE key = ?"
        ),
        (key,),
    )
