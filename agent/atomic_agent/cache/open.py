"""The one place that opens a cache file, with every check of security.md 1.3. Knows no table.

The checks: our own module with a cipher, a key of exactly 32 bytes, the file made 0600 before SQLite
sees it, no link, our own, not open to others, not another program's plain file, the right key, and
after the first commit no readable header.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sqlcipher3.dbapi2 as sqlite
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.cache.held import Held, beginning
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locks import LockedError
from atomic_sessions.errors import CacheDamagedError, CacheRefusedError, KeyMissingError, StoreWriteError

if TYPE_CHECKING:
    from sqlite3 import Connection

PLAIN_MAGIC = b"SQLite format 3\x00"
TEXT_BYTES = 24
"""As many printable characters at a file's beginning are no chance: an encrypted file begins with its salt."""
BUSY_SECONDS = 15.0


class KeyInfo(Struct, frozen=True):
    """Beside the cache: which key it needs (`check_value`, `name`), and the key itself wrapped under
    the recovery secret (`recovery`, hex)."""

    version: int
    name: str
    check_value: str
    recovery: str = ""


def read_keyinfo(path: Path) -> KeyInfo | None:
    """The key info beside a cache, None when there is none."""
    try:
        found = json.loads(private_files.read(path))
        return KeyInfo(1, str(found["name"]), str(found["check_value"]), str(found.get("recovery", "")))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CacheRefusedError(
            f"{path} is damaged.", "Restore it, or: atomic recovery restore FILE"
        ) from None


def write_keyinfo(path: Path, info: KeyInfo) -> None:
    text = {"version": 1, "name": info.name, "check_value": info.check_value, "recovery": info.recovery}
    private_files.write(path, json.dumps(text).encode())


def check_key(path: Path, keyinfo: Path, key: LocalKey) -> None:
    """Refuse a key that is not the cache's, before the cache is touched."""
    info = read_keyinfo(keyinfo)
    if info is not None and info.check_value != key.check_value:
        raise KeyMissingError(
            f"Wrong key for {path}: have {key.name}, the cache needs {info.name}.",
            "Use the key it was made with, or: atomic recovery restore FILE",
        )


def connect(
    path: Path, key: LocalKey, keyinfo: Path, *, create: bool = True, alone: bool = False
) -> "Connection":
    """An open, keyed, checked connection in WAL mode, with foreign keys and memory temp tables.

    Nobody replaces the file until it is closed; `alone`: who asks has taken the cache's lock.
    Raises CacheRefusedError, KeyMissingError or StoreWriteError; an existing file is never changed by
    a refused open.
    """
    if not getattr(sqlite, "sqlite_version_info", None) or sqlite.__name__ != "sqlcipher3.dbapi2":
        raise CacheRefusedError("The encrypted database module is missing.", "Reinstall atomic-sessions.")
    private_files.make_folder(path.parent)
    fresh = not path.is_symlink() and not path.exists()
    if fresh:
        if not create:
            raise CacheRefusedError(f"There is no cache at {path}.", "Run: atomic capture")
        _create(path, key, keyinfo)
    else:
        if not alone:
            _refuse_others(path)
        private_files.check_file(path)
        check_key(path, keyinfo, key)
    connection = _keyed(path, key, _hold(path, alone=alone))
    try:
        _verify(connection, path, key, keyinfo)
    except BaseException:
        connection.close()
        raise
    return connection


def _hold(path: Path, *, alone: bool) -> Held:
    """The file that lies at the path and stays there. It is looked at first: beside another program's file no
    lock is made."""
    while True:
        held = Held(path)
        try:
            _refuse_foreign(path, held)
            if alone:
                return held
            held.share(BUSY_SECONDS)
            if held.is_in_place():
                return held
        except LockedError as error:
            held.release()
            raise disk_error(sqlite.OperationalError("database is locked")) from error
        except BaseException:
            held.release()
            raise
        held.release()


def _create(path: Path, key: LocalKey, keyinfo: Path) -> None:
    if read_keyinfo(keyinfo) is not None:
        check_key(path, keyinfo, key)
    try:
        private_files.create(path)
    except FileExistsError:
        private_files.check_file(path)
    except OSError as error:
        raise StoreWriteError(
            f"The cache {path} cannot be made: {error.strerror}.",
            "Free some space or check the folder's rights.",
        ) from error


