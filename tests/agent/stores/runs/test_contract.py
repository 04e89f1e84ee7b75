"""What every store of workflow runs does: begun, written, listed, gone on with, deleted."""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from agent.stores.runs.conftest import KINDS, Stand
from atomic_agent.cache import run_records
from atomic_agent.cache.run_records import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    PAUSED,
    RUNNING,
    STATUSES,
    Run,
    Stage,
)
from atomic_agent.stores.runs import RunStore, unsupported
from atomic_sessions.errors import NotFoundError, SessionExistsError, UnsupportedError, UsageError

NOW = 1_796_043_907_321


def _begin(runs: RunStore, cwd: str = "") -> Run:
    return runs.begin_run(Run("r1", "review", cwd=cwd), NOW)


def _ids(stages: list[Stage]) -> list[str]:
    return [stage.id for stage in stages]


def test_a_new_store_is_empty(runs: RunStore) -> None:
    """Nothing is listed, found, or to be gone on with."""
    assert list(runs.runs()) == []
    assert runs.get_run("r1") is None
    for call in (
        lambda: runs.stages("r1"),
        lambda: runs.left("r1"),
        lambda: runs.set_status("r1", PAUSED, NOW),
        lambda: runs.put_stage(Stage("r1", "s1"), NOW),
        lambda: runs.delete_run("r1"),
    ):
        with pytest.raises(NotFoundError, match="no run 'r1'"):
            call()


def test_a_run_says_what_it_was_given(runs: RunStore) -> None:
    """All its fields, and the process that makes it."""
    run = runs.begin_run(
        Run("r1", "n", "path:/p", "/p", session="parent", inputs=Raw(b'{"a": [1, 2.50]}')), NOW
    )
    found = runs.get_run("r1")
    assert found == run
    assert (run.created_at, run.updated_at, run.status) == (NOW, NOW, RUNNING)
    assert run.process is not None
    assert bytes(run.inputs) == b'{"a":[1,2.50]}'
    assert "2.50" not in repr(run)


def test_an_id_that_is_there_is_not_replaced(runs: RunStore) -> None:
    """The first one stays, with its stages."""
    run = _begin(runs)
    runs.put_stage(Stage("r1", "s1"), NOW)
    with pytest.raises(SessionExistsError, match="nothing was replaced"):
        _begin(runs, cwd="/other")
    assert runs.get_run("r1") == run
    assert _ids(runs.stages("r1")) == ["s1"]


def test_members_nobody_here_knows_stay(runs: RunStore) -> None:
    """Whatever a newer program wrote is there after every change, as it was written."""
    line = b'{"runId":"r1","status":"running","new":{"z":1,"a":2.50},"more":true,"a\\"b":null}'
    run = run_records.read(line, Run)
    assert run is not None
    runs.begin_run(run, NOW)
    runs.set_status("r1", PAUSED, NOW + 1)
    stage = run_records.read(b'{"runId":"r1","stageId":"s1","sessionFile":"/x","new":[1, 2.50]}', Stage)
    assert stage is not None
    runs.put_stage(stage, NOW)
    runs.put_stage(replace(runs.stages("r1")[0], status=COMPLETED), NOW)
    found = runs.get_run("r1")
    assert found is not None
    assert {name: bytes(raw) for name, raw in found.more.items()} == {
        "new": b'{"z":1,"a":2.50}',
        "more": b"true",
        'a"b': b"null",
    }
    written = run_records.line(runs.stages("r1")[0])
    assert b'"new":[1,2.50]' in written
    assert json.loads(written)["sessionFile"] == "/x"


