"""Mending takes the cache for itself, replaces it whole, and is ended at any point without harm."""

import base64
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlcipher3.dbapi2 as sqlite

from agent.stores.damage import KEY, PAGE, Hurt, Original, assert_sound
from atomic_agent.cache.cache import Cache
from atomic_agent.locks import exclusive
from atomic_agent.stores import copying
from atomic_agent.stores import repair as repairing
from atomic_agent.stores.repair import repair
from atomic_sessions.errors import (
    BusyError,
    CacheRefusedError,
    ConfirmationError,
    KeyMissingError,
    StoreWriteError,
)

VICTIM = """
import os, shutil, signal, sys
from pathlib import Path
from atomic_agent.locations import Home
from atomic_agent.stores import repair as repairing
left = [int(sys.argv[2])]
def dying(real):
    def step(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    return step
os.link = dying(os.link)
os.fsync = dying(os.fsync)
Path.replace = dying(Path.replace)
Path.unlink = dying(Path.unlink)
# Looking at the cache takes its log in, where that can be done.
repairing.is_healthy = lambda *_, **__: False
done = repairing.repair(Home(Path(sys.argv[1])), lambda _: None, lambda _: None)
print(done.salvaged.entries)
"""
HOLDER = """
import sys
from pathlib import Path
from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
folder = Path(sys.argv[1])
def opened():
    return Cache.open(folder / "journal.sqlite", LocalKey(bytes(range(32))), folder / "journal.keyinfo")
with opened():
    if sys.argv[2] == "twice":
        opened().close()
    print("open", flush=True)
    sys.stdin.read()
"""
OPENER = """
import sys
from pathlib import Path
from atomic_agent import locks
from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
folder = Path(sys.argv[1])
pause = locks.time.sleep
def waiting(seconds):
    print("waiting", flush=True)
    locks.time.sleep = pause
    pause(seconds)
locks.time.sleep = waiting
with Cache.open(folder / "journal.sqlite", LocalKey(bytes(range(32))), folder / "journal.keyinfo") as cache:
    cache.put("late", b"written by another process")
"""


def with_log(original: Original) -> Hurt:
    """A damaged copy whose newest entries stand in its write-ahead log alone, as after a kill."""
    source, hurt = original.copy(), original.copy()
    folder, to = source.home.cache.parent, hurt.home.cache.parent
    with Cache.open(source.home.cache, KEY, source.home.keyinfo) as cache:
        cache.connection.execute("UPDATE session_entries SET received = 6 WHERE row <= 3")
        cache.put("logged", b"yes")
        for name in ("journal.sqlite", "journal.sqlite-wal"):
            (to / name).touch(0o600)
            (to / name).write_bytes((folder / name).read_bytes())
    hurt.flip(original.roots["session_search_data"])
    assert (to / "journal.sqlite-wal").stat().st_size > 0
    return hurt


def test_a_sound_cache_is_left_alone(original: Original) -> None:
    """Nothing is changed and nothing asked."""
    hurt = original.copy()
    before = hurt.content()
    done = hurt.repair()
    assert done.healthy
    assert done.kept_aside == ""
    assert hurt.content() == before


@pytest.mark.parametrize("logged", [False, True])
def test_a_kill_at_any_point(original: Original, logged: bool) -> None:
    """kill -9 before each change of the disk: the old cache or the new one lies there, and a repeat mends."""
    ends = []
    for step in range(60):
        hurt = with_log(original) if logged else original.copy()
        if not logged:
            hurt.flip(original.roots["session_search_data"])
        run = [sys.executable, "-c", VICTIM, str(hurt.home.root), str(step)]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
        ends.append(done.returncode)
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-500:]
        assert hurt.lines() == original.lines
        again = hurt.repair()
        assert again.healthy or again.salvaged.entries == len(original.lines)
        with hurt.open() as cache:
            assert cache.get("logged") == (b"yes" if logged else None)
            assert cache.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert hurt.repair().healthy
        if done.returncode == 0:
            break
    assert len(ends) >= 6
    assert ends[-1] == 0


