"""Session rows: made, found, listed, named, deleted. Reads no entry's bytes."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_sessions.entry import Facts
from atomic_sessions.errors import NotFoundError
from atomic_sessions.formats.lines import plain
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

    def __repr__(self) -> str:
        return f"<SessionRow {self.agent} {self.id!r} {self.messages}>"

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
    wire = wire_id(id_key, row.facts.key)
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


def ensure(cache: Cache, facts: Facts, id_key: bytes | None = None, *, spread: bool = False) -> int:
    """The key of this session's row, made if there is none; call inside a transaction.

    Of two places a session is known by, the better one holds on every machine: a remote before a root
    commit before a path. `spread`: what this machine knows better travels with the next record.
    """
    key = facts.key
    wire = wire_id(id_key, key) if id_key is not None else None
    found = cache.connection.execute(
        cache.sql(
            "SELECT key, project, cwd, deleted FROM {p}session_sessions WHERE agent = ? AND id = ? AND scope = ?"
        ),
        (key.agent, key.id, key.scope),
    ).fetchone()
    if found is None:
        return _new_row(cache, facts, wire)
    number, project, cwd, deleted = found
    better = not deleted and _place(facts.project, facts.cwd) < _place(project, cwd)
    if better:
        project, cwd = facts.project, facts.cwd or cwd
    cache.connection.execute(
        cache.sql(
            "UPDATE {p}session_sessions SET wire = coalesce(wire, ?), project = ?, cwd = ?,"
            " created_at = CASE WHEN ? > 0 THEN min(created_at, ?) ELSE created_at END,"
            " header = CASE WHEN deleted = 0 AND length(header) = 0 THEN ? ELSE header END WHERE key = ?"
        ),
        (wire, project, cwd, facts.created_at, facts.created_at, facts.header, number),
    )
    if better and spread:
        cache.connection.execute(
            cache.sql(
                "UPDATE {p}session_entries SET sealed = 0"
                " WHERE row = (SELECT max(row) FROM {p}session_entries WHERE session = ?)"
            ),
            (number,),
        )
    return int(number)


def _place(project: str, cwd: str) -> tuple[int, str, bool, str]:
    """How well a place says where a session belongs; less is better, the same order on every machine."""
    kind = project.partition(":")[0]
    return _KINDS.get(kind, len(_KINDS)), project, not cwd, cwd


_KINDS = {"git": 0, "root": 1, "path": 2}


def _new_row(cache: Cache, facts: Facts, wire: bytes | None) -> int:
    row = cache.connection.execute(
        cache.sql(
            "INSERT INTO {p}session_sessions"
            " (agent, id, scope, wire, cwd, project, created_at, parent, internal, header)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key"
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
    cache: Cache,
    *,
    project: str | None = None,
    folder: str = "",
    internal: bool = False,
    limit: int = -1,
    offset: int = 0,
) -> Iterator[SessionRow]:
    """Sessions, newest message first; of one project, or of all.

    `folder` counts as the project too: a repository that has just been given a remote is still the same.
    """
    where = ["deleted = 0"]
    values: list[object] = []
    if project is not None:
        where.append("(project = ? OR (cwd = ? AND cwd <> ''))")
        values.extend((project, folder))
    if not internal:
        where.append("internal = 0")
    statement = (
        f"SELECT {_COLUMNS} FROM {{p}}session_sessions WHERE {' AND '.join(where)}"
        " ORDER BY CASE newest_at WHEN 0 THEN created_at ELSE newest_at END DESC, newest_tag DESC, id"
        " LIMIT ? OFFSET ?"
    )
    for values_ in cache.connection.execute(cache.sql(statement), (*values, limit, offset)):
        yield _row(values_)


def _select(cache: Cache, condition: str, values: tuple[object, ...]) -> list[SessionRow]:
    rows = cache.connection.execute(
        cache.sql(f"SELECT {_COLUMNS} FROM {{p}}session_sessions WHERE deleted = 0 AND {condition} LIMIT 50"),
        values,
    )
    return [_row(values_) for values_ in rows]


def matching(cache: Cache, wanted: str) -> list[SessionRow]:
    """The sessions that may be meant by an id: whose id this is, or begins with these eight characters."""
    wanted = plain(wanted)
    exact = _select(cache, "id = ?", (wanted,))
    if not PREFIX.fullmatch(wanted):
        return exact
    return exact + _select(cache, "substr(lower(id), 1, 8) = ? AND id <> ?", (wanted.lower(), wanted))


def sharing(cache: Cache, session: str) -> int:
    """How many sessions have an id with the first eight characters of this one."""
    (count,) = cache.connection.execute(
        cache.sql(
            "SELECT count(*) FROM {p}session_sessions WHERE deleted = 0 AND substr(lower(id), 1, 8) = ?"
        ),
        (session[:8].lower(),),
    ).fetchone()
    return int(count)


def called(cache: Cache, session: str) -> str:
    """What a session can be called in a command: eight characters where they are enough, else the whole id.
    UUIDs made within a minute share their first eight."""
    if not UUID.fullmatch(session):
        return session
    return session[:8] if sharing(cache, session) == 1 else session


def children(cache: Cache, session: SessionKey, project: str) -> list[SessionRow]:
    """The sub-agents' sessions of a session. Another project may have one of the same id, unless it is a UUID."""
    found = cache.connection.execute(
        cache.sql(
            f"SELECT {_COLUMNS} FROM {{p}}session_sessions"
            " WHERE agent = ? AND parent = ? AND internal = 1 AND deleted = 0 AND (? OR project = ?)"
        ),
        (session.agent, session.id, UUID.fullmatch(session.id) is not None, project),
    )
    return [_row(values) for values in found]


def fill_wires(cache: Cache, id_key: bytes) -> None:
    """Give each session that has none yet its wire id, so that what comes for it finds it."""
    rows = cache.connection.execute(
        cache.sql("SELECT key, agent, id, scope FROM {p}session_sessions WHERE wire IS NULL")
    ).fetchall()
    if rows:
        with transaction(cache.connection):
            cache.connection.executemany(
                cache.sql("UPDATE {p}session_sessions SET wire = ? WHERE key = ?"),
                [(wire_id(id_key, SessionKey(agent, sid, scope)), key) for key, agent, sid, scope in rows],
            )


def rekey(cache: Cache, id_key: bytes) -> None:
    """Compute each session's wire id anew, as after joining an account."""
    with transaction(cache.connection):
        cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET wire = NULL"))
        fill_wires(cache, id_key)


def bury(cache: Cache, wire: bytes) -> int:
    """A session that the account knows to be dead, its sub-agents' with it; 1 when it lived here until
    now. Call inside a transaction."""
    found = cache.connection.execute(
        cache.sql("SELECT key, deleted, agent, id, scope, project FROM {p}session_sessions WHERE wire = ?"),
        (wire,),
    ).fetchone()
    if found is None:
        return 0
    key, deleted, agent, identity, scope, project = found
    mark_deleted(cache, key)
    cache.connection.execute(cache.sql("UPDATE {p}session_sessions SET deleted = 2 WHERE key = ?"), (key,))
    for child in children(cache, SessionKey(agent, identity, scope), project):
        mark_deleted(cache, child.key)
    return int(not deleted)


def is_orphaned(cache: Cache, row: SessionRow) -> bool:
    """True for a sub-agent's session whose parent was deleted."""
    if not row.internal or not row.parent:
        return False
    found = cache.connection.execute(
        cache.sql("SELECT 1 FROM {p}session_sessions WHERE agent = ? AND id = ? AND deleted > 0"),
        (row.agent, row.parent),
    ).fetchone()
    return found is not None


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