def test_a_stage_is_written_again_and_again(runs: RunStore) -> None:
    """Its last state stands, once; the run is newer for it."""
    _begin(runs)
    stage = Stage("r1", "s1", "Review", session="x", model="m", replay_key="k", started_at=NOW)
    runs.put_stage(stage, NOW + 1)
    done = replace(stage, status=COMPLETED, ended_at=NOW + 5, result=Raw(b'"ok"'))
    for _ in range(2):
        runs.put_stage(done, NOW + 5)
    assert runs.stages("r1") == [done]
    found = runs.get_run("r1")
    assert found is not None
    assert found.updated_at == NOW + 5


def test_stages_come_after_their_parents(runs: RunStore) -> None:
    """Else by their beginning; those that have none yet last; a circle ends."""
    _begin(runs)
    given_stages = [
        Stage("r1", "later", started_at=NOW + 9),
        Stage("r1", "child", parents=("later", "nobody"), started_at=NOW),
        Stage("r1", "first", started_at=NOW + 1),
        Stage("r1", "z"),
        Stage("r1", "y", parents=("z",)),
        Stage("r1", "self", parents=("self",), started_at=NOW + 2),
        Stage("r1", "c1", parents=("c2",), started_at=NOW + 50),
        Stage("r1", "c2", parents=("c1",), started_at=NOW + 51),
    ]
    for stage in given_stages:
        runs.put_stage(stage, NOW)
    assert _ids(runs.stages("r1")) == ["first", "self", "later", "child", "z", "y", "c1", "c2"]