def test_what_stands_in_the_log_alone_comes_over(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write-ahead log is part of the cache; both files are kept aside as they were."""
    monkeypatch.setattr(repairing, "is_healthy", lambda *_, **__: False)
    hurt = with_log(original)
    log = hurt.home.cache.with_name("journal.sqlite-wal")
    before = hurt.home.cache.read_bytes(), log.read_bytes()
    done = hurt.repair()
    aside = Path(done.kept_aside)
    assert (aside.read_bytes(), aside.with_name(aside.name + "-wal").read_bytes()) == before
    assert not log.exists()
    assert_sound(hurt, done, original)
    with hurt.open() as cache:
        assert cache.get("logged") == b"yes"


@pytest.mark.parametrize("times", ["once", "twice"])
def test_while_another_process_has_it_open(original: Original, times: str) -> None:
    """Refused with what to stop; then done. A process that opened it again, and closed that, has it open."""
    hurt = original.copy()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(hurt.home.cache.parent), times],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    hurt.flip(original.roots["session_search_data"])
    before = hurt.content()
    with pytest.raises(BusyError, match="has the cache open"):
        hurt.repair()
    assert hurt.content() == before
    holder.communicate("", timeout=60)
    assert not hurt.repair().healthy


def test_a_process_that_starts_meanwhile(original: Original) -> None:
    """It waits for the mended cache and writes into that: what it commits is there, and nothing is broken."""
    hurt = original.copy()
    hurt.flip(original.roots["session_search_data"])
    started: list[subprocess.Popen[str]] = []

    def progress(step: str) -> None:
        if step == "copying":
            run = [sys.executable, "-c", OPENER, str(hurt.home.cache.parent)]
            started.append(subprocess.Popen(run, stdout=subprocess.PIPE, text=True))
            assert started[0].stdout is not None
            assert started[0].stdout.readline() == "waiting\n"

    assert not repair(hurt.home, progress, lambda _: None).healthy
    (opener,) = started
    opener.communicate(timeout=60)
    assert opener.returncode == 0
    with hurt.open() as cache:
        assert cache.get("late") == b"written by another process"
        assert cache.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert hurt.lines() == original.lines
    assert hurt.repair().healthy


def test_the_second_of_two_repairs(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another repair has mended since the first look is left alone."""
    hurt = original.copy()
    before = hurt.content()
    real = repairing.is_healthy
    monkeypatch.setattr(
        repairing, "is_healthy", lambda home, key, *, alone=False: alone and real(home, key, alone=True)
    )
    assert hurt.repair().healthy
    assert hurt.content() == before


@pytest.mark.parametrize("name", ["workflows/sync.lock", "workflows/capture.lock", "keys/lock"])
def test_while_another_process_works_with_it(original: Original, name: str) -> None:
    """A sync, a following of files or the making of a key is not disturbed."""
    hurt = original.copy()
    hurt.flip(original.roots["session_search_data"])
    (hurt.home.root / "keys").mkdir(mode=0o700, exist_ok=True)
    with exclusive(hurt.home.root / name, 0.0), pytest.raises(BusyError):
        hurt.repair()
    assert not hurt.repair().healthy


@pytest.mark.parametrize("hurting", [lambda h: h.blank(0), lambda h: h.flip(0), lambda h: h.cut(0)])
def test_a_cache_that_cannot_be_read(original: Original, hurting: Callable[[Hurt], None]) -> None:
    """Set aside with a yes and not without; the new one is empty, has the same key and another writer."""
    hurt = original.copy()
    hurting(hurt)
    before = hurt.content()

    def refuse(question: str) -> None:
        raise ConfirmationError(question)

    with pytest.raises(ConfirmationError, match="first page"):
        repair(hurt.home, lambda _: None, refuse)
    assert hurt.content() == before
    done = hurt.repair()
    assert not done.readable
    assert Path(done.kept_aside).read_bytes() == before["journal.sqlite"]
    with hurt.open() as cache:
        assert cache.writer != original.writer
        assert cache.connection.execute("SELECT count(*) FROM session_entries").fetchone() == (0,)


@pytest.mark.parametrize("given", ["another", "its own"])
def test_a_key_that_nothing_confirms(
    original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Without the key info a cache that does not open is never set aside: the key may be another's."""
    hurt = original.copy()
    hurt.home.keyinfo.unlink()
    if given == "another":
        other = tmp_path / "other"
        other.touch(0o600)
        other.write_bytes(base64.b64encode(bytes(range(1, 33))))
        monkeypatch.setenv("ATOMIC_KEY_FILE", str(other))
    else:
        hurt.blank(0)
    before = hurt.content()
    asked: list[str] = []
    with pytest.raises(KeyMissingError, match="does not open with the key"):
        repair(hurt.home, lambda _: None, asked.append)
    assert not asked
    assert hurt.content() == before


def _failing(pages: set[int], path: Path) -> Callable[[int, int, int], bytes]:
    """A disk that gives all of a file but these pages."""
    real = copying.read_at
    ours = path.stat().st_ino

    def read(handle: int, at: int, size: int) -> bytes:
        if os.fstat(handle).st_ino == ours and any(
            at < (p + 1) * PAGE and p * PAGE < at + size for p in pages
        ):
            raise OSError(errno.EIO, "Input/output error")
        return real(handle, at, size)

    return read


def test_a_disk_that_does_not_give_a_page(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not give is a broken page like any other."""
    hurt = original.copy()
    broken = original.roots["session_search_data"]
    hurt.flip(broken)
    monkeypatch.setattr(copying, "read_at", _failing({broken, hurt.pages - 1}, hurt.home.cache))
    done = hurt.repair()
    assert done.salvaged.broken_pages == 2
    assert_sound(hurt, done, original)


def test_a_disk_that_does_not_give_the_log(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written last may be missing: the next sync reads the account's log from its start."""
    monkeypatch.setattr(repairing, "is_healthy", lambda *_, **__: False)
    hurt = with_log(original)
    monkeypatch.setattr(copying, "read_at", _failing({0}, hurt.home.cache.with_name("journal.sqlite-wal")))
    done = hurt.repair()
    assert not done.salvaged.certain
    assert_sound(hurt, done, original)


class _Failing:
    """A connection whose every read meets the disk's error."""

    def execute(self, _: str) -> None:
        raise sqlite.OperationalError("disk I/O error")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("opens", [True, False])
def test_an_error_of_the_disk_is_damage(
    original: Original, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    """A file that cannot be read whole is to be mended; one that can is not, whatever SQLite met."""
    hurt = original.copy()

    def connect(*_: object, **__: object) -> _Failing:
        if not opens:
            raise StoreWriteError("The disk refused to write to the cache.")
        return _Failing()

    monkeypatch.setattr(repairing, "connect", connect)
    with pytest.raises(sqlite.OperationalError if opens else StoreWriteError):
        repairing.is_healthy(hurt.home, KEY)
    monkeypatch.setattr(copying, "read_at", _failing({5}, hurt.home.cache))
    assert not repairing.is_healthy(hurt.home, KEY)


def test_what_is_refused(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache, a link, a file open to others, another program's, a key that is missing or another's."""
    hurt = original.copy()
    path = hurt.home.cache
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(CacheRefusedError, match="no cache"):
        hurt.repair()
    path.symlink_to(original.home.cache)
    with pytest.raises(CacheRefusedError, match="symbolic link"):
        hurt.repair()
    path.unlink()
    path.touch(0o644)
    with pytest.raises(CacheRefusedError, match="Others can read"):
        hurt.repair()
    path.chmod(0o600)
    path.write_bytes(b"SQLite format 3\x00" + bytes(4080))
    with pytest.raises(CacheRefusedError, match="another program's"):
        hurt.repair()
    path.write_bytes(content)
    monkeypatch.delenv("ATOMIC_KEY_FILE")
    with pytest.raises(KeyMissingError, match="key is missing"):
        hurt.repair()
    handle, writing = os.pipe()
    os.write(writing, b"A" * 43 + b"=")
    os.close(writing)
    monkeypatch.setenv("ATOMIC_KEY_FD", str(handle))
    with pytest.raises(KeyMissingError, match="Wrong key"):
        hurt.repair()
    assert path.read_bytes() == content


def test_no_room(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that cannot hold the copy and the new cache is told before anything is written."""
    hurt = original.copy()
    hurt.flip(original.roots["session_search_data"])
    before = hurt.content()
    monkeypatch.setattr(repairing, "_free", lambda _: 1000)
    with pytest.raises(StoreWriteError, match="free space"):
        hurt.repair()
    assert hurt.content() == before
