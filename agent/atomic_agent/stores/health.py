"""Is this machine's store sound: home, files, disk, key, cache, recovery kit. Asks no network.

Looks and changes nothing: what is missing is not made, and a cache is opened only where one lies. No
check ends the next one.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sqlcipher3.dbapi2 as sqlite
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import check_key, connect, disk_error
from atomic_agent.keys import keystore, sources
from atomic_agent.keys.keystore import Secrets
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.journal import UNWRITABLE
from atomic_sessions.errors import AtomicError, CacheDamagedError, KeyMissingError, StoreWriteError

if TYPE_CHECKING:
    from sqlite3 import Connection

CHECK_SECONDS = 5.0
CHECK_STEPS = 20_000
"""How many of its steps SQLite goes between two looks at the clock: a few milliseconds."""
LOW_DISK_BYTES = 200_000_000
NO_MEND = "Run atomic doctor again in a moment."

State = Literal["ok", "warning", "problem"]


class Check(Struct, frozen=True):
    """What one look found. `mend` is empty exactly when the state is ok."""

    name: str
    state: State
    said: str
    mend: str = ""


class Store(Struct):
    """What could be opened; whoever asked closes the cache."""

    key: LocalKey | None = None
    secrets: Secrets | None = None
    cache: Cache | None = None


def guarded(name: str, look: Callable[[], Iterator[Check]], *, otherwise: str = NO_MEND) -> Iterator[Check]:
    """The checks of one look; an error it meets becomes the last of them, with a mend of its own or this."""
    try:
        yield from look()
    except AtomicError as error:
        yield Check(name, "problem", error.message, error.mend or otherwise)
    except sqlite.OperationalError as error:
        told = disk_error(error)
        yield Check(name, "problem", told.message, told.mend)
    except sqlite.DatabaseError:
        damaged = CacheDamagedError("The cache answers as a damaged one does.")
        yield Check(name, "problem", damaged.message, damaged.mend)
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else "A file"
        yield Check(
            name,
            "problem",
            f"{place}: {error.strerror or type(error).__name__}.",
            "Check the rights of it and its folders.",
        )


def examine(home: Home, store: Store) -> Iterator[Check]:
    """Every check of the store, in the order in which one explains the next; fills `store`."""
    yield from guarded("home", partial(folders, home))
    yield from guarded("files", partial(private, home))
    yield from guarded("disk", partial(_disk, home))
    yield from guarded("key", partial(_key, home, store))
    yield from guarded("key-fits", partial(_fits, home, store))
    yield from guarded("cache", partial(_cache, home, store))
    yield from guarded("recovery", partial(_recovery, home, store))


def folders(home: Home) -> Iterator[Check]:
    """The home and its two folders: ours, and nobody else's to change."""
    if not os.path.lexists(home.root):
        yield Check("home", "ok", f"There is no {home.root} yet; the first command makes it.")
        return
    for folder in (home.root, home.cache.parent, home.keys):
        if os.path.lexists(folder):
            private_files.check_folder(folder)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise StoreWriteError(f"{folder} cannot be written to.", UNWRITABLE)
    link = f", a link to {home.root.resolve()}" if home.root.is_symlink() else ""
    yield Check("home", "ok", f"{home.root}{link}: its folders are ours alone to change.")


def private(home: Home) -> Iterator[Check]:
    """Each private file: no link, ours, closed to others. One check for each that is not."""
    beside = (home.cache.with_name(home.cache.name + end) for end in ("-wal", "-shm"))
    named = (home.cache, *beside, home.keyinfo, home.keystore, home.key_choice, home.passphrase_file)
    present = [path for path in named if os.path.lexists(path)]
    bad = [found for path in present for found in guarded("files", partial(_private, path))]
    yield from bad
    if not bad:
        said = f"{len(present)} private files, each ours and closed to others." if present else "None yet."
        yield Check("files", "ok", said)


def _private(path: Path) -> Iterator[Check]:
    private_files.check_file(path)
    return iter(())


def disk(free: int) -> Check:
    """Is there room for what comes."""
    said = f"{free / 1e9:.1f} GB free." if free >= 1e9 else f"{free / 1e6:.0f} MB free."
    if free >= LOW_DISK_BYTES:
        return Check("disk", "ok", said)
    return Check("disk", "warning", f"Only {said}", "Free some space, or point ATOMIC_HOME to another disk.")


