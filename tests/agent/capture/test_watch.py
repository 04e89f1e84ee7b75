"""What a watch does with a cache that does not take anything, and what it says of what it cannot read."""

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from agent.capture.files import OTHER, SID, append, claude, exported, text_of
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import _keyed
from atomic_agent.capture import follow
from atomic_agent.capture import watch as watching
from atomic_agent.capture.lookout import Place
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal, reopen
from atomic_sessions.errors import StoreWriteError


def _watch(
    cache: Cache, folder: Path, steps: list[Callable[[], object]]
) -> tuple[list[watching.Change], list[str], list[float]]:
    """Watch a folder, with something done in each pause, until all is done: what was told, said and waited."""
    told: list[watching.Change] = []
    said: list[str] = []
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        if not steps:
            return True
        steps.pop(0)()
        return False

    watching.watch(cache, [Place("", folder)], (), wait, told.append, said.append)
    return told, said, waited


@pytest.fixture(autouse=True)
def _polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells nothing, so that each pause is the test's own."""
    monkeypatch.setattr(watching, "notices", lambda: None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "files" / f"{SID}.jsonl"
    path.parent.mkdir()
    path.write_bytes(text_of([claude(0, "question")]))
    return path


def test_a_cache_that_another_process_holds(cache: Cache, key: LocalKey, file: Path) -> None:
    """It is said once that it waits, once that it goes on; nothing is lost."""
    cache.connection.execute("PRAGMA busy_timeout = 1")
    other = _keyed(cache.path, key)
    other.execute("BEGIN IMMEDIATE")
    told, said, waited = _watch(
        cache,
        file.parent,
        [lambda: append(file, claude(1, "answer")), lambda: other.execute("ROLLBACK"), lambda: None],
    )
    other.close()
    assert [(change.session, change.entries) for change in told] == [(SID, 2)]
    assert [line.partition(":")[0] for line in said] == ["atomic", "atomic"]
    assert "busy" in said[0]
    assert waited[:2] == [watching.RETRY_SECONDS] * 2
    assert set(waited[2:]) == {watching.LOOK_SECONDS}
    assert exported(cache) == file.read_bytes()


def test_what_is_no_session_is_named_when_it_stays_so(
    cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however often it is touched; one that becomes a session is not named at all."""
    monkeypatch.setattr(watching, "SETTLED_SECONDS", 0.0)
    odd = file.with_name("odd.jsonl")
    odd.write_bytes(b'{"hello":1}\n')
    _, said, _ = _watch(cache, file.parent, [lambda: append(odd, b"{}\n"), lambda: append(odd, b"{}\n")])
    assert said == [f"atomic: {odd}: not a session."]
    monkeypatch.setattr(watching, "SETTLED_SECONDS", 60.0)
    early = file.with_name("early.jsonl")
    early.write_bytes(b"")
    told, said, _ = _watch(cache, file.parent, [lambda: append(early, claude(0, "hello", sid="x"))])
    assert [change.session for change in told] == ["early"]
    assert said == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_file_that_could_not_be_read_for_a_moment(
    cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Waits, and comes in without another change; not tried at each look, and not named when it passes."""
    tries: list[Path] = []
    real = follow._opened

    def flaky(path: Path) -> object:
        tries.append(path)
        if len(tries) == 1:
            raise OSError(number, "for a moment")
        return real(path)

    monkeypatch.setattr(follow, "_opened", flaky)
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time_ns=time.time_ns)
    monkeypatch.setattr(watching, "time", clock)

    def later() -> None:
        now[0] += watching.RETRY_SECONDS

    monkeypatch.setattr(watching, "SETTLED_SECONDS", 60.0)
    told, said, waited = _watch(cache, file.parent, [lambda: None, lambda: None, later, lambda: None])
    assert len(tries) == 2
    assert [(change.session, change.entries) for change in told] == [(SID, 1)]
    assert said == []
    assert set(waited) == {watching.LOOK_SECONDS}


def test_a_file_that_waits_and_changes(cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is tried again at once; one that goes meanwhile is forgotten."""
    gone = file.with_name(f"{OTHER}.jsonl")
    gone.write_bytes(text_of([claude(0, "gone", sid=OTHER)]))
    real = follow._opened
    broken = [True]

    def flaky(path: Path) -> object:
        if broken[0]:
            raise OSError(errno.EIO, "for a moment")
        return real(path)

    monkeypatch.setattr(follow, "_opened", flaky)

    def mended() -> None:
        broken[0] = False
        gone.unlink()
        append(file, claude(1, "answer"))

    monkeypatch.setattr(watching, "RETRY_SECONDS", 60.0)
    told, said, _ = _watch(cache, file.parent, [mended, lambda: None])
    assert [(change.session, change.entries) for change in told] == [(SID, 2)]
    assert said == []


class _Rounds:
    """Stands for a thread's stop event: says stop after some waits."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds
        self.waited: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.left -= 1
        return self.left < 0


def test_beside_a_sync_a_store_that_cannot_be_opened_for_a_while(
    tmp_path: Path, key: LocalKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following waits for it as it does for another process, says so once, and begins when it can."""
    home = Home(tmp_path / "home")
    cache = Cache.open(home.cache, key, home.keyinfo)
    real, refusals = (
        reopen,
        [StoreWriteError("No room."), StoreWriteError("No room."), OSError(24, "Many")],
    )

    def flaky(journal: Journal) -> Journal:
        if refusals:
            raise refusals.pop(0)
        return real(journal)

    monkeypatch.setattr(watching, "reopen", flaky)
    monkeypatch.setattr(watching, "places", lambda *_: [])
    said: list[str] = []
    stop = _Rounds(4)
    with Journal(home, key, cache, made_key=False) as journal:
        watching._work(journal, cast(threading.Event, stop), lambda _: None, said.append)
    assert [line.split(".")[0] for line in said] == [
        "atomic: No room",
        "atomic: Many",
    ]
    assert stop.waited[:3] == [watching.AGAIN_SECONDS] * 3
    assert watching.LOOK_SECONDS in stop.waited
