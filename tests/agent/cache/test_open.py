"""Opening the cache: every check of security.md 1.3, and what the file gives away."""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cache import stored
from agent.cache.stored import Place
from atomic_agent.cache import held as held_files
from atomic_agent.cache import open as opening
from atomic_agent.cache import search
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.held import Held, lock_of
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locks import LockedError, exclusive
from atomic_sessions.errors import CacheRefusedError, KeyMissingError, StoreWriteError

OTHER = LocalKey(bytes(reversed(range(32))))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_refused(place: Place, key: LocalKey, make: Callable[[Path], None]) -> None:
    """A folder or a pipe in the cache's place is refused without waiting on it."""
    place.folder.mkdir(mode=0o700)
    make(place.db)
    with pytest.raises(CacheRefusedError, match="not a file"):
        place.open(key)


def test_a_foreign_database_is_untouched(place: Place, key: LocalKey) -> None:
    """A plain SQLite file is another program's: refused, byte for byte as it was, no side file made."""
    place.folder.mkdir(mode=0o700)
    with sqlite3.connect(place.db) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    place.db.chmod(0o600)
    before = place.content()
    with pytest.raises(CacheRefusedError, match="another program"):
        place.open(key)
    assert place.content() == before


def test_a_foreign_file_is_untouched(place: Place, key: LocalKey) -> None:
    """A file of noise is not ours either; it keeps its bytes. (A damaged cache looks the same: it has a lock.)"""
    place.folder.mkdir(mode=0o700)
    place.db.touch(0o600)
    place.db.write_bytes(random.Random(1).randbytes(20_000))
    before = place.content()
    with pytest.raises(CacheRefusedError):
        place.open(key)
    assert place.content() == {**before, "journal.sqlite.lock": b""}


@pytest.mark.parametrize("with_keyinfo", [True, False])
def test_a_wrong_key_makes_no_noise(place: Place, key: LocalKey, *, with_keyinfo: bool) -> None:
    """SQLCipher's own complaints do not reach stderr, with the key info or without."""
    place.make(key)
    if not with_keyinfo:
        place.keyinfo.unlink()
    code = (
        "import sys; from pathlib import Path; from atomic_agent.cache.cache import Cache\n"
        "from atomic_agent.keys.local_key import LocalKey; from atomic_sessions.errors import AtomicError\n"
        "try: Cache.open(Path(sys.argv[1]), LocalKey(bytes(32)), Path(sys.argv[2]))\n"
        "except AtomicError as error: print(error.exit_code)"
    )
    before = place.db.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", code, str(place.db), str(place.keyinfo)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == ("4" if with_keyinfo else "5")
    assert place.db.read_bytes() == before


def test_a_wrong_key_for_a_lost_cache(place: Place, key: LocalKey) -> None:
    """Where the key info waits for its cache, another key makes no new one in its place."""
    place.make(key)
    place.db.unlink()
    with pytest.raises(KeyMissingError):
        place.open(OTHER)
    assert not place.db.exists()


def test_a_cache_that_came_out_plain_is_refused(place: Place) -> None:
    """The first bytes are looked at after the first commit."""
    place.folder.mkdir()
    place.db.write_bytes(b"SQLite format 3\x00 and so on")
    with pytest.raises(CacheRefusedError, match="unencrypted"):
        opening.assert_sealed(place.db)


def test_a_cut_file_is_refused(place: Place, key: LocalKey) -> None:
    """A cache cut short is named as damaged, with its own key, and stays as it is."""
    place.make(key, lines=200)
    with place.open(key) as cache:
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    place.db.write_bytes(place.db.read_bytes()[:3000])
    before = place.content()
    with pytest.raises(CacheRefusedError) as refused:
        place.open(key)
    assert key.name in refused.value.message
    assert place.content() == before


def test_a_cache_from_the_future(place: Place, key: LocalKey) -> None:
    """A newer schema is refused with the way out, unchanged."""
    place.make(key)
    with place.open(key) as cache:
        cache.put("schema", (2).to_bytes(2, "big"))
    with pytest.raises(CacheRefusedError, match="newer version") as refused:
        place.open(key)
    assert "Update" in refused.value.mend


def test_opening_without_making(place: Place, key: LocalKey) -> None:
    """A second opener of a cache that is gone makes no new one."""
    with pytest.raises(CacheRefusedError, match="no cache"):
        place.open(key, create=False)
    assert not place.db.exists()


def test_a_cache_left_empty_by_a_kill(place: Place, key: LocalKey) -> None:
    """A kill between making the file and its first page leaves an empty one, which is filled next time."""
    place.folder.mkdir(mode=0o700)
    place.db.touch(0o600)
    with place.open(key) as cache:
        assert len(cache.writer) == 16


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff", b'{"name": 1}', b"null"])
def test_a_damaged_keyinfo_is_named(place: Place, key: LocalKey, text: bytes) -> None:
    """A key info that cannot be read is an error of its own, not a missing one."""
    place.make(key)
    place.keyinfo.write_bytes(text)
    with pytest.raises(CacheRefusedError, match="damaged"):
        place.open(key)


def test_two_prefixes_share_a_file(place: Place, key: LocalKey) -> None:
    """Tables of two prefixes in one file do not see each other (B12)."""
    with place.open(key) as one, Cache.open(place.db, key, place.keyinfo, prefix="wf_") as two:
        stored.ensure(one)
        assert two.connection.execute("SELECT count(*) FROM wf_session_sessions").fetchone() == (0,)
        assert one.writer != two.writer
        assert list(search.search(two, "anything")) == []


def test_a_cache_that_is_being_replaced(place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited too long for a repair is told to try again; nothing of the cache is opened."""
    place.make(key)
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.0)
    with exclusive(lock_of(place.db), 0.0):
        with pytest.raises(StoreWriteError, match="another process holds it"):
            place.open(key)
        opening.connect(place.db, key, place.keyinfo, alone=True).close()
    place.open(key).close()


def test_a_file_replaced_before_the_lock_is_ours(
    place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is opened is the file that lies at the path, not the one that was looked at."""
    place.make(key)
    before = place.db.read_bytes()
    real = Held.share
    left = ["once"]

    def share(held: Held, seconds: float) -> None:
        if left:
            left.clear()
            other = place.db.with_name("other")
            other.touch(0o600)
            other.write_bytes(before)
            other.replace(place.db)
        real(held, seconds)

    monkeypatch.setattr(Held, "share", share)
    with place.open(key) as cache:
        assert not left
        assert cache.connection.execute("SELECT is_in_place()").fetchone() == (1,)


def test_all_is_let_go(place: Place, key: LocalKey) -> None:
    """After the last connection, and after every refusal, no handle is left open and the lock is free."""
    place.make(key)
    with place.open(key), place.open(key), pytest.raises(LockedError), exclusive(lock_of(place.db), 0.0):
        pass
    with pytest.raises(KeyMissingError):
        place.open(OTHER)
    place.keyinfo.unlink()
    with pytest.raises(CacheRefusedError, match="another key's, or damaged"):
        place.open(OTHER)
    with exclusive(lock_of(place.db), 0.0):
        assert held_files._identity(place.db) not in held_files._handles
