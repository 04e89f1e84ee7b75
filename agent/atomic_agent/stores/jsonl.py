"""A folder of JSONL files as a store: one file a session, in the form that exports have (B2, B16, B17).

Browsing writes nothing. Opening a session of an older format puts its file, and no other, into format 4. Files
are never taken for another session's: a header says whose it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from atomic_agent import private_files
from atomic_agent.cache import claims
from atomic_agent.cache.claims import Claim
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores import (
    folders,
    jsonl_append,
    jsonl_claims,
    jsonl_files,
    jsonl_intent,
    jsonl_turns,
    words,
)
from atomic_agent.stores.jsonl_append import writing
from atomic_agent.stores.jsonl_index import AGENT, Clock, Index, Signature, facts_of
from atomic_agent.stores.jsonl_rows import Listing, whole_row
from atomic_agent.stores.port import InFlight
from atomic_agent.stores.rows import Hit, Row, called, choose, not_there, page, taken
from atomic_sessions import compose
from atomic_sessions.clock import iso
from atomic_sessions.entry import Entry, Facts, View
from atomic_sessions.errors import (
    BadSessionFileError,
    NotFoundError,
    StoreUnavailableError,
    StoreWriteError,
    UnsupportedError,
)
from atomic_sessions.formats import pi
from atomic_sessions.formats.upgrade import read_header
from atomic_sessions.ids import SessionKey


class JsonlStore:
    """The store in one folder, which may not be there yet. `clock` tells the ms."""

    syncs = False

    def __init__(self, folder: Path, clock: Clock) -> None:
        if folder.exists() and not folder.is_dir():
            raise StoreUnavailableError(f"{folder} is not a folder.", "Name another one with --session-dir.")
        self.folder = folder.absolute()
        self._clock = clock
        self._me = claims.myself()
        self._indexes: dict[Path, Index] = {}
        self._opened: dict[SessionKey, Path] = {}
        self._listing = Listing(self.folder, clock, self._whole)

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--session-dir", str(self.folder))

    def project_of(self, folder: str) -> str:
        return folders.project_of(folder)

    def deleted(self, session: SessionKey) -> bool:
        return False

    def create(self, facts: Facts, entries: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        if facts.agent != AGENT:
            raise UnsupportedError(
                f"A folder of JSONL files holds no sessions of {facts.agent}.",
                "Use the default store for it.",
            )
        header = facts.header or compose.header(
            facts.id, facts.created_at, facts.cwd, project=facts.project, parent=facts.parent
        )
        said = facts_of(read_header(header))
        with writing(self.folder):
            if self._listing.copies(SessionKey(AGENT, said.id, said.scope)):
                raise taken(said)
            path = jsonl_files.new_path(self.folder, said.id, said.created_at)
            private_files.write_pieces(path, _file(header, entries))
            self._drop(done)
        index = self._indexes[path] = Index(self.folder, path, self._clock)
        row = whole_row(index)
        self._opened[row.key] = path
        return row

    def get(self, session: SessionKey) -> Row | None:
        if session not in self._opened:
            return next((row for row in self._listing.rows() if row.key == session), None)
        try:
            return whole_row(self._there(session))
        except NotFoundError:
            return None

    def open(self, session: SessionKey) -> Row:
        index = self._there(session)
        if not index.is_current:
            with writing(self.folder):
                jsonl_append.rewrite(self.folder, index)
            index = self._there(session)
        self._opened[session] = index.path
        return whole_row(index)

    def find(self, wanted: str, project: str) -> Row:
        return choose(self._listing.rows(), wanted, project)

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        return page(self._listing.rows(), project, folder, internal, limit, offset)

    def called(self, rows: Sequence[Row]) -> list[str]:
        return called(rows, self._listing.rows())

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        wanted = words.parse(query)
        for row in page(self._listing.rows(), None, "", True, -1, 0):
            if limit <= 0 or not wanted.runs:
                return
            try:
                said = _said(Index(self.folder, Path(row.place), self._clock))
                hit = words.first_hit(wanted, row, said)
            except (BadSessionFileError, OSError):
                continue  # gone or changed since it was listed
            if hit is not None:
                limit -= 1
                yield hit

    def delete(self, session: SessionKey) -> None:
        """All copies go: another one would come back as the session."""
        if not self._listing.copies(session):
            raise not_there(session)
        with writing(self.folder):
            for path in self._listing.copies(session):
                jsonl_files.discard(path)
                jsonl_intent.forget(self.folder, path)
                self._indexes.pop(path, None)
            for flight in jsonl_turns.pending(self.folder):
                facts = flight.begun.facts
                if session in {flight.source, facts.key}:
                    jsonl_turns.drop(self.folder, flight.turn)
            jsonl_claims.forget(self.folder, claims.name_of(session))
        self._opened.pop(session, None)

    def append(self, session: SessionKey, entries: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        self._there(session)  # a folder that is not there is not made
        with writing(self.folder):
            index = self._there(session)
            if not index.is_current:
                jsonl_append.rewrite(self.folder, index)
                index = self._there(session)
            jsonl_append.settle(self.folder, index.path)
            index = self._there(session)
            lines = [entry.raw for entry in entries if not entry.file and not _is_known(index, entry)]
            if lines:
                if index.moved is not None and not any(pi.view(raw).decides for raw in lines):
                    lines.append(_leaf_line(index.moved[0], self._clock()))
                jsonl_append.append(self.folder, index.path, _joined(lines))
            self._drop(done)
        self._opened[session] = index.path
        self._there(session)

    def read(self, session: SessionKey, first: int = 0) -> Iterator[Entry]:
        index = self._there(session)
        return index.entries(index.in_order(first))

    def climb(self, session: SessionKey, leaf: str | None) -> Iterator[Entry]:
        index = self._there(session)
        return index.entries(index.climb(leaf))

    def ends(self, session: SessionKey) -> int:
        return self._there(session).ends()

    def entry(self, session: SessionKey, entry_id: str) -> Entry | None:
        index = self._there(session)
        placed = index.placed.get(entry_id)
        return None if placed is None else next(index.entries([placed]))

    def leaf(self, session: SessionKey) -> str | None:
        return self._there(session).leaf()

    def move(self, session: SessionKey, leaf: str | None) -> None:
        self._there(session)
        with writing(self.folder):
            index = self._there(session)
            if leaf is not None and leaf not in index.placed:
                raise not_there(session)
            if not index.is_current:
                jsonl_append.rewrite(self.folder, index)
            jsonl_append.append(self.folder, index.path, _joined([_leaf_line(leaf, self._clock())]))

    def holder(self, session: SessionKey) -> Claim | None:
        return jsonl_claims.holder(self.folder, claims.name_of(session), self._me)

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        with writing(self.folder):
            return jsonl_claims.take(self.folder, claims.name_of(session), self._me, now, force=force)

    def release(self, session: SessionKey) -> None:
        if self.folder.exists():
            with writing(self.folder):
                jsonl_claims.release(self.folder, claims.name_of(session), self._me)

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        with writing(self.folder):
            jsonl_turns.begin(self.folder, turn, source, begun)
            self._drop(old for old in instead if old != turn)

    def answer(self, turn: str, said: Answered) -> None:
        with writing(self.folder):
            jsonl_turns.answer(self.folder, turn, said)

    def pending(self) -> list[InFlight]:
        return jsonl_turns.pending(self.folder)

    def drop(self, turn: str) -> None:
        if self.folder.exists():
            with writing(self.folder):
                jsonl_turns.drop(self.folder, turn)

    def close(self) -> None:
        self._indexes.clear()

    def _there(self, session: SessionKey) -> Index:
        try:
            return self._index(session)
        except LookupError:
            raise not_there(session) from None
        except OSError as error:
            raise StoreUnavailableError(
                f"The session's file cannot be read: {error.strerror}.", "Check the file's rights."
            ) from error

    def _index(self, session: SessionKey) -> Index:
        """The index of a session's file as it is now: of the one that was opened, else of its newest copy.
        LookupError when there is none, or another session's."""
        path = self._opened.get(session)
        if path is None:
            path = next(iter(self._listing.copies(session)), None)
        if path is None:
            raise LookupError
        known = self._indexes.get(path)
        try:
            index = known.refreshed() if known is not None else Index(self.folder, path, self._clock)
        except (FileNotFoundError, BadSessionFileError):
            raise LookupError from None
        self._indexes[path] = index
        if SessionKey(AGENT, index.facts.id, index.facts.scope) != session:
            raise LookupError
        return index

    def _whole(self, path: Path, mark: Signature) -> Row | None:
        """The row of a file that was opened here, read on to where it is now."""
        index = self._indexes.get(path)
        if index is None:
            return None
        try:
            index = self._indexes[path] = index.refreshed()
        except (BadSessionFileError, OSError):
            return None
        return whole_row(index) if index.signature == mark else None

    def _drop(self, turns: Iterable[str]) -> None:
        for turn in turns:
            jsonl_turns.drop(self.folder, turn)


def _is_known(index: Index, entry: Entry) -> bool:
    """True for a line that is there already; two lines may carry one id."""
    placed = index.placed.get(entry.id)
    return placed is not None and next(index.entries([placed])).raw == entry.raw


def _file(header: bytes, entries: Iterable[Entry]) -> Iterator[bytes]:
    yield _joined([header])
    for entry in entries:
        if not entry.file:
            yield _joined([entry.raw])


def _joined(lines: list[bytes]) -> bytes:
    """Lines as they stand in a file."""
    if any(b"\n" in line for line in lines):
        raise StoreWriteError("A line with a line's end in it cannot be kept in a JSONL file.")
    return b"".join(line + b"\n" for line in lines)


def _leaf_line(leaf: str | None, now: int) -> bytes:
    return compose.line({"type": "leaf", "leafId": leaf, "timestamp": iso(now)})


def _said(index: Index) -> Iterator[tuple[Entry, View]]:
    for entry in index.entries(index.in_order()):
        yield entry, pi.view(entry.raw)
