"""The stores a person can choose, as data. Opens none of them.

Paths are absolute. A driver's options may hold a password, so nothing here shows them.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class CacheSelection(Struct, frozen=True):
    """The encrypted cache, the only store that syncs (B1). `earlier`: nobody chose it, and only then the
    files of earlier sessions are listed beside it (B4)."""

    path: str
    earlier: bool = True


class SqliteSelection(Struct, frozen=True):
    """Another SQLite file; `prefix` stands in front of its tables' names."""

    path: str
    prefix: str = ""


class FolderSelection(Struct, frozen=True):
    """A folder of JSONL files, used as it is."""

    path: str


class MemorySelection(Struct, frozen=True):
    """Nothing is kept."""


class AtomSelection(Struct, frozen=True):
    """One Atom file, which holds one session."""

    path: str


class DriverSelection(Struct, frozen=True):
    """A database driver the person installed. `file` is what --storage-file named, when it can be read again."""

    name: str
    options: Mapping[str, Any]  # JSON of any shape, the driver's own
    file: str = ""

    def __repr__(self) -> str:
        return f"DriverSelection(name={self.name!r}, options=…, file={self.file!r})"


class OwnSelection(Struct, frozen=True):
    """A store that a program opened itself and handed to the SDK; it stays that program's (B13)."""

    store: object

    def __repr__(self) -> str:
        return f"OwnSelection({type(self.store).__name__})"


Selection = (
    CacheSelection
    | SqliteSelection
    | FolderSelection
    | MemorySelection
    | AtomSelection
    | DriverSelection
    | OwnSelection
)
