"""Disks that are full or read-only, other writers, and a kill: what was acknowledged stays."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlcipher3.dbapi2 as sealed_sqlite

from agent.cache import stored
from agent.cache.stored import Place
from atomic_agent import private_files
from atomic_agent.cache import open as opening
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import StoreWriteError

WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
TRY = """
import sys
import threading
from pathlib import Path
from atomic_agent.cache.cache import Cache
from atomic_agent.cache import sessions
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.entry import Facts
from atomic_sessions.errors import AtomicError
folder = Path(sys.argv[1])
try:
    with Cache.open(folder / "journal.sqlite", LocalKey(bytes(range(32))), folder / "journal.keyinfo") as cache:
        for number in range(20_000):
            with transaction(cache.connection):
                sessions.ensure(cache, Facts("pi", f"{number}" + "x" * 2000, "", "/p", "p", 1))
except AtomicError as error:
    print(error.exit_code, error.message)
"""


def _tried(folder: Path, *before: str) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", TRY, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def _lowered() -> bool:
    """Whether a process without the rights of root can be started here."""
    if os.geteuid() != 0:
        return True
    return shutil.which("setpriv") is not None and (
        subprocess.run([*WITHOUT_CAPABILITIES, "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not _lowered(), reason="root overrides the folder's mode, and setpriv is missing")
def test_a_folder_that_cannot_be_written(place: Place, key: LocalKey) -> None:
    """A new cache in a read-only folder, and one that exists: the disk is named, not damage, exit 15."""
    before = [] if os.geteuid() else WITHOUT_CAPABILITIES
    place.folder.mkdir(mode=0o500)
    said = _tried(place.folder, *before)
    assert said.startswith("15 "), said
    place.folder.chmod(0o700)
    place.make(key)
    place.folder.chmod(0o500)
    said = _tried(place.folder, *before)
    place.folder.chmod(0o700)
    assert said.startswith("15 "), said
    with place.open(key) as cache:
        assert len(stored.read(cache, 1)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk(place: Place, key: LocalKey) -> None:
    """A disk that fills up refuses the write (exit 15); what was acknowledged stays, later work goes on."""
    place.folder.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place.folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        place.make(key, lines=3)
        assert _tried(place.folder).startswith("15 The disk is full")
        again = _tried(place.folder)
        assert again.startswith("15 "), again
        assert "damaged" not in again
        subprocess.run(["mount", "-o", "remount,size=64m", str(place.folder)], check=True)
        with place.open(key) as cache:
            assert cache.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert len(stored.read(cache, 1)) == 3
    finally:
        subprocess.run(["umount", str(place.folder)], check=True)


def test_a_disk_error_is_no_damage(place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system refuses to make the file the error is the disk's, with the system's words."""

    def refuse(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(private_files, "create", refuse)
    with pytest.raises(StoreWriteError, match="No space left"):
        place.open(key)


def test_a_busy_cache_says_so(place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that never ends is waited for, then named as such, not as damage."""
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.05)
    with place.open(key) as one, place.open(key) as two:
        with opening.transaction(one.connection), pytest.raises(StoreWriteError, match="busy"):
            stored.ensure(two)
        assert stored.ensure(two) == 1


def test_two_first_openers(place: Place, key: LocalKey) -> None:
    """While another process has just made the file and reads it, opening waits for its turn."""
    place.folder.mkdir(mode=0o700)
    place.db.touch(0o600)
    other = opening._keyed(place.db, key)
    other.execute("CREATE TABLE early (x)")
    reading = other.execute("BEGIN").execute("SELECT * FROM early")
    assert reading.fetchall() == []
    leaving = threading.Timer(0.2, other.execute, ["COMMIT"])
    leaving.start()
    with place.open(key) as cache:
        assert cache.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    leaving.join()
    other.close()


class _Racing:
    """A connection whose switch to WAL meets another process a few times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def execute(self, _: str) -> "_Racing":
        self.times -= 1
        if self.times >= 0:
            raise sealed_sqlite.OperationalError("database is locked")
        return self

    def fetchone(self) -> tuple[str]:
        return ("wal",)


def test_the_switch_to_wal_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses the switch at once while another process makes it (2 of 900 first opens at one moment)."""
    assert opening._write_ahead(_Racing(3)) == ("wal",)  # type: ignore[arg-type]  # a double
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.0)
    with pytest.raises(sealed_sqlite.OperationalError):
        opening._write_ahead(_Racing(3))  # type: ignore[arg-type]  # a double
