"""What the system itself tells of changes below folders: Linux' inotify, nothing elsewhere. A hint, never relied upon:
some file systems tell nothing, and there are limits on how many folders may be asked about.

Ours because it is one system call in three forms; a library would add a compiled dependency and a thread.
"""

import ctypes
import os
import select
import struct
import sys
from typing import Protocol

from msgspec import Struct

_EVENT = struct.Struct("iIII")
_BUFFER = 64 * 1024
# <sys/inotify.h>: modified, attributes, moved from and to, created, deleted; only folders.
_MASK = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x0100_0000
_OVERFLOW = 0x4000
_IGNORED = 0x8000


class Told(Struct, frozen=True):
    """Paths in which, or at which, something changed; `all` when some were lost."""

    paths: tuple[str, ...] = ()
    all: bool = False


class Notices(Protocol):
    """Tells of changes in the folders it was asked about."""

    def ask(self, folder: str) -> None: ...

    def told(self) -> Told: ...

    def wait(self, seconds: float) -> bool: ...

    def close(self) -> None: ...


def notices() -> Notices | None:
    """What this system has; None where it has nothing or gives no more of it."""
    if sys.platform != "linux":
        return None
    try:
        return Inotify()
    except (OSError, AttributeError):
        return None


class Inotify:
    """One inotify instance. OSError when the system gives none, AttributeError without the call."""

    def __init__(self) -> None:
        self._c = ctypes.CDLL(None, use_errno=True)
        self._handle: int = self._c.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, str] = {}

    def ask(self, folder: str) -> None:
        """Hear of changes in a folder from now on; asking again is harmless. Beyond the system's limit nothing is
        heard of it."""
        number = self._c.inotify_add_watch(self._handle, os.fsencode(folder), _MASK)
        if number >= 0:
            self._folders[number] = folder

    def told(self) -> Told:
        """What changed since the last call, each path once; does not wait."""
        paths: dict[str, None] = {}
        lost = False
        while True:
            try:
                found = os.read(self._handle, _BUFFER)
            except BlockingIOError:
                return Told(tuple(paths), lost)
            at = 0
            while at < len(found):
                number, mask, _, size = _EVENT.unpack_from(found, at)
                at += _EVENT.size
                name = os.fsdecode(found[at : at + size].rstrip(b"\0"))
                at += size
                lost |= bool(mask & _OVERFLOW)
                if mask & _IGNORED:
                    self._folders.pop(number, None)
                elif (folder := self._folders.get(number)) is not None:
                    paths[f"{folder.rstrip('/')}/{name}" if name else folder] = None

    def wait(self, seconds: float) -> bool:
        """Sleep until there is something to hear, so many seconds at most; True when there is."""
        return bool(select.select([self._handle], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self._handle)