def test_what_is_left_to_do(runs: RunStore) -> None:
    """All that is not completed, in order; what runs in a living process says so."""
    _begin(runs)
    for number, status in enumerate(STATUSES):
        runs.put_stage(Stage("r1", status, status=status, started_at=NOW + number), NOW)
    assert [(stage.id, stage.status) for stage in runs.left("r1")] == [
        (status, status) for status in (RUNNING, PAUSED, INTERRUPTED, FAILED)
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_every_status(runs: RunStore, status: str) -> None:
    """Only what is running has a process; whoever sets it running again goes on with it."""
    _begin(runs)
    assert runs.set_status("r1", status, NOW + 7) == runs.get_run("r1")
    found = runs.get_run("r1")
    assert found is not None
    assert (found.status, found.updated_at, found.process is not None) == (status, NOW + 7, status == RUNNING)
    runs.set_status("r1", RUNNING, NOW + 3)
    assert next(runs.runs()).updated_at == NOW + 7


@pytest.mark.parametrize(
    "bad",
    [
        Run(""),
        Run(" \t"),
        Run("half \ud83d"),
        Run("r", status="done"),
        Run("r", inputs=Raw(b"{")),
        Run("r", more={"x": Raw(b"")}),
    ],
)
def test_what_cannot_be_kept(runs: RunStore, bad: Run) -> None:
    """A sentence, and nothing is there."""
    with pytest.raises(UsageError):
        runs.begin_run(bad, NOW)
    assert list(runs.runs()) == []


@pytest.mark.parametrize(
    "bad", [Stage("r1", ""), Stage("r1", "s", status="x"), Stage("r1", "s", result=Raw(b"nope"))]
)
def test_a_stage_that_cannot_be_kept(runs: RunStore, bad: Stage) -> None:
    """The run and its other stages are as they were."""
    run = _begin(runs)
    with pytest.raises(UsageError):
        runs.put_stage(bad, NOW + 9)
    assert (runs.get_run("r1"), runs.stages("r1")) == (run, [])
    with pytest.raises(UsageError):
        runs.set_status("r1", "finished", NOW)


def test_listed(runs: RunStore) -> None:
    """What changed last is first; pages follow each other; a project's list holds its own."""
    for number in range(5):
        project = "path:/a" if number % 2 else "path:/b"
        runs.begin_run(Run(f"r{number}", project=project), NOW + number * 7 % 5)
    assert [run.id for run in runs.runs()] == ["r2", "r4", "r1", "r3", "r0"]
    assert [run.id for run in runs.runs(limit=2, offset=1)] == ["r4", "r1"]
    assert list(runs.runs(limit=0)) == []
    assert [run.id for run in runs.runs(project="path:/a")] == ["r1", "r3"]
    runs.put_stage(Stage("r0", "s"), NOW + 99)
    assert next(runs.runs()).id == "r0"
    assert list(runs.runs(project="path:/c")) == []


@pytest.mark.parametrize("identity", ["a/b", "..", "x" * 300, "ünï\n", "a'b\"c", "\0"])
def test_any_id(runs: RunStore, identity: str) -> None:
    """Ids are texts, not names of files or words of SQL; two runs may have a stage of one id."""
    for run in (identity, "other"):
        runs.begin_run(Run(run), NOW)
        runs.put_stage(Stage(run, identity, name=run), NOW)
    assert [stage.name for stage in runs.stages(identity)] == [identity]
    runs.delete_run(identity)
    assert [run.id for run in runs.runs()] == ["other"]
    assert [stage.id for stage in runs.stages("other")] == [identity]


def test_deleted(runs: RunStore) -> None:
    """Run and stages are gone; begun again it has none."""
    _begin(runs)
    runs.put_stage(Stage("r1", "s1"), NOW)
    runs.delete_run("r1")
    assert runs.get_run("r1") is None
    with pytest.raises(NotFoundError):
        runs.stages("r1")
    _begin(runs)
    assert runs.stages("r1") == []


def test_another_opening_reads_the_same(stand: Stand) -> None:
    """Runs and stages outlive their process, in a file that tells nobody else what they say."""
    secret = Raw(b'"sk-pasted"')
    stand.store.begin_run(Run("r1", inputs=secret), NOW)
    stand.store.put_stage(Stage("r1", "s1", result=secret), NOW)
    other = stand.again()
    assert list(other.runs()) == list(stand.store.runs())
    assert other.stages("r1") == stand.store.stages("r1")
    files = [path for path in stand.place.rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    if "sqlite" in stand.kind.name:
        assert not any(b"sk-pasted" in path.read_bytes() for path in files)


def test_a_store_without_runs() -> None:
    """A typed error names it."""
    with pytest.raises(UnsupportedError, match="An Atom file holds no workflow runs"):
        unsupported("An Atom file")


STATES = st.builds(
    Stage,
    st.just("r1"),
    st.sampled_from(["a", "b", "c"]),
    status=st.sampled_from([PAUSED, FAILED, COMPLETED]),
    parents=st.lists(st.sampled_from(["a", "b", "c"]), max_size=2).map(tuple),
    model=st.text(max_size=3),
    started_at=st.integers(0, 5),
    result=st.sampled_from([Raw(b"1"), Raw(b'{"x":[2.50]}')]),
)


@settings(max_examples=20, deadline=None)
@given(writes=st.lists(STATES, max_size=6), turns=st.randoms(use_true_random=False))
def test_written_in_any_order(writes: list[Stage], turns: Random) -> None:
    """However writers of different stages take turns, and however often one repeats itself, every store has the same
    stages in the same order, and the last state of each."""
    by_stage: dict[str, list[Stage]] = {}
    for stage in writes:
        by_stage.setdefault(stage.id, []).append(stage)
    expected = run_records.in_order([states[-1] for states in by_stage.values()])
    for kind in KINDS if len(writes) < 3 else KINDS[1:]:  # a cache takes long to make
        with TemporaryDirectory() as place:
            stand = Stand(kind, Path(place))
            stand.store.begin_run(Run("r1"), NOW)
            queues = {name: list(states) for name, states in by_stage.items()}
            while queues:
                name = turns.choice(sorted(queues))
                stage = queues[name].pop(0)
                for _ in range(turns.choice([1, 2])):
                    stand.store.put_stage(stage, NOW)
                queues = {name: left for name, left in queues.items() if left}
            assert stand.store.stages("r1") == expected
            assert stand.store.left("r1") == [stage for stage in expected if stage.status != COMPLETED]
            stand.close()
