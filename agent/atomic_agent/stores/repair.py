"""Mending a damaged cache: alone with it, a new one made beside it, then put in its place.

Once it is known to be damaged, the file is neither opened by SQLite nor written to: what is read is a copy.
Whenever this process dies, the old cache or the new one lies in the cache's place, and a repeat works.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import sqlcipher3.dbapi2 as sqlite
from msgspec import Struct, field

from atomic_agent import private_files
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.held import beginning, lock_of
from atomic_agent.cache.open import PLAIN_MAGIC, check_key, connect, disk_error, read_keyinfo
from atomic_agent.keys import sources
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.locks import LockedError, exclusive
from atomic_agent.stores.copying import copy_cache, is_readable
from atomic_agent.stores.damaged import PAGE_BYTES, Damaged
from atomic_agent.stores.salvage import Progress, Salvaged, salvage
from atomic_sessions.errors import (
    BusyError,
    CacheDamagedError,
    CacheRefusedError,
    KeyMissingError,
    StoreWriteError,
)

LOCKS = ("sync.lock", "capture.lock")
SIDE_FILES = ("-wal", "-shm")
SHARED_LOCK = (0x40000002, 510)
"""Where SQLite's own locks lie in a database file: held by whoever has it open in WAL mode."""
Agree = Callable[[str], None]


class Repaired(Struct, frozen=True):
    """What was done. `healthy`: nothing had to be. `readable` false: nothing could be taken over."""

    healthy: bool
    readable: bool = True
    kept_aside: str = ""
    salvaged: Salvaged = field(default_factory=Salvaged)


def repair(home: Home, progress: Progress, agree: Agree, now: Callable[[], float] = time.time) -> Repaired:
    """Mend the cache if it is damaged. `agree` asks before a cache that cannot be read at all is set aside.

    Raises CacheRefusedError, KeyMissingError, BusyError, StoreWriteError, ConfirmationError; in each case
    the cache is as it was.
    """
    path = home.cache
    if not os.path.lexists(path):
        raise CacheRefusedError(f"There is no cache at {path}.", "Run: atomic capture")
    private_files.check_folder(home.root)
    private_files.check_folder(path.parent)
    private_files.check_file(path)
    key = sources.find(home)
    if key is None:
        raise KeyMissingError(
            f"The cache {path} exists, but its key is missing.",
            "Name the key file (ATOMIC_KEY_FILE), or: atomic recovery restore FILE",
        )
    check_key(path, home.keyinfo, key)
    _refuse_plain(path)
    progress("looking at every page")
    if is_healthy(home, key):
        return Repaired(healthy=True)
    with _alone(home):
        # Another repair may have mended it since.
        if is_healthy(home, key, alone=True):
            return Repaired(healthy=True)
        with _locked(home.cache) as handle:
            return _mend(home, key, handle, progress, agree, now)


def is_healthy(home: Home, key: LocalKey, *, alone: bool = False) -> bool:
    """SQLite reads all that is in use and finds it consistent. (A page that is free may never have been
    written, so a check of every page's code would find fault with a sound file.)"""
    try:
        connection = connect(home.cache, key, home.keyinfo, create=False, alone=alone)
    except CacheDamagedError:
        return False
    except StoreWriteError:
        if is_readable(home.cache):
            raise
        return False
    try:
        found: object = connection.execute("PRAGMA integrity_check(1)").fetchone()
        return found == ("ok",)
    except sqlite.OperationalError as error:
        if "I/O" in str(error):
            connection.close()
            if not is_readable(home.cache):
                return False
        raise
    except sqlite.DatabaseError:
        return False
    finally:
        connection.close()


def _refuse_plain(path: Path) -> None:
    if beginning(path, len(PLAIN_MAGIC)) == PLAIN_MAGIC:
        raise CacheRefusedError(
            f"{path} is another program's database, not our encrypted cache; it was not touched.",
            "Point ATOMIC_HOME to another folder.",
        )


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """No other process syncs, follows files, makes a key, or has the cache open; one that opens it waits."""
    with ExitStack() as held:
        try:
            for name in LOCKS:
                held.enter_context(exclusive(home.cache.with_name(name), 0.0))
            private_files.make_folder(home.keys)
            held.enter_context(exclusive(home.keys / "lock", 0.0))
            held.enter_context(exclusive(lock_of(home.cache), 0.0))
        except LockedError:
            raise _busy() from None
        yield


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The open file, which no program of SQLite's has open, one older than our lock included."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        _lock(handle)
        yield handle
    finally:
        os.close(handle)


if sys.platform == "win32":

    def _lock(handle: int) -> None:
        """Windows lets nobody replace a file that is open."""

else:
    import fcntl

    def _lock(handle: int) -> None:
        """Keep SQLite of any other process out; lost when this process opens and closes the file elsewhere."""
        start, size = SHARED_LOCK
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, size, start)
        except OSError:
            raise _busy() from None


def _busy() -> BusyError:
    return BusyError(
        "Another process of atomic has the cache open.",
        "Stop it (atomic capture --watch, atomic sync --watch, a conversation), then: atomic doctor --repair",
    )