def _disk(home: Home) -> Iterator[Check]:
    yield disk(shutil.disk_usage(_nearest(home.root)).free)


def _nearest(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _key(home: Home, store: Store) -> Iterator[Check]:
    store.key = sources.find(home)
    if store.key is not None:
        yield Check("key", "ok", f"{store.key.name}, {_kept(home)}.")
    elif any(os.path.lexists(path) for path in (home.cache, home.keystore)):
        raise KeyMissingError(
            "There is a cache, and nothing says where its key is.",
            "Name the key file (ATOMIC_KEY_FILE), or: atomic recovery restore FILE",
        )
    else:
        yield Check(
            "key",
            "ok",
            "None yet; the first command makes one in the keyring, if ATOMIC_KEY_FILE names none.",
        )


def _kept(home: Home) -> str:
    """Where the key comes from, in the order in which `sources` asks."""
    if os.environ.get("ATOMIC_KEY_FD"):
        return "given by ATOMIC_KEY_FD"
    if named := os.environ.get("ATOMIC_KEY_FILE"):
        return f"in the file {named}"
    if sources.is_given():
        return "a credential of the system"
    choice = sources.read_choice(home)
    if choice is None or choice.store == "passphrase":
        return f"under a passphrase in {home.passphrase_file}"
    return f"in the keyring {choice.backend}"


def _fits(home: Home, store: Store) -> Iterator[Check]:
    """The key is that of the cache and of the keystore."""
    if store.key is None:
        return
    check_key(home.cache, home.keyinfo, store.key)
    store.secrets = keystore.load(home, store.key)
    if os.path.lexists(home.cache) or os.path.lexists(home.keystore):
        yield Check("key-fits", "ok", "The key is the one the cache and the keystore were made with.")
    else:
        yield Check("key-fits", "ok", "There is nothing yet that it would have to open.")


def _cache(home: Home, store: Store) -> Iterator[Check]:
    """It opens with every check of a real open, and SQLite finds nothing wrong in it."""
    if not os.path.lexists(home.cache):
        yield Check("cache", "ok", "None yet; the first command makes it.")
        return
    if store.key is None:
        mend = "Mend the key first; see above."
        yield Check("cache", "warning", "Not looked into: there is no key to open it with.", mend)
        return
    connection = connect(home.cache, store.key, home.keyinfo, create=False)
    try:
        yield _looked_into(home.cache, connection, store)
    finally:
        if store.cache is None:
            connection.close()


def _looked_into(path: Path, connection: "Connection", store: Store) -> Check:
    size = path.stat().st_size
    wal = path.with_name(path.name + "-wal")
    whole = size + (wal.stat().st_size if wal.exists() else 0)
    checked = quick_check(connection, time.monotonic() + CHECK_SECONDS)
    # An open of ours would make the tables: a doctor does not.
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'session_meta'").fetchone() is None:
        return Check("cache", "warning", f"{path} opens and holds no sessions yet.", "Run: atomic capture")
    cache = Cache(connection, path)
    store.cache = cache
    schema = int.from_bytes(cache.get("schema") or b"\x01", "big")
    return Check("cache", "ok", f"{path} opens, {checked}, {whole / 1e6:.1f} MB, schema {schema}.")


def quick_check(connection: "Connection", deadline: float) -> str:
    """What SQLite's quick check came to by the deadline; CacheDamagedError when it fails."""
    late = False

    def over() -> bool:
        nonlocal late
        late = time.monotonic() >= deadline
        return late

    connection.set_progress_handler(over, CHECK_STEPS)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite.OperationalError:
        # What SQLite calls it depends on where it was.
        if not late:
            raise
        return f"quick check cut after {CHECK_SECONDS:.0f} s with nothing found"
    finally:
        connection.set_progress_handler(None, 0)
    if found != ("ok",):
        raise CacheDamagedError("The cache is damaged: SQLite's quick check fails.")
    return "quick check passed"


def _recovery(home: Home, store: Store) -> Iterator[Check]:
    if store.secrets is None:
        return
    if store.secrets.recovery_saved:
        yield Check("recovery", "ok", "A recovery kit was saved.")
    elif os.path.lexists(home.keystore):
        said = "No recovery kit was saved: without one a lost key is lost for good."
        yield Check("recovery", "warning", said, "Run: atomic recovery save FILE")
