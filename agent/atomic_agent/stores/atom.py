"""An Atom file as a store: one session, the branch that is open (A2, A7). Keeps no tree, labels or lists.

Every completed turn replaces the file; what the file has no place for lies beside it (`atom_record`), and so do
turns in flight and claims, under the same names as beside a JSONL folder. A new conversation takes the place of
the one that is there, which is kept first under a free name beside it: it is never lost, and never in the way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from atomic_agent import private_files
from atomic_agent.cache import claims
from atomic_agent.cache.claims import Claim
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.config import way_back
from atomic_agent.config.selection import AtomSelection
from atomic_agent.stores import atom_branch, atom_record, folders, jsonl_claims, jsonl_turns
from atomic_agent.stores.atom_branch import Branch
from atomic_agent.stores.atom_file import AtomFile
from atomic_agent.stores.jsonl_append import writing
from atomic_agent.stores.port import InFlight
from atomic_agent.stores.rows import Hit, Row, called, choose, not_there, taken
from atomic_sessions import tree
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Facts, Usage
from atomic_sessions.errors import StoreUnavailableError, UnsupportedError
from atomic_sessions.formats import atom, atom_lines
from atomic_sessions.formats.atom_messages import history
from atomic_sessions.ids import SessionKey

_Signature = tuple[tuple[int, int, int] | None, ...]


class _Seen(Struct, frozen=True):
    """The session that was found or put there, and what the files looked like then."""

    signature: _Signature
    branch: Branch | None

    def __repr__(self) -> str:
        return "<seen>"


class AtomStore:
    """The store in one Atom file, which may not be there yet. `clock` tells the ms.

    Raises StoreUnavailableError for a link, CacheRefusedError for a folder that others can write to; a file that is
    no session is a fresh start, of which `notice` is the one line to say.
    """

    syncs = False

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self.path = path.absolute()
        if self.path.is_symlink():
            raise StoreUnavailableError(f"{self.path} is a symbolic link.", "Put the file itself there.")
        if self.path.parent.exists():
            private_files.check_folder(self.path.parent)
        self._clock = clock
        self._me = claims.myself()
        self._side = atom_record.place(self.path)
        self._file = AtomFile(self.path)
        self.notice = self._file.notice
        self._said: list[str] = []
        self._held: Branch | None = None
        self._writes: SessionKey | None = None
        self._seen = _Seen((), None)

    def __repr__(self) -> str:
        return f"AtomStore({str(self.path)!r})"

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def flags(self) -> tuple[str, ...]:
        return way_back.flags(AtomSelection(str(self.path))) or ()

    def notices(self) -> tuple[str, ...]:
        """Sentences for the person that saves had to say since this was last asked."""
        said, self._said = tuple(self._said), []
        return said

    @property
    def picks(self) -> Settings:
        """Provider, model and effort that the file remembers, with or without a conversation (A8)."""
        self._current()
        return self._file.document.picks if self._file.document is not None else Settings()

    @property
    def usage(self) -> Usage:
        """The totals of the session in the file (A10)."""
        current = self._current()
        return current.usage if current is not None else Usage()

    def save_picks(self, picks: Settings) -> None:
        """What a clean exit saves: the conversation in the file stays as it is (A7)."""
        with self._writing():
            current = self._current()
            self._said += self._file.save_picks(picks, self._clock()).notices
            self._seen = _Seen(self._signature(), current)

    def project_of(self, folder: str) -> str:
        return folders.project_of(folder)

    def deleted(self, session: SessionKey) -> bool:
        return False

    def create(self, facts: Facts, entries: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        """The port's. UnsupportedError for a session in which nobody has spoken: the file has no place for it."""
        lines = list(entries)
        facts = atom_branch.with_header(facts)
        path = atom_branch.longer((), lines)
        if not history(path):
            raise UnsupportedError(
                "An Atom file holds a conversation from its first message on.", "Say something first."
            )
        with self._writing():
            current = self._current()
            new = Branch(facts, path, atom_branch.usage(path))
            if current is not None and current.key == new.key:
                raise taken(facts)
            if current is not None:
                self._said += self._file.keep_former().notices
            self._save(new)
            self._drop(done)
        return new.row(self.path)

    def get(self, session: SessionKey) -> Row | None:
        current = self._current()
        return current.row(self.path) if current is not None and current.key == session else None

    def open(self, session: SessionKey) -> Row:
        self._held = self._there(session)
        return self._held.row(self.path)

    def find(self, wanted: str, project: str) -> Row:
        return choose(self._rows(), wanted, project)

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        """The one question about lists it answers is which session is the newest (`limit` 1), for every project: a
        file has one session, and most often no folder. UnsupportedError for any other page."""
        if limit != 1 or offset:
            self._refuse("lists of sessions")
        return iter([row for row in self._rows() if internal or not row.facts.internal])

    def called(self, rows: Sequence[Row]) -> list[str]:
        return called(rows, self._rows())

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        self._refuse("search")

    def delete(self, session: SessionKey) -> None:
        """The conversation goes; picks stay, and so do conversations that were kept aside."""
        self._there(session)
        with self._writing():
            if self._there(session) is self._current():
                self._file.clear(self._clock())
                atom_record.path(self.path).unlink(missing_ok=True)
            for flight in jsonl_turns.pending(self._side):
                facts = flight.begun.facts
                if session in {flight.source, facts.key}:
                    jsonl_turns.drop(self._side, flight.turn)
            jsonl_claims.forget(self._side, claims.name_of(session))
            self._held = None

    def append(self, session: SessionKey, entries: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        """The port's. UnsupportedError for a label, and for entries that do not follow the last one."""
        self._there(session)
        with self._writing():
            before, path = self._longer(session, entries)
            new = path[len(before.path) :]
            if new:
                if self._current() is not before and self._file.document is not None:
                    self._said += self._file.keep_other().notices
                self._save(replace(before, path=path, usage=atom_branch.usage(new, before.usage)))
            self._drop(done)

    def _longer(self, session: SessionKey, entries: Sequence[Entry]) -> tuple[Branch, tuple[Entry, ...]]:
        """The branch that entries go on from, and the whole of it with them. Where another went on with a session whose
        writer we are, that is the one we have open: what the other said is kept aside by the save."""
        there = self._there(session)
        try:
            return there, atom_branch.longer(there.path, entries)
        except UnsupportedError:
            ours = self._held
            if ours is None or ours is there or ours.key != session or self._writes != session:
                raise
            return ours, atom_branch.longer(ours.path, entries)

    def read(self, session: SessionKey, first: int = 0) -> Iterator[Entry]:
        return iter(self._there(session).path[first:])

    def climb(self, session: SessionKey, leaf: str | None) -> Iterator[Entry]:
        path = self._there(session).path
        end = next((place for place, entry in enumerate(path) if entry.id == leaf), -1)
        return reversed(path[: end + 1])

    def ends(self, session: SessionKey) -> int:
        nodes = self._there(session).nodes()
        return tree.ends({node.id: (node.parent, node.view.decides) for node in nodes})

    def entry(self, session: SessionKey, entry_id: str) -> Entry | None:
        return next((one for one in self._there(session).path if one.id == entry_id), None)

    def leaf(self, session: SessionKey) -> str | None:
        return self._there(session).leaf

    def move(self, session: SessionKey, leaf: str | None) -> None:
        if self._there(session).leaf != leaf:
            self._refuse("other branches")

    def holder(self, session: SessionKey) -> Claim | None:
        return jsonl_claims.holder(self._side, claims.name_of(session), self._me)

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        with self._writing():
            held = jsonl_claims.take(self._side, claims.name_of(session), self._me, now, force=force)
        self._writes = session if held is None else None
        return held

    def release(self, session: SessionKey) -> None:
        self._writes = None
        if self._side.exists():
            with self._writing():
                jsonl_claims.release(self._side, claims.name_of(session), self._me)

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        with self._writing():
            jsonl_turns.begin(self._side, turn, source, begun)
            self._drop(old for old in instead if old != turn)

    def answer(self, turn: str, said: Answered) -> None:
        with self._writing():
            jsonl_turns.answer(self._side, turn, said)

    def pending(self) -> list[InFlight]:
        return jsonl_turns.pending(self._side)

    def drop(self, turn: str) -> None:
        if self._side.exists():
            with self._writing():
                jsonl_turns.drop(self._side, turn)

    def close(self) -> None:
        """Nothing is open."""

    @contextmanager
    def _writing(self) -> Iterator[None]:
        private_files.make_folder(self.path.parent)
        with writing(self._side):
            yield

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"An Atom file holds one session and its open branch, no {what}.",
            "Use the default store for that: leave out the Atom selection.",
        )

    def _rows(self) -> list[Row]:
        current = self._current()
        return [current.row(self.path)] if current is not None else []

    def _there(self, session: SessionKey) -> Branch:
        """The session, also when another program has put its own in the place of ours: ours goes on from memory."""
        current = self._current()
        if current is not None and current.key == session:
            return current
        if self._held is not None and self._held.key == session and self._is_taken():
            return self._held
        raise not_there(session)

    def _is_taken(self) -> bool:
        """True when something of another program lies there; False when a session was only taken out."""
        document = self._file.document
        return bool(self._file.notice) or (document is not None and bool(document.history))

    def _current(self) -> Branch | None:
        """The session in the file as it is now. What this process put there it knows better than the file does."""
        while (signature := self._signature()) != self._seen.signature:
            self._file.refresh()
            document = self._file.document
            found: Branch | None = None
            if document is not None and document.history:
                known = atom_record.of(atom_record.read(self.path), document)
                facts = known.facts if known is not None else atom_record.facts_of(document)
                lines = atom_lines.lines(document, known.kept if known is not None else (), self._clock())
                found = Branch(facts, tuple(lines), document.usage)
            if self._signature() == signature:  # else a save came between the two files
                self._seen = _Seen(signature, found)
        return self._seen.branch

    def _signature(self) -> _Signature:
        return tuple(_looks(path) for path in (self.path, atom_record.path(self.path)))

    def _save(self, branch: Branch) -> None:
        """The record first: until the file is replaced too it is a record of nothing."""
        document = self._file.document
        before = atom_record.of(atom_record.read(self.path), document) if document is not None else None
        said = history(branch.path)
        new = atom_record.record(branch.facts, branch.path, said)
        atom_record.write(self.path, [new] if before is None else [before, new])
        picks = branch.picks(document.picks if document is not None else Settings())
        saved = self._file.save_history(said, picks, branch.usage, atom.NORMAL, self._clock())
        self._said += saved.notices
        self._held = branch
        self._seen = _Seen(self._signature(), branch)

    def _drop(self, turns: Iterable[str]) -> None:
        for turn in turns:
            jsonl_turns.drop(self._side, turn)


def _looks(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
