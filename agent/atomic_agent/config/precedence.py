"""Which store sessions and workflow runs go to: the order of row B11. Pure; opens nothing.

The first rank that is set wins whole. Two sources of one rank are an error, and so are flags that exclude each
other, whichever rank wins. What a losing variable or setting holds is not looked at.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from atomic_agent.config.errors import SelectionError
from atomic_agent.config.paths import Folders, cache_path, resolve
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
from atomic_agent.config.settings import SettingsFile
from atomic_agent.config.spelling import check_prefix, named, parsed, sqlite

SESSIONS_STORAGE = "ATOMIC_SESSIONS_STORAGE"
SESSION_DIR = "ATOMIC_CODING_AGENT_SESSION_DIR"
STORAGE = "ATOMIC_STORAGE"
DEFAULT = "default"


class StorageFile(Struct, frozen=True):
    """What --storage-file names, read by the caller. `lasting` is False for a pipe, which is read once."""

    path: str
    text: str
    lasting: bool = True

    def __repr__(self) -> str:
        return f"StorageFile({self.path!r})"


class Flags(Struct, frozen=True):
    """The store flags of one command line; None where a flag was not given."""

    no_session: bool = False
    session_dir: str | None = None
    session_store: str | None = None
    session_prefix: str | None = None
    storage: str | None = None
    storage_file: StorageFile | None = None

    def __repr__(self) -> str:
        given = [name for name in self.__struct_fields__ if getattr(self, name) not in {None, False}]
        return f"Flags({', '.join(given)})"


class Sources(Struct, frozen=True):
    """Everything that can choose a store. `project` only when the project is trusted (B5)."""

    folders: Folders
    flags: Flags = Flags()
    environ: Mapping[str, str] = {}
    project: SettingsFile | None = None
    everywhere: SettingsFile | None = None
    sdk: object = None

    def __repr__(self) -> str:
        return f"Sources({self.flags!r}, …)"


class Placed(Struct, frozen=True):
    """A store and what chose it, in the words of messages: a flag, a variable, a setting and its file."""

    selection: Selection
    source: str


class Placement(Struct, frozen=True):
    """Where sessions go and where workflow runs go."""

    sessions: Placed
    runs: Placed


class _Source(Struct, frozen=True):
    name: str
    read: Callable[[], Selection]


_Rank = list[_Source]


def place(sources: Sources) -> Placement:
    """Both. Raises SelectionError, or SettingsError for a member that should be an object."""
    return Placement(sessions(sources), runs(sources))


def sessions(sources: Sources) -> Placed:
    """Where sessions go. A broken source of workflow runs' own does not matter here."""
    check(sources.flags)
    flags, folders = sources.flags, sources.folders
    ranks: list[Callable[[], _Rank]] = [
        lambda: [_Source("session_store", lambda: _from_sdk(sources))] if sources.sdk is not None else [],
        lambda: [_Source("--no-session", MemorySelection)] if flags.no_session else [],
        lambda: [*_session_dir(flags, folders), *_session_store(flags, folders)],
        lambda: _flags(sources),
        lambda: [*_variable(sources, SESSIONS_STORAGE), *_folder_variable(sources)],
        lambda: _variable(sources, STORAGE),
        lambda: _setting(sources, "sessions", "storage"),
        lambda: _setting(sources, "storage"),
    ]
    return _first(ranks, folders)


def runs(sources: Sources) -> Placed:
    """Where workflow runs go: what is shared decides, what is for sessions alone does not (B11)."""
    check(sources.flags)
    ranks: list[Callable[[], _Rank]] = [
        lambda: _flags(sources),
        lambda: _variable(sources, STORAGE),
        lambda: _setting(sources, "storage"),
    ]
    return _first(ranks, sources.folders)


def _first(ranks: list[Callable[[], _Rank]], folders: Folders) -> Placed:
    for rank in ranks:
        found = rank()
        if len(found) > 1:
            raise SelectionError(
                f"{found[0].name} and {found[1].name} both choose a store.", "Give only one of them."
            )
        if found:
            return Placed(found[0].read(), found[0].name)
    return Placed(CacheSelection(cache_path(folders)), DEFAULT)


def check(flags: Flags) -> None:
    """Refuse store flags that cannot be used together (B12)."""
    given = [
        ("--session-store", flags.session_store is not None, "--session-dir", flags.session_dir is not None),
        ("--session-store", flags.session_store is not None, "--no-session", flags.no_session),
        ("--storage", flags.storage is not None, "--storage-file", flags.storage_file is not None),
    ]
    for one, has_one, other, has_other in given:
        if has_one and has_other:
            raise SelectionError(f"{one} and {other} cannot be used together.", "Choose one.")
    if flags.session_prefix is not None:
        if flags.session_store is None:
            raise SelectionError(
                "--session-prefix needs --session-store.", "Name the SQLite file with --session-store FILE."
            )
        check_prefix(flags.session_prefix, "--session-prefix")


