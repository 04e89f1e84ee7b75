"""Sessions in a Postgres of the person's own: the driver `postgres`. Holds no statement of its own.

Nothing in it is encrypted by us: who owns the database can read everything. It never syncs. Options:
`{"url": {"env": "NAME"} or "postgres://…", "prefix"?: "…"}`; whether the way there is encrypted is up to the URL
(`sslmode=verify-full`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from atomic_agent.cache import claims
from atomic_agent.cache.claims import Claim
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.config.errors import SelectionError
from atomic_agent.stores import folders, postgres_entries, postgres_search, postgres_sessions, postgres_turns
from atomic_agent.stores.port import InFlight
from atomic_agent.stores.postgres_connection import Database
from atomic_agent.stores.postgres_entries import Viewer
from atomic_agent.stores.postgres_schema import checked_prefix, prepare
from atomic_agent.stores.postgres_sessions import Found
from atomic_agent.stores.rows import Hit, Moved, Row, called, choose, moved_by, not_there, taken
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import SessionKey

_MEND = 'Write {"driver": "postgres", "options": {"url": {"env": "NAME"}}}.'


def open_postgres(options: Mapping[str, Any], flags: tuple[str, ...] = ()) -> "PostgresStore":
    """Open the store in a database, and make its tables when there are none. The entry point of the driver."""
    url = options.get("url")
    if not isinstance(url, str) or not url.startswith(("postgres://", "postgresql://")):
        raise SelectionError('"url" in the driver\'s options has to be a URL: postgres://…', _MEND)
    if unknown := options.keys() - {"url", "prefix"}:
        raise SelectionError(f"The driver 'postgres' has no option \"{min(unknown)[:40]}\".", _MEND)
    database = Database(url, checked_prefix(options.get("prefix", "")))
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    return PostgresStore(database, flags)


class PostgresStore:
    """A store over a prepared database, whose connection it closes."""

    syncs = False

    def __init__(self, database: Database, flags: tuple[str, ...] = ()) -> None:
        self.database = database
        self.flags = flags
        self._me = claims.myself()

    @property
    def name(self) -> str:
        prefix = self.database.prefix
        return f"{self.database.place} ({prefix})" if prefix else self.database.place

    def project_of(self, folder: str) -> str:
        return folders.project_of(folder)

    def deleted(self, session: SessionKey) -> bool:
        return False

    def create(self, facts: Facts, entries: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        session = facts.key
        view = _viewer(facts)
        moved: Moved = None
        with self.database.transaction():
            key = postgres_sessions.make(self.database, facts)
            if key is None:
                raise taken(facts)
            for batch in postgres_entries.batches(postgres_entries.placed(entries, 0)):
                for entry in batch:
                    moved = moved_by(moved, entry, view(entry.raw))
                postgres_entries.insert(self.database, key, batch, view)
            if moved is not None and (
                moved[0] is None or postgres_entries.one(self.database, key, moved[0]) is not None
            ):
                postgres_sessions.move(self.database, key, moved[0])
            postgres_turns.drop(self.database, done)
            return self._there(session).row

    def get(self, session: SessionKey) -> Row | None:
        found = postgres_sessions.by_identity(self.database, session)
        return None if found is None else found.row

    def open(self, session: SessionKey) -> Row:
        return self._there(session).row

    def find(self, wanted: str, project: str) -> Row:
        return choose(postgres_sessions.meant(self.database, wanted), wanted, project)

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        found = postgres_sessions.listed(
            self.database, project=project, folder=folder, internal=internal, limit=limit, offset=offset
        )
        return (row for _, row in found)

    def called(self, rows: Sequence[Row]) -> list[str]:
        return called(rows, postgres_sessions.begun_like(self.database, rows))

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        return postgres_search.search(self.database, query, limit)

    def delete(self, session: SessionKey) -> None:
        with self.database.transaction():
            postgres_sessions.delete(self.database, self._there(session, locked=True).key)
            postgres_turns.forget(self.database, session)

    def append(self, session: SessionKey, entries: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        with self.database.transaction():
            found = self._there(session, locked=True)
            view = _viewer(found.row.facts)
            for batch in postgres_entries.batches(postgres_entries.placed(entries, found.next_pos)):
                postgres_entries.insert(self.database, found.key, batch, view)
            postgres_turns.drop(self.database, done)

    def read(self, session: SessionKey, first: int = 0) -> Iterator[Entry]:
        return postgres_entries.pages(self.database, self._there(session).key, first=first)

    def climb(self, session: SessionKey, leaf: str | None) -> Iterator[Entry]:
        return postgres_entries.climb(self.database, self._there(session).key, leaf)

    def ends(self, session: SessionKey) -> int:
        return postgres_entries.ends(self.database, self._there(session).key)

    def entry(self, session: SessionKey, entry_id: str) -> Entry | None:
        return postgres_entries.one(self.database, self._there(session).key, entry_id)

    def leaf(self, session: SessionKey) -> str | None:
        standing = postgres_sessions.standing(self.database, session)
        if standing is None:
            raise not_there(session)
        return postgres_entries.leaf(self.database, standing)

    def move(self, session: SessionKey, leaf: str | None) -> None:
        with self.database.transaction():
            key = self._there(session, locked=True).key
            if leaf is not None and postgres_entries.one(self.database, key, leaf) is None:
                raise not_there(session)
            postgres_sessions.move(self.database, key, leaf)

    def holder(self, session: SessionKey) -> Claim | None:
        return postgres_turns.holder(self.database, session, self._me)

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        with self.database.transaction():
            return postgres_turns.take(self.database, session, self._me, now, force=force)

    def release(self, session: SessionKey) -> None:
        postgres_turns.release(self.database, session, self._me)

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        with self.database.transaction():
            postgres_turns.begin(self.database, turn, source, begun, instead)

    def answer(self, turn: str, said: Answered) -> None:
        with self.database.transaction():
            postgres_turns.answer(self.database, turn, said)

    def pending(self) -> list[InFlight]:
        return postgres_turns.pending(self.database)

    def drop(self, turn: str) -> None:
        postgres_turns.drop(self.database, [turn])

    def close(self) -> None:
        self.database.close()

    def _there(self, session: SessionKey, *, locked: bool = False) -> Found:
        found = postgres_sessions.by_identity(self.database, session, locked=locked)
        if found is None:
            raise not_there(session)
        return found


def _viewer(facts: Facts) -> Viewer:
    return viewer(facts.agent, internal=facts.internal)
