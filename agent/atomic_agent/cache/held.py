"""What a connection holds of its cache beside SQLite: a share of the cache's lock, and this process's one handle.

Whoever replaces the file takes that lock alone, so the file at the path is the one that is open. SQLite's own
locks do not tell: a process loses all it has of a file when it closes any handle of it, so the beginning of a
cache is read through one handle, which is closed after the last connection.
"""

import os
import threading
from pathlib import Path

from atomic_agent.locks import take

_mutex = threading.Lock()
_handles: dict[tuple[int, int], list[int]] = {}
"""For each file by device and number: the handle, and how many connections there are."""


def lock_of(path: Path) -> Path:
    """The lock of a cache: shared by whoever has it open, taken alone by a repair."""
    return path.with_name(f"{path.name}.lock")


class Held:
    """Kept by a connection until SQLite has closed its own handles."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1
        self._file: tuple[int, int] | None = None
        with _mutex:
            file = _identity(path)
            if file not in _handles:
                handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
                found = os.fstat(handle)
                file = found.st_dev, found.st_ino
                _handles.setdefault(file, [handle, 0])
            _handles[file][1] += 1
            self._file = file

    def beginning(self, size: int) -> bytes:
        """The file's first bytes; none when the disk does not give them."""
        return beginning(self._path, size)

    def share(self, seconds: float) -> None:
        """Take a share of the cache's lock; LockedError when a repair keeps it longer than that."""
        try:
            self._lock = take(lock_of(self._path), seconds, shared=True)
        except OSError:
            pass  # where no file can be made, none is replaced; SQLite says what is wrong there

    def is_in_place(self) -> bool:
        """The path still names this file: nobody replaced it before the lock was ours."""
        return _identity(self._path) == self._file

    def release(self) -> None:
        """Let go; a second time does nothing."""
        file, self._file = self._file, None
        if file is not None:
            with _mutex:
                entry = _handles[file]
                entry[1] -= 1
                if not entry[1]:
                    os.close(_handles.pop(file)[0])
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    __del__ = release


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file that this process may have open as a cache; none when the disk fails."""
    with _mutex:
        entry = _handles.get(_identity(path))
        try:
            if entry is None:
                with path.open("rb") as stream:
                    return stream.read(size)
            os.lseek(entry[0], 0, os.SEEK_SET)
            return os.read(entry[0], size)
        except OSError as error:
            if is_unreadable(error):
                return b""
            raise


def is_unreadable(error: OSError) -> bool:
    """The disk cannot give what is asked of it."""
    import errno

    return error.errno == errno.EIO


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