def _session_dir(flags: Flags, folders: Folders) -> _Rank:
    given = flags.session_dir
    if given is None:
        return []
    name = "--session-dir"
    return [_Source(name, lambda: FolderSelection(resolve(given, folders.working, folders, name)))]


def _session_store(flags: Flags, folders: Folders) -> _Rank:
    given = flags.session_store
    if given is None:
        return []
    name = "--session-store"

    def read() -> Selection:
        path = resolve(given, folders.working, folders, name)
        return sqlite(path, flags.session_prefix or "", "--session-prefix", folders)

    return [_Source(name, read)]


def _flags(sources: Sources) -> _Rank:
    text, file = sources.flags.storage, sources.flags.storage_file
    found: _Rank = []
    if text is not None:
        found.append(_Source("--storage", lambda: _named(sources, parsed(text, "--storage"), "--storage")))
    if file is not None:
        where = f"The --storage-file {file.path}"
        again = file.path if file.lasting else ""
        found.append(
            _Source("--storage-file", lambda: _named(sources, parsed(file.text, where), where, file=again))
        )
    return found


def _variable(sources: Sources, name: str) -> _Rank:
    """One of the two that hold JSON. Set but empty is set: a store was meant, and none is named."""
    text = sources.environ.get(name)
    if text is None:
        return []
    return [_Source(name, lambda: _named(sources, parsed(text, name), name))]


def _folder_variable(sources: Sources) -> _Rank:
    text = sources.environ.get(SESSION_DIR, "")
    folders = sources.folders
    if not text:
        return []
    return [
        _Source(SESSION_DIR, lambda: FolderSelection(resolve(text, folders.working, folders, SESSION_DIR)))
    ]


def _setting(sources: Sources, *names: str) -> _Rank:
    """The project's setting, else the person's: a whole value, never two mixed."""
    for file in (sources.project, sources.everywhere):
        there, value = file.at(*names) if file is not None else (False, None)
        if file is not None and there:
            return [_written(sources, value, f'"{".".join(names)}" in {file.path}')]
    return []


def _written(sources: Sources, value: Any, name: str) -> _Source:  # JSON of any shape
    return _Source(name, lambda: _named(sources, value, name))


def _named(sources: Sources, value: Any, where: str, *, file: str = "") -> Selection:  # JSON of any shape
    return named(value, where, sources.folders.home, sources.folders, sources.environ, file=file)


_SDK_MEND = 'Pass a store, or a selection such as {"kind": "sqlite", "path": "sessions.sqlite"}.'
_SDK_KINDS = {"sqlite": "path", "jsonl": "dir", "memory": "memory", "atom": "atom", "driver": "driver"}


def _from_sdk(sources: Sources) -> Selection:
    """A selection as a program writes it, its paths counting from the working directory, or an open store."""
    given, folders, where = sources.sdk, sources.folders, "session_store"
    match given:
        case Mapping():
            return named(_with_kind(given), where, folders.working, folders, sources.environ)
        case SqliteSelection(path, prefix):
            return sqlite(resolve(path, folders.working, folders, where), prefix, "prefix", folders)
        case FolderSelection(path) | AtomSelection(path) | CacheSelection(path):
            return msgspec.structs.replace(given, path=resolve(path, folders.working, folders, where))
        case MemorySelection() | DriverSelection() | OwnSelection():
            return given
        case str() | bytes() | bool() | int() | float() | list() | tuple() | os.PathLike():
            raise SelectionError(f"{where} is neither a store nor a selection of one.", _SDK_MEND)
    return OwnSelection(given)


def _with_kind(given: Mapping[Any, Any]) -> dict[str, Any]:  # whatever a program passed
    """The members as JSON spells them; `kind` names what JSON tells by the member."""
    found = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in given.items()
    }
    if not all(isinstance(name, str) for name in found):
        raise SelectionError("session_store has a member whose name is no text.", _SDK_MEND)
    if "kind" not in found:
        return found
    kind = found.pop("kind")
    member = _SDK_KINDS.get(kind) if isinstance(kind, str) else None
    if member is None:
        raise SelectionError('"kind" in session_store is not one of those known.', _SDK_MEND)
    if member == "memory":
        found.setdefault("memory", True)
    elif member == "atom":
        found["atom"] = found.pop("path", True)
    elif member == "driver" and "name" in found:
        found["driver"] = found.pop("name")
    if member not in found:
        raise SelectionError(f'"{member}" is missing in session_store.', _SDK_MEND)
    return found
