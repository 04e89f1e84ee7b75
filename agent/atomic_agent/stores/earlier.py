"""The default store with the sessions of earlier versions beside its own (B3, B4, B17). Never changes their files.

A session is copied in the first time that something of it is needed but its row, and the database's is the only one
from then on: what another program adds to the file later is not taken over. One that was deleted stays away for ever,
whatever becomes of its file.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from atomic_agent.cache import earlier, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.claims import Claim
from atomic_agent.cache.open import transaction
from atomic_agent.cache.sessions import SessionRow
from atomic_agent.cache.turns import Begun
from atomic_agent.stores.earlier_copy import ChangedError, reading
from atomic_agent.stores.earlier_files import EarlierFiles, Progress, marks
from atomic_agent.stores.earlier_projects import FolderProjects
from atomic_agent.stores.jsonl_index import AGENT, Clock
from atomic_agent.stores.rows import Hit, Row, choose, not_there, taken
from atomic_agent.stores.sqlite import SqliteStore
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import BusyError, StoreUnavailableError
from atomic_sessions.formats.lines import plain
from atomic_sessions.ids import UUID, SessionKey, session_key

TRIES = 3
"""How often a file that is being written is read before the person is told."""

T = TypeVar("T")


class EarlierStore(SqliteStore):
    """A store over an open cache and a folder that may not be there. `clock` tells the ms, `progress` is told how
    many of the files to be read were; `id_key` gives the account's, when there is one."""

    def __init__(
        self,
        cache: Cache,
        folder: Path,
        clock: Clock,
        *,
        syncs: bool = False,
        progress: Progress = lambda done, total: None,
        id_key: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        super().__init__(cache, syncs=syncs)
        self._clock = clock
        self._projects = FolderProjects(cache, self.project_of, keeps=syncs)
        self._files = EarlierFiles(cache, folder, clock, self._projects, progress, id_key)
        self._here: set[SessionKey] = set()

    def create(self, facts: Facts, lines: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        if facts.key in self._files.sessions():
            raise taken(facts)
        return super().create(facts, lines, done=done)

    def get(self, session: SessionKey) -> Row | None:
        found = super().get(session)
        if found is None:
            found = next((self._files.placed(row) for row in self._files.rows() if row.key == session), None)
        return found

    def find(self, wanted: str, project: str) -> Row:
        """The database is asked for what can be meant only: it may hold very many."""
        rows = self._files.rows()
        if not rows:
            return super().find(wanted, project)
        ours = [super(EarlierStore, self).get(_key(row)) for row in sessions.matching(self.cache, wanted)]
        meant = plain(wanted)
        files = [
            self._files.placed(row)
            for row in rows
            if row.facts.id == meant or row.facts.id[:8].lower() == meant.lower()
        ]
        return choose([*(row for row in ours if row is not None), *files], wanted, project)

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        """Two sorted streams become one, each read no further than the page: as many of the database's come before
        it as not all the files' can be."""
        rows = self._files.rows() if project != "" else []
        skipped = max(0, offset - len(rows))
        ours = super().listed(
            project=project,
            folder=folder,
            internal=internal,
            limit=limit if limit < 0 else offset + limit - skipped,
            offset=skipped,
        )

        def fits(row: Row) -> bool:
            facts = row.facts
            if facts.internal and not internal:
                return False
            return (
                project is None
                or bool(facts.cwd and facts.cwd == folder)
                or self._projects.of(facts.cwd) == project
            )

        found = _merged(ours, rows, _place, fits)
        start = offset - skipped
        for row in islice(found, start, None if limit < 0 else start + limit):
            yield self._files.placed(row) if row.place else row

    def called(self, rows: Sequence[Row]) -> list[str]:
        begun = Counter(key.id[:8].lower() for key in self._files.sessions())
        return [
            row.facts.id[:8]
            if UUID.fullmatch(row.facts.id)
            and begun[row.facts.id[:8].lower()] + sessions.sharing(self.cache, row.facts.id) == 1
            else row.facts.id
            for row in rows
        ]

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        found = _merged(
            super().search(query, limit=limit),
            self._files.hits(query) if limit else (),
            lambda hit: _place(hit.row),
        )
        return islice(found, None if limit < 0 else limit)

    def delete(self, session: SessionKey) -> None:
        """A session that was never opened is entered as a deleted one, so that nothing brings it back from another
        machine either; its file stays. Stages go with their session."""
        doomed = {
            key: (self._files.placed(copies[0]).facts, marks(key, copies))
            for key, copies in self._files.sessions().items()
            if key == session or (copies[0].facts.internal and copies[0].facts.parent == session.id)
        }
        with transaction(self.cache.connection):
            if session not in doomed:
                there = super().get(session)
                super().delete(session)
                earlier.hide(self.cache, marks(session, [there] if there is not None else []))
            for facts, hidden in doomed.values():
                sessions.mark_deleted(self.cache, sessions.ensure(self.cache, facts))
                earlier.hide(self.cache, hidden)

    def append(self, session: SessionKey, lines: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        self._bring(session)  # before the transaction, which could not be begun again when the file changes
        super().append(session, lines, done=done)

    def move(self, session: SessionKey, leaf: str | None) -> None:
        self._bring(session)
        super().move(session, leaf)

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        self._bring(session)
        return super().claim(session, now, force=force)

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        if source is not None:
            self._bring(source)
        super().begin(turn, source, begun, instead=instead)

    def _there(self, session: SessionKey) -> SessionRow:
        self._bring(session)
        return super()._there(session)

    def _bring(self, session: SessionKey) -> None:
        """Copy a session in that only a file holds."""
        if session in self._here or sessions.by_key(self.cache, session) is not None:
            self._here.add(session)
            return
        copies = self._files.sessions().get(session)
        if copies is None:
            return
        for left in reversed(range(TRIES)):
            try:
                self._copy(session, copies)
                break
            except ChangedError:
                if not left or self.cache.connection.in_transaction:
                    raise BusyError(
                        "Another program is writing this session's file.", "Open it again in a moment."
                    ) from None
            except FileNotFoundError:
                raise not_there(session) from None
            except OSError as error:
                raise StoreUnavailableError(
                    f"The session's file cannot be read: {error.strerror}.", "Check the file's rights."
                ) from error

    def _copy(self, session: SessionKey, copies: list[Row]) -> None:
        with reading(self._files.folder, Path(copies[0].place), self._clock) as found:
            header = found.header
            project = self._projects.of(header.cwd)
            facts = Facts(
                AGENT,
                header.id,
                session_key(AGENT, header.id, project).scope,
                header.cwd,
                project,
                header.created_at or found.modified,
                header.parent,
                header.internal,
                header.raw,
            )
            if SessionKey(AGENT, facts.id, facts.scope) != session:
                raise not_there(session)
            with transaction(self.cache.connection):
                if (session.id, session.scope) in earlier.present(self.cache, [session.id]):
                    return  # another process was first
                super().create(facts, found.entries)
                earlier.hide(self.cache, marks(session, copies))


def _key(row: SessionRow) -> SessionKey:
    return SessionKey(row.agent, row.id, row.scope)


def _place(row: Row) -> tuple[int, int, str]:
    """A row's place in the one order of lists; smaller is newer."""
    at, mark = row.order
    return -at, -int.from_bytes(mark, "big"), row.facts.id


def _merged(
    ours: Iterable[T],
    files: Iterable[T],
    place: Callable[[T], tuple[int, int, str]],
    fits: Callable[[T], bool] = lambda _: True,
) -> Iterator[T]:
    """Two streams, each in order, as one. A file's is looked at when its turn comes, not before: to tell its project
    may cost asking git."""
    own = iter(ours)
    head = next(own, None)
    for one in files:
        while head is not None and place(head) <= place(one):
            yield head
            head = next(own, None)
        if fits(one):
            yield one
    while head is not None:
        yield head
        head = next(own, None)