def _refuse_others(path: Path) -> None:
    """Before anything is said of rights: advice to change those of a file that is not ours would do harm."""
    try:
        head = b"" if path.is_symlink() or not path.is_file() else beginning(path, TEXT_BYTES)
    except OSError:
        return
    if head.startswith(PLAIN_MAGIC):
        raise _foreign(path)
    if len(head) == TEXT_BYTES and head.isascii() and all(byte >= 0x20 or byte in b"\t\r\n" for byte in head):
        raise CacheRefusedError(
            f"{path} is a text file, not a store of sessions; it was not touched.",
            "Choose another file with --session-store, or a folder of JSONL files with --session-dir.",
        )


def _refuse_foreign(path: Path, held: Held) -> None:
    if held.beginning(len(PLAIN_MAGIC)) == PLAIN_MAGIC:
        raise _foreign(path)


def _foreign(path: Path) -> CacheRefusedError:
    return CacheRefusedError(
        f"{path} is another program's database, not our encrypted cache; it was not touched.",
        "Point ATOMIC_HOME to another folder, or choose another file with --session-store.",
    )


def _keyed(path: Path, key: LocalKey, held: Held | None = None) -> "Connection":
    connection: Connection = sqlite.connect(
        str(path), timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    if held is not None:
        # What SQLite keeps a function of it lets go of when it has closed the files, and not before.
        connection.create_function("is_in_place", 0, held.is_in_place)
    # Silences "hmac check failed" on stderr; must stand before the key (security.md 1.3, 4).
    connection.execute("PRAGMA cipher_log_level = NONE")
    connection.execute(f'PRAGMA key = "{_pragma_key(key.database_key())}"')
    return connection


def _pragma_key(raw: bytes) -> str:
    """The only place where a key becomes text."""
    if not isinstance(raw, bytes) or len(raw) != 32:
        raise ValueError("a database key is 32 bytes")
    return f"x'{raw.hex()}'"


def _verify(connection: "Connection", path: Path, key: LocalKey, keyinfo: Path) -> None:
    version = connection.execute("PRAGMA cipher_version").fetchone()
    if not version or not version[0]:
        raise CacheRefusedError(
            "This SQLite cannot encrypt, so the cache was not opened.", "Reinstall atomic-sessions."
        )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        mode = _write_ahead(connection)
    except sqlite.OperationalError as error:
        raise disk_error(error) from error
    except sqlite.DatabaseError:
        raise CacheDamagedError(_unopened(path, key, keyinfo)) from None
    if mode != ("wal",):
        raise CacheRefusedError(
            f"{path} lies on a file system that cannot share memory (NFS, SMB).",
            "Point ATOMIC_HOME to a local disk.",
        )
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -16000")


def _unopened(path: Path, key: LocalKey, keyinfo: Path) -> str:
    """Without the key info nobody knows whether it is the key or the cache."""
    if read_keyinfo(keyinfo) is None:
        return f"The cache {path} does not open with the key {key.name}: it is another key's, or damaged."
    return f"The cache {path} is damaged: it does not open with its key {key.name}."


def _write_ahead(connection: "Connection") -> object:
    """Switch to WAL. While another process makes the same file SQLite refuses that at once, without
    waiting as it does elsewhere."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


def assert_sealed(path: Path) -> None:
    """After the first commit: the file's first bytes are not readable."""
    if beginning(path, len(PLAIN_MAGIC)) == PLAIN_MAGIC:
        raise CacheRefusedError(
            "The cache came out unencrypted and is not used.", "Reinstall atomic-sessions."
        )


@contextmanager
def transaction(
    connection: "Connection", kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE"
) -> Iterator[None]:
    """All or nothing; nests by joining the outer one. A disk error becomes StoreWriteError."""
    if connection.in_transaction:
        yield
        return
    try:
        connection.execute(f"BEGIN {kind}")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    except sqlite.OperationalError as error:
        raise disk_error(error) from error


@contextmanager
def repeatable(connection: "Connection") -> Iterator[None]:
    """For work that can be done again after a power cut, since its source stays: commits do not wait for
    the disk. The file is whole at any moment all the same."""
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")


def disk_error(error: Exception) -> StoreWriteError:
    """What SQLite said about the disk or a lock, as a sentence with a mend."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreWriteError("The cache is busy: another process holds it.", "Try again in a moment.")
    if "full" in text:
        return StoreWriteError(
            "The disk is full; nothing was lost or half written.", "Free some space and repeat."
        )
    if "readonly" in text:
        return StoreWriteError("The cache is on a read-only disk.", "Make it writable and repeat.")
    return StoreWriteError("The disk refused to write to the cache.", "Check the disk and repeat.")
