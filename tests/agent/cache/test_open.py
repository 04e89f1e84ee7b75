"""Opening the cache: every check of security.md 1.3, and what the file gives away."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlcipher3.dbapi2 as sealed_sqlite

from agent.cache import stored
from agent.cache.stored import CANARY, Place
from atomic_agent.cache import open as opening
from atomic_agent.cache import search
from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import AtomicError, CacheRefusedError, KeyMissingError

OTHER = LocalKey(bytes(reversed(range(32))))


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_modes_do_not_depend_on_the_umask(place: Place, key: LocalKey) -> None:
    """With umask 000 the folder is 0700 and the cache, -wal, -shm and keyinfo are 0600."""
    with place.open(key) as cache:
        opening.write_keyinfo(place.keyinfo, opening.KeyInfo(1, key.name, key.check_value))
        stored.ensure(cache)
        assert _mode(place.folder) == 0o700
        modes = {path.name: _mode(path) for path in place.folder.iterdir()}
    assert modes == dict.fromkeys(
        ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "journal.keyinfo"], 0o600
    )


def test_nothing_readable_is_in_the_files(place: Place, key: LocalKey) -> None:
    """Neither text nor project nor schema is in the database or its -wal, before and after a checkpoint."""
    place.make(key)
    with place.open(key) as cache:
        session = stored.ensure(cache)
        stored.put(cache, session, [stored.said("z", None, f"{CANARY} again", pos=9, stamp=9)])
        for _ in range(2):
            for name, content in place.content().items():
                assert CANARY.encode() not in content, name
                assert b"session_entries" not in content, name
                assert not content.startswith(b"SQLite format 3"), name
            cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_a_link_is_refused(place: Place, key: LocalKey) -> None:
    """A symbolic link in the cache's place is not followed, dangling or not."""
    place.make(key)
    real = place.folder / "real"
    place.db.rename(real)
    before = real.read_bytes()
    place.db.symlink_to(real)
    with pytest.raises(CacheRefusedError, match="symbolic link"):
        place.open(key)
    place.db.unlink()
    place.db.symlink_to(place.folder / "nowhere")
    with pytest.raises(CacheRefusedError, match="symbolic link"):
        place.open(key)
    assert real.read_bytes() == before
    assert not (place.folder / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_file_open_to_others_is_refused(place: Place, key: LocalKey, mode: int) -> None:
    """The refusal names the command that mends it, and the file is not touched."""
    place.make(key)
    place.db.chmod(mode)
    before = place.content()
    with pytest.raises(CacheRefusedError) as refused:
        place.open(key)
    assert "chmod 600" in refused.value.mend
    assert place.content() == before


def test_a_folder_others_can_write_to_is_refused(place: Place, key: LocalKey) -> None:
    """Whoever can write to the folder can swap the file."""
    place.folder.mkdir()
    place.folder.chmod(0o770)
    with pytest.raises(CacheRefusedError) as refused:
        place.open(key)
    assert "chmod go-w" in refused.value.mend
    assert not list(place.folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(place: Place, key: LocalKey) -> None:
    """Owner is checked for the cache and for its folder."""
    place.make(key)
    os.chown(place.db, 12345, 12345)
    with pytest.raises(CacheRefusedError, match="another user"):
        place.open(key)
    os.chown(place.db, 0, 0)
    os.chown(place.folder, 12345, 12345)
    with pytest.raises(CacheRefusedError, match="another user"):
        place.open(key)


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
    """A file of noise is not ours either; it keeps its bytes."""
    place.folder.mkdir(mode=0o700)
    place.db.touch(0o600)
    place.db.write_bytes(random.Random(1).randbytes(20_000))
    before = place.content()
    with pytest.raises(CacheRefusedError):
        place.open(key)
    assert place.content() == before


def test_a_wrong_key_names_both_and_changes_nothing(place: Place, key: LocalKey) -> None:
    """The message holds both key names; no byte changes."""
    place.make(key)
    before = place.content()
    with pytest.raises(KeyMissingError) as refused:
        place.open(OTHER)
    assert key.name in refused.value.message
    assert OTHER.name in refused.value.message
    assert "atomic recovery restore" in refused.value.mend
    assert place.content() == before


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


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32, bytearray(32)])
def test_a_key_of_another_size(secret: bytes) -> None:
    """Only 32 bytes are a key; text of 32 characters is none."""
    with pytest.raises(KeyMissingError):
        LocalKey(secret)
    with pytest.raises(ValueError, match="32 bytes"):
        opening._pragma_key(secret)


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32])
def test_a_key_that_derives_wrongly_seals_nothing(
    place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch, secret: bytes
) -> None:
    """Should the database key ever have another size, nothing is written under it."""
    monkeypatch.setattr(LocalKey, "database_key", lambda _: secret)
    with pytest.raises(ValueError, match="32 bytes"):
        place.open(key)
    assert not place.db.exists() or place.db.read_bytes() == b""


def test_the_standard_module_is_refused(place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the standard library's sqlite3 in place of ours nothing is made at all."""
    monkeypatch.setattr(opening, "sqlite", sqlite3)
    with pytest.raises(CacheRefusedError, match="module is missing"):
        place.open(key)
    assert not place.folder.exists()


def test_a_module_without_a_cipher_is_refused(
    place: Place, key: LocalKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that ignores the key is noticed before any table is made, even under the right name."""
    monkeypatch.setattr(sealed_sqlite, "connect", sqlite3.connect)
    with pytest.raises(CacheRefusedError, match="cannot encrypt"):
        place.open(key)
    assert place.db.read_bytes() == b""


def test_a_cache_that_came_out_plain_is_refused(place: Place) -> None:
    """The first bytes are looked at after the first commit."""
    place.folder.mkdir()
    place.db.write_bytes(b"SQLite format 3\x00 and so on")
    with pytest.raises(CacheRefusedError, match="unencrypted"):
        opening.assert_sealed(place.db)


def test_flipped_bytes_are_never_believed(place: Place, key: LocalKey) -> None:
    """After a flip anywhere, opening and reading gives the right lines or an error, never others."""
    place.make(key, lines=300)
    with place.open(key) as cache:
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        session = stored.ensure(cache)
        right = stored.read(cache, session)
    sound = place.db.read_bytes()
    chooser = random.Random(5)
    refused = 0
    for _ in range(60):
        damaged = bytearray(sound)
        damaged[chooser.randrange(len(damaged))] ^= 1 << chooser.randrange(8)
        place.db.write_bytes(bytes(damaged))
        try:
            with place.open(key) as cache:
                assert stored.read(cache, session) == right
        except (AtomicError, sealed_sqlite.DatabaseError):
            refused += 1
    assert refused > 20


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