def _mend(
    home: Home, key: LocalKey, handle: int, progress: Progress, agree: Agree, now: Callable[[], float]
) -> Repaired:
    work = home.cache.with_name(f"{home.cache.name}.repairing")
    shutil.rmtree(work, ignore_errors=True)
    _room(home.cache)
    try:
        private_files.make_folder(work)
        copy, made = work / "old.sqlite", work / "new.sqlite"
        progress("copying")
        whole_log = copy_cache(home.cache, handle, copy)
        readable = _absorb(copy, key, home.keyinfo)
        found = Salvaged(certain=False)
        if not readable:
            _confirm_key(home, key)
            agree(
                "Nothing of this cache can be read: its first pages are broken. Set it aside and begin anew?"
            )
        with Cache.open(made, key, home.keyinfo) as new:
            if readable:
                old = Damaged(copy, key, home.keyinfo, pages=_pages(handle))
                try:
                    found = salvage(old, new, progress, certain=whole_log)
                finally:
                    old.close()
            _finish(new)
        _on_disk(made)
        aside = _swap(home.cache, made, copy if readable else None, _stamp(now()))
        return Repaired(healthy=False, readable=readable, kept_aside=str(aside), salvaged=found)
    except sqlite.OperationalError as error:
        raise disk_error(error) from error
    except OSError as error:
        raise StoreWriteError(
            f"The cache could not be repaired: {error.strerror or type(error).__name__}. It is as it was.",
            "Free some space or check the folder's rights, and repeat.",
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _room(path: Path) -> None:
    need = sum(_size(path.with_name(path.name + end)) for end in ("", "-wal")) * 2
    if _free(path.parent) < need:
        raise StoreWriteError(
            f"To repair the cache {need / 1e6:.0f} MB of free space are needed beside it; it is as it was.",
            "Free some space and repeat.",
        )


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _pages(handle: int) -> int:
    return os.fstat(handle).st_size // PAGE_BYTES


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _confirm_key(home: Home, key: LocalKey) -> None:
    """A cache that another key opens looks just like one whose first page is broken."""
    if read_keyinfo(home.keyinfo) is None:
        raise KeyMissingError(
            f"The cache {home.cache} does not open with the key {key.name}, and {home.keyinfo}, which says"
            " whether that is its key, is gone. Nothing was changed.",
            "Name the key it was made with (ATOMIC_KEY_FILE), or put that file back.",
        )


def _absorb(copy: Path, key: LocalKey, keyinfo: Path) -> bool:
    """Take what the log holds into the copy; False when it does not open at all.

    SQLite opens no file that is shorter than its first page says: one that was cut is given blank pages.
    """
    size = _size(copy)
    for longer in (1, 2, 16):
        if longer > 1:
            os.truncate(copy, -(-size // PAGE_BYTES) * PAGE_BYTES * longer)
        try:
            connection = connect(copy, key, keyinfo, create=False, alone=True)
        except CacheRefusedError:
            continue
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'session_meta'").fetchone()
            return found is not None
        except sqlite.OperationalError:
            raise
        except sqlite.DatabaseError:
            return False
        finally:
            connection.close()
    return False


def _finish(new: Cache) -> None:
    """The new cache in one file, and checked."""
    new.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if new.connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise StoreWriteError(
            "The repaired cache did not come out whole; the old one is as it was.",
            "Check the disk and repeat.",
        )


def _on_disk(path: Path) -> None:
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError:
            if place == path:  # not every system puts folders on the disk
                raise
        finally:
            os.close(handle)


def _stamp(seconds: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


def _swap(path: Path, made: Path, absorbed: Path | None, stamp: str) -> Path:
    """The new cache in the old one's place; the old one's files beside it under another name.

    A log that lies beside a database of another key salt would break it. So where there is one, the old
    database is first replaced by itself with the log taken in, which the log may still lie beside; then the
    log goes, then the new one comes.
    """
    _forget_begun(path)
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    logged = _size(path.with_name(path.name + "-wal")) > 0
    for end in ("", *SIDE_FILES):
        if os.path.lexists(path.with_name(path.name + end)):
            os.link(path.with_name(path.name + end), aside.with_name(aside.name + end))
    if logged and absorbed is not None:
        _on_disk(absorbed)
        absorbed.replace(path)
    for end in SIDE_FILES:
        path.with_name(path.name + end).unlink(missing_ok=True)
    _on_disk(path.parent / made.parent.name / made.name)
    made.replace(path)
    _on_disk(path)
    return aside


def _forget_begun(path: Path) -> None:
    """Names that a repair before this one gave the same files before it was ended."""
    here = path.stat()
    for other in list(path.parent.glob(f"{path.name}.damaged-*")):
        if not other.name.endswith(SIDE_FILES) and os.path.samestat(here, other.lstat()):
            for end in ("", *SIDE_FILES):
                other.with_name(other.name + end).unlink(missing_ok=True)
