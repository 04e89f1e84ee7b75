"""Several processes on one run, and killed ones: nothing of what was written is lost, and who is gone runs nothing."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.stores.port.children import Counter, ended, forked, living, status
from agent.stores.runs.conftest import Stand, cache_at
from agent.stores.runs.test_contract import NOW
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.run_records import COMPLETED, INTERRUPTED, RUNNING, Run, Stage
from atomic_agent.cache.runs import SqliteRuns
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.damaged import Damaged
from atomic_agent.stores.foreign import copy_foreign
from atomic_agent.stores.runs import RunStore
from atomic_sessions.errors import CacheRefusedError

CHANGING = ("open", "write", "fsync", "replace", "unlink", "mkdir")


def test_writers_of_different_stages(stand: Stand) -> None:
    """Every stage of four processes is there."""
    stand.store.begin_run(Run("r1"), NOW)

    def write(who: int) -> None:
        mine = stand.again()
        for number in range(6):
            mine.put_stage(Stage("r1", f"{who}.{number}", status=COMPLETED), NOW + number)

    children = [forked(lambda who=who: write(who)) for who in range(4)]  # type: ignore[misc]  # bound per child
    assert [status(child) for child in children] == [0] * 4
    assert len(stand.store.stages("r1")) == 24
    assert stand.store.left("r1") == []


def test_the_first_use_by_many(stand: Stand) -> None:
    """Tables and folder are made once, whoever comes first; each has its run."""
    children = [
        forked(lambda who=who: stand.again().begin_run(Run(f"r{who}"), NOW))  # type: ignore[misc]  # bound per child
        for who in range(4)
    ]
    assert [status(child) for child in children] == [0] * 4
    assert len(list(stand.again().runs())) == 4


def test_who_is_gone_runs_nothing(stand: Stand) -> None:
    """What a process was running when it was killed is interrupted for every reader, and taken up by the next."""

    def work() -> None:
        mine = stand.again()
        mine.begin_run(Run("r1"), NOW)
        mine.put_stage(Stage("r1", "done", status=COMPLETED, started_at=NOW), NOW)
        mine.put_stage(Stage("r1", "running", started_at=NOW + 1), NOW)

    with living(work):
        assert [stage.status for stage in stand.store.left("r1")] == [RUNNING]
        run = stand.store.get_run("r1")
        assert run is not None
        assert run.status == RUNNING
    for store in (stand.store, stand.again()):
        (stage,) = store.left("r1")
        assert (stage.id, stage.status, stage.process) == ("running", INTERRUPTED, None)
        assert [one.status for one in store.runs()] == [INTERRUPTED]
    stand.store.set_status("r1", RUNNING, NOW + 2)
    stand.store.put_stage(Stage("r1", "running", started_at=NOW + 1), NOW + 3)
    assert [stage.status for stage in stand.again().left("r1")] == [RUNNING]
    assert [one.status for one in stand.again().runs()] == [RUNNING]


def _killing(store: RunStore, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill this process before its n-th call that changes a file, in the middle of a write, or that SQLite makes."""
    counter = Counter(at)
    if isinstance(store, SqliteRuns):
        store.cache.connection.set_trace_callback(counter)
        return
    for name in CHANGING:
        real: Callable[..., Any] = getattr(os, name)

        def call(*values: Any, _name: str = name, _real: Callable[..., Any] = real, **more: Any) -> Any:
            if _name == "open" and not values[1] & (os.O_WRONLY | os.O_RDWR):
                return _real(*values, **more)
            if _name == "write" and counter.count + 1 == counter.at:
                _real(values[0], values[1][: len(values[1]) // 2])
            counter()
            return _real(*values, **more)

        monkeypatch.setattr(os, name, call)


def test_killed_at_every_step(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the instant: what a call had reported stands, what it had not is there wholly or not at all."""
    at = 0
    while True:
        at += 1
        name = f"r{at}"

        def victim(at: int = at, name: str = name) -> None:
            store = stand.again()
            _killing(store, at, monkeypatch)
            store.begin_run(Run(name), NOW)
            for stage in ("a", "b"):
                store.put_stage(Stage(name, stage, status=COMPLETED, model="m" * 400), NOW)
            store.set_status(name, COMPLETED, NOW + 9)

        killed = ended(victim)
        store = stand.again()
        run = store.get_run(name)
        found = store.stages(name) if run is not None else []
        assert [stage.id for stage in found] == ["a", "b"][: len(found)]
        assert all(stage == Stage(name, stage.id, status=COMPLETED, model="m" * 400) for stage in found)
        if run is None:
            store.begin_run(Run(name), NOW)
        elif run.status == COMPLETED:
            assert len(found) == 2
        else:
            assert run.status == INTERRUPTED
        store.put_stage(Stage(name, "c"), NOW)
        assert len(store.stages(name)) == len(found) + 1
        if not killed:
            break
        assert killed == signal.SIGKILL
    assert at > 10


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """Its runs are left alone, and the sessions beside them are not concerned."""
    cache = SqliteRuns(cache_at(tmp_path)).cache
    cache.connection.execute("UPDATE wf_meta SET value = X'0002'")
    cache.close()
    with cache_at(tmp_path) as again, pytest.raises(CacheRefusedError, match="newer version"):
        SqliteRuns(again)


@pytest.mark.parametrize("prefix", ["", "mine_"])
def test_tables_are_where_they_belong(tmp_path: Path, prefix: str) -> None:
    """All of them begin with wf_, behind the prefix, and are there only once runs were asked for."""
    with cache_at(tmp_path, prefix) as cache:
        wanted = "SELECT name FROM sqlite_master WHERE name LIKE '%wf%' AND name NOT LIKE 'sqlite_%'"
        assert cache.connection.execute(wanted).fetchall() == []
        SqliteRuns(cache)
        names = [row[0] for row in cache.connection.execute(wanted)]
        assert len(names) == 5
        assert all(name.startswith(f"{prefix}wf_") for name in names)


def test_a_damaged_cache_is_salvaged_with_its_runs(tmp_path: Path) -> None:
    """Runs and stages come over into the cache that a repair makes, and it takes more of them."""
    with (
        cache_at(tmp_path) as cache,
        Cache.open(tmp_path / "new.sqlite", LocalKey(bytes(32)), tmp_path / "new.keyinfo") as new,
    ):
        old = SqliteRuns(cache)
        old.begin_run(Run("r1"), NOW)
        old.put_stage(Stage("r1", "s1", model="m" * 500), NOW)
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damaged = Damaged(cache.path, LocalKey(bytes(32)), cache.path.with_suffix(".keyinfo"), 0)
        assert copy_foreign(damaged, new.connection) == []
        damaged.close()
        found = SqliteRuns(new)
        assert list(found.runs()) == list(old.runs())
        assert found.stages("r1") == old.stages("r1")
        found.put_stage(Stage("r1", "s2"), NOW)
        assert len(found.stages("r1")) == 2
