"""The encrypted cache as a store: any path, any table prefix. Holds no statement of its own.

The default journal is one of them, and the only one that syncs (B1).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from atomic_agent import projects
from atomic_agent.cache import claims, entries, outbox, sessions, turns
from atomic_agent.cache import leaf as leaves
from atomic_agent.cache import search as searching
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.claims import Claim
from atomic_agent.cache.open import KeyInfo, read_keyinfo, transaction, write_keyinfo
from atomic_agent.cache.sessions import SessionRow
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.config.spelling import check_prefix
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores import folders
from atomic_agent.stores.port import InFlight
from atomic_agent.stores.rows import Hit, Moved, Row, choose, moved_by, not_there, taken
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import CacheDamagedError, SessionExistsError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import SessionKey

BATCH = 2000


def open_sqlite(path: Path, key: LocalKey, prefix: str = "") -> "SqliteStore":
    """Open or make the cache at a path; its key info lies beside it. Raises what `Cache.open` raises, and
    SelectionError for a prefix that cannot be (B12)."""
    check_prefix(prefix, "The prefix")
    keyinfo = path.with_name(path.name + ".keyinfo")
    try:
        cache = Cache.open(path, key, keyinfo, prefix=prefix)
    except CacheDamagedError as error:
        # The doctor repairs the default store alone.
        raise CacheDamagedError(
            error.message, "Put a copy of it in its place, or choose another file."
        ) from None
    if read_keyinfo(keyinfo) is None:
        write_keyinfo(keyinfo, KeyInfo(1, key.name, key.check_value))
    return SqliteStore(cache)


class SqliteStore:
    """A store over an open cache, which it closes. `syncs` is set for the default journal."""

    def __init__(self, cache: Cache, *, syncs: bool = False) -> None:
        self.cache = cache
        self._syncs = syncs
        self._me = claims.myself()

    @property
    def name(self) -> str:
        return str(self.cache.path)

    @property
    def flags(self) -> tuple[str, ...]:
        prefix = ("--session-prefix", self.cache.prefix) if self.cache.prefix else ()
        return ("--session-store", str(self.cache.path), *prefix)

    @property
    def syncs(self) -> bool:
        return self._syncs

    def project_of(self, folder: str) -> str:
        return projects.project_of(folder) if self._syncs else folders.project_of(folder)

    def deleted(self, session: SessionKey) -> bool:
        return sessions.is_deleted(self.cache, session)

    def create(self, facts: Facts, lines: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        view = viewer(facts.agent, internal=facts.internal)
        key = facts.key
        moved: Moved = None
        with transaction(self.cache.connection):
            if sessions.by_key(self.cache, key) is not None:
                raise taken(facts)
            if sessions.is_deleted(self.cache, key):
                raise SessionExistsError(
                    f"The session {facts.id} was deleted; a deleted session does not come back.",
                    "To work with its content, give it another id.",
                )
            number = sessions.ensure(self.cache, facts)
            batch: list[entries.Incoming] = []
            for pos, line in enumerate(lines):
                said = view(line.raw)
                moved = moved_by(moved, line, said)
                batch.append((msgspec.structs.replace(line, pos=pos), said))
                if len(batch) >= BATCH:
                    entries.insert(self.cache, number, batch)
                    batch = []
            entries.insert(self.cache, number, batch)
            if moved is not None and (
                moved[0] is None or entries.one(self.cache, number, moved[0]) is not None
            ):
                leaves.move(self.cache, number, moved[0])
            self._forget(done)
        entries.refresh_stale(self.cache)
        return _row(sessions.get(self.cache, number))

    def get(self, session: SessionKey) -> Row | None:
        found = sessions.by_key(self.cache, session)
        return None if found is None else _row(found)

    def open(self, session: SessionKey) -> Row:
        return _row(self._there(session))

    def find(self, wanted: str, project: str) -> Row:
        return choose([_row(found) for found in sessions.matching(self.cache, wanted)], wanted, project)

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        if project == "":
            return  # sessions without a folder are in no project
        for found in sessions.listed(
            self.cache, project=project, folder=folder, internal=internal, limit=limit, offset=offset
        ):
            yield _row(found)

    def called(self, rows: Sequence[Row]) -> list[str]:
        return [sessions.called(self.cache, row.facts.id) for row in rows]

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        for hit in searching.search(self.cache, query, limit=limit):
            yield Hit(_row(hit.session), hit.entry, hit.snippet)

    def delete(self, session: SessionKey) -> None:
        with transaction(self.cache.connection):
            row = self._there(session)
            for one in [row, *sessions.children(self.cache, session, row.project)]:
                if one.wire is not None:
                    outbox.rewind_waiting(self.cache, one.wire, self.cache.writer)
                sessions.mark_deleted(self.cache, one.key)

    def append(self, session: SessionKey, lines: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        with transaction(self.cache.connection):
            row = self._there(session)
            view = viewer(row.agent, internal=row.internal)
            placed = [
                msgspec.structs.replace(line, pos=row.next_pos + index) for index, line in enumerate(lines)
            ]
            entries.insert(self.cache, row.key, [(line, view(line.raw)) for line in placed])
            self._forget(done)
        entries.refresh_stale(self.cache)

    def read(self, session: SessionKey, first: int = 0) -> Iterator[Entry]:
        condition = "session = ? AND file = '' AND pos >= ? ORDER BY pos, stamp, id"
        for stored in entries.stored_rows(self.cache, condition, (self._there(session).key, first)):
            yield stored.entry

    def climb(self, session: SessionKey, leaf: str | None) -> Iterator[Entry]:
        return entries.climb(self.cache, self._there(session).key, leaf)

    def ends(self, session: SessionKey) -> int:
        return entries.ends(self.cache, self._there(session).key)

    def entry(self, session: SessionKey, entry_id: str) -> Entry | None:
        return entries.one(self.cache, self._there(session).key, entry_id)

    def leaf(self, session: SessionKey) -> str | None:
        return leaves.leaf(self.cache, self._there(session).key)

    def move(self, session: SessionKey, leaf: str | None) -> None:
        with transaction(self.cache.connection):
            row = self._there(session)
            if leaf is not None and entries.one(self.cache, row.key, leaf) is None:
                raise not_there(session)
            leaves.move(self.cache, row.key, leaf)

    def holder(self, session: SessionKey) -> Claim | None:
        return claims.holder(self.cache, claims.name_of(session), self._me)

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        claims.sweep(self.cache, self._me)
        row = sessions.by_key(self.cache, session)
        number = row.key if row is not None else 0
        return claims.take(self.cache, claims.name_of(session), number, self._me, now, force=force)

    def release(self, session: SessionKey) -> None:
        claims.release(self.cache, claims.name_of(session), self._me)

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        row = sessions.by_key(self.cache, source) if source is not None else None
        number = row.key if row is not None else 0
        turns.begin(self.cache, turn, claims.name_of(begun.facts.key), number, begun, instead=instead)

    def answer(self, turn: str, said: Answered) -> None:
        turns.answer(self.cache, turn, said)

    def pending(self) -> list[InFlight]:
        found = []
        for flight in turns.pending(self.cache):
            row = sessions.get(self.cache, flight.session) if flight.session else None
            source = None if row is None else _row(row).key
            found.append(InFlight(flight.turn, source, flight.begun, flight.answered))
        return found

    def drop(self, turn: str) -> None:
        with transaction(self.cache.connection):
            turns.clear(self.cache, turn)

    def close(self) -> None:
        self.cache.close()

    def number(self, session: SessionKey) -> int:
        """The row of a session in this cache's tables."""
        return self._there(session).key

    def _there(self, session: SessionKey) -> SessionRow:
        row = sessions.by_key(self.cache, session)
        if row is None:
            raise not_there(session)
        return row

    def _forget(self, done: Iterable[str]) -> None:
        for turn in done:
            turns.clear(self.cache, turn)


def _row(found: SessionRow) -> Row:
    return Row(
        found.facts,
        found.name,
        found.title,
        found.first_message,
        found.summary,
        found.messages,
        found.newest_at,
        found.newest_id,
    )
