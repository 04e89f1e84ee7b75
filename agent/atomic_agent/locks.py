"""One process at a time, or many that only share: a lock file held by the operating system, free when its
holder dies."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int, *, shared: bool) -> None:
        # It knows no shared locks; nobody replaces a file there that another has open.
        if not shared:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int, *, shared: bool) -> None:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class LockedError(Exception):
    """Another process kept the lock for too long."""


RETRY_SECONDS = 0.02


@contextmanager
def exclusive(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock; LockedError when another process keeps it longer than this many seconds."""
    handle = take(path, seconds, shared=False)
    try:
        yield
    finally:
        os.close(handle)


def take(path: Path, seconds: float, *, shared: bool) -> int:
    """The handle that holds the lock until it is closed; LockedError as above, OSError when none can be made."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    deadline = time.monotonic() + seconds
    try:
        while True:
            try:
                _take(handle, shared=shared)
                return handle
            except OSError:
                if time.monotonic() >= deadline:
                    raise LockedError from None
                time.sleep(RETRY_SECONDS)
    except BaseException:
        os.close(handle)
        raise
