"""From a selection to an open store (B2). What cannot be opened is an error: no other store takes its place."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from atomic_agent.config.launch import earlier_sessions
from atomic_agent.config.selection import (
    AtomSelection,
    CacheSelection,
    DriverSelection,
    FolderSelection,
    MemorySelection,
    OwnSelection,
    Selection,
    SqliteSelection,
)
from atomic_agent.keys import sources
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_sessions.context import Settings
from atomic_sessions.errors import StoreUnavailableError

if TYPE_CHECKING:
    from atomic_agent.stores.port import Store
    from atomic_agent.stores.runs import RunStore

# Each kind of store is imported when it is the one.

Clock = Callable[[], int]
Progress = Callable[[int, int], None]


class Opened:
    """An open store. `journal` is there for the default one alone; `made_key` is what holds this machine's first key
    when this made it; `notices` are sentences for the person."""

    def __init__(
        self,
        store: "Store",
        selection: Selection,
        *,
        journal: Journal | None = None,
        made_key: str = "",
        notices: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.selection = selection
        self.journal = journal
        self.made_key = made_key
        self.notices = notices

    def save_picks(self, picks: Settings) -> None:
        """Keep what was picked where the store itself has a place for it: the Atom file."""
        if isinstance(self.selection, AtomSelection):
            from atomic_agent.stores.atom import AtomStore

            assert isinstance(self.store, AtomStore)
            self.store.save_picks(picks)

    def tell(self, say: Callable[[str], None]) -> None:
        """Say what the store has had to say since it was last asked."""
        if isinstance(self.selection, AtomSelection):
            from atomic_agent.stores.atom import AtomStore

            assert isinstance(self.store, AtomStore)
            for notice in self.store.notices():
                say(notice)

    def close(self) -> None:
        # A store that a program handed to us stays that program's (B13).
        if not isinstance(self.selection, OwnSelection):
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    selection: Selection,
    home: Home,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    progress: Progress = lambda done, total: None,
) -> Opened:
    """Open what was chosen. Raises what the store raises: CacheRefusedError, KeyMissingError, StoreUnavailableError…

    `clock` tells the ms; `environ` is what a driver's options may name; `progress` hears how many of the files of
    earlier sessions were read, of how many.
    """
    try:
        return _open(selection, home, clock, environ, progress)
    except PermissionError as error:
        raise StoreUnavailableError(
            f"{error.filename} cannot be opened: {error.strerror}.", "Check the rights of its folders."
        ) from error


def _open(
    selection: Selection, home: Home, clock: Clock, environ: Mapping[str, str], progress: Progress
) -> Opened:
    match selection:
        case CacheSelection(_, earlier):
            folder = earlier_sessions(home, environ, Path.cwd()) if earlier else None
            return _default(selection, home, clock, folder, progress)
        case SqliteSelection(path, prefix):
            return _sqlite(selection, home, Path(path), prefix)
        case FolderSelection(path):
            from atomic_agent.stores.jsonl import JsonlStore

            return Opened(JsonlStore(Path(path), clock), selection)
        case MemorySelection():
            from atomic_agent.stores.memory import MemoryStore

            return Opened(MemoryStore(), selection)
        case AtomSelection(path):
            from atomic_agent.stores.atom import AtomStore

            atom = AtomStore(Path(path), clock)
            return Opened(atom, selection, notices=(atom.notice,) if atom.notice else ())
        case DriverSelection():
            from atomic_agent.stores.drivers import open_driver

            return Opened(open_driver(selection, environ), selection)
        case OwnSelection(store):
            return Opened(store, selection)  # type: ignore[arg-type]  # whatever a program takes for a store


@contextmanager
def open_runs(
    selection: Selection, home: Home, clock: Clock, environ: Mapping[str, str]
) -> "Iterator[RunStore]":
    """The records of workflow runs in the store that was chosen, open for a block. UnsupportedError for one that has
    no place for them."""
    with open_store(selection, home, clock, environ) as opened:
        match selection:
            case CacheSelection() | SqliteSelection():
                from atomic_agent.cache.runs import SqliteRuns
                from atomic_agent.stores.sqlite import SqliteStore

                assert isinstance(opened.store, SqliteStore)
                yield SqliteRuns(opened.store.cache)
            case FolderSelection(path):
                from atomic_agent.stores.runs_folder import FolderRuns

                yield FolderRuns(Path(path))
            case MemorySelection():
                from atomic_agent.stores.runs_memory import MemoryRuns

                yield MemoryRuns()
            case _:
                from atomic_agent.stores.runs import unsupported

                unsupported(opened.store.name)


def _default(
    selection: Selection, home: Home, clock: Clock, earlier: Path | None, progress: Progress
) -> Opened:
    """The journal; with the files of earlier sessions beside it when there is such a folder."""
    from atomic_agent.stores.sqlite import SqliteStore

    journal = open_journal(home)
    store = SqliteStore(journal.cache, syncs=True)
    # A folder that may not be looked into counts as none.
    if earlier is not None and os.path.isdir(earlier):  # noqa: PTH112
        from atomic_agent.stores.earlier import EarlierStore

        store = EarlierStore(
            journal.cache,
            earlier,
            clock,
            syncs=True,
            progress=progress,
            id_key=lambda: journal.secrets.membership.id_key if journal.secrets.membership else None,
        )
    return Opened(store, selection, journal=journal, made_key=journal.new_key)


def _sqlite(selection: Selection, home: Home, path: Path, prefix: str) -> Opened:
    """Another SQLite file, under this machine's key. The default store under another name is the default store;
    with a prefix it is a store of its own in the same file, which does not sync (B1)."""
    from atomic_agent.cache.cache import Cache
    from atomic_agent.stores.sqlite import SqliteStore, open_sqlite

    made_key = ""
    key = sources.find(home)
    if key is None:
        with open_journal(home) as journal:  # which makes the first key
            key, made_key = journal.key, journal.new_key
    if is_default(selection, home):
        found = _default(selection, home, lambda: 0, None, lambda done, total: None)
        found.made_key = found.made_key or made_key
        return found
    if _same(path, home.cache):
        store = SqliteStore(Cache.open(home.cache, key, home.keyinfo, prefix=prefix))
    else:
        store = open_sqlite(path, key, prefix)
    return Opened(store, selection, made_key=made_key)


def described(selection: Selection) -> str:
    """What a person is told a selection is."""
    match selection:
        case MemorySelection():
            return "memory, which ends with the program"
        case DriverSelection(name):
            return f"the database of the driver {name}"
        case OwnSelection():
            return "a program's own store"
    return selection.path


def is_default(selection: Selection, home: Home) -> bool:
    """True for the one store that syncs, also when another path leads to its file (B1)."""
    match selection:
        case CacheSelection():
            return True
        case SqliteSelection(path, ""):
            return _same(Path(path), home.cache)
    return False


def _same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121  # says no where Path would raise
    except OSError:
        return False
