"""Workflow runs through the SDK: records that outlive a kill, stages' sessions, and where both lie."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from agent.sdk.scripted import Model, told, user
from agent.turns.machines import DEADLINE
from atomic_agent.sdk import (
    Marking,
    NotFoundError,
    Run,
    SessionExistsError,
    SessionManager,
    Stage,
    UnsupportedError,
    create_agent_session,
    now_ms,
    open_session_store,
    open_workflow_runs,
)

PLACES: Mapping[str, Mapping[str, object] | None] = {
    "default": None,
    "jsonl": {"dir": "flows"},
    "sqlite": {"path": "flows.sqlite"},
}

WORKFLOW = """
import json, sys, time
from atomic_agent.sdk import *

place = json.loads(sys.argv[1])
store = open_session_store(place)
with open_workflow_runs(place) as runs:
    runs.begin_run(Run("nightly", name="Nightly"), now_ms())
    runs.put_stage(Stage("nightly", "one", name="First", status="completed"), now_ms())
    session = SessionManager.create(store, stage=Marking("nightly", "two", "Second"))
    session.append_message({"role": "user", "content": "count the lines"})
    runs.put_stage(Stage("nightly", "two", name="Second", parents=("one",), session=session.id), now_ms())
    print(session.id, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_killed_workflow_is_resumed(place: Mapping[str, object] | None, project: Path) -> None:
    """After a kill -9 the stage it was at is interrupted and left to do, its session opens by its id and goes on, and
    what was completed stays so."""
    child = subprocess.Popen(
        [sys.executable, "-c", WORKFLOW, json.dumps(place)], cwd=project, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    session = child.stdout.readline().strip()
    with open_workflow_runs(place) as runs:
        assert [(s.id, s.status) for s in runs.left("nightly")] == [("two", "running")]
    child.send_signal(signal.SIGKILL)
    child.wait(DEADLINE)
    child.stdout.close()

    with open_workflow_runs(place) as runs:
        run = runs.get_run("nightly")
        assert run is not None
        assert run.status == "interrupted"
        (stage,) = runs.left("nightly")
        assert (stage.id, stage.status, stage.session) == ("two", "interrupted", session)
        runs.set_status("nightly", "running", now_ms())
        with create_agent_session(session_store=place, session=stage.session, stream=Model()) as again:
            assert told(again.manager.context().messages) == [("user", "count the lines")]
            again.prompt("go on")
        runs.put_stage(msgspec.structs.replace(stage, status="completed"), now_ms())
        runs.set_status("nightly", "completed", now_ms())
        assert runs.left("nightly") == []
        assert [stage.status for stage in runs.stages("nightly")] == ["completed", "completed"]
    store = open_session_store(place)
    assert list(store.listed()) == []
    assert [row.facts.id for row in store.listed(internal=True)] == [session]
    store.close()


def test_a_run_is_begun_once(project: Path) -> None:
    """An id that is taken is SessionExistsError; a stage of no run is NotFoundError."""
    with open_workflow_runs({"dir": "flows"}) as runs:
        runs.begin_run(Run("r", name="first"), now_ms())
        with pytest.raises(SessionExistsError):
            runs.begin_run(Run("r", name="second"), now_ms())
        with pytest.raises(NotFoundError):
            runs.put_stage(Stage("nobody", "s"), now_ms())
    with open_workflow_runs({"dir": "flows"}) as runs:
        assert [run.name for run in runs.runs()] == ["first"]


def test_what_is_shared_moves_runs_and_what_is_for_sessions_does_not(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`storage` decides where runs lie; a folder for sessions alone leaves them where they are (B11)."""
    home = tmp_path / "home" / ".atomic"
    monkeypatch.setenv("ATOMIC_CODING_AGENT_SESSION_DIR", "sessions-only")
    with open_workflow_runs() as runs:
        runs.begin_run(Run("r"), now_ms())
    assert (home / "workflows" / "journal.sqlite").exists()
    monkeypatch.setenv("ATOMIC_STORAGE", '{"dir": "shared"}')
    with open_workflow_runs() as runs:
        assert runs.get_run("r") is None
        runs.begin_run(Run("r2"), now_ms())
    assert any((home / "shared").rglob("*"))
    assert not (project / "sessions-only").exists()


def test_a_stage_follows_its_host(project: Path) -> None:
    """Made over the host's store, a stage's session lies beside its parent's; one with a folder of its own does not."""
    with create_agent_session(session_store={"dir": "host"}, stream=Model()) as host:
        host.prompt("begin")
        stage = SessionManager.create(host.store, stage=Marking("r", "one", "First"))
        stage.append_message(user("beside"))
        own = open_session_store({"dir": "own"})
        apart = SessionManager.create(own, stage=Marking("r", "two", "Second"))
        apart.append_message(user("apart"))
        assert {row.facts.id for row in host.store.listed(internal=True)} == {host.id, stage.id}
        assert {row.facts.id for row in own.listed(internal=True)} == {apart.id}


def test_a_store_without_runs_says_so(project: Path) -> None:
    """UnsupportedError, and nothing is kept elsewhere."""
    with pytest.raises(UnsupportedError), open_workflow_runs({"atom": "one.json"}):
        pass
    with open_workflow_runs({"memory": True}) as runs:
        runs.begin_run(Run("r"), now_ms())
        assert [run.id for run in runs.runs()] == ["r"]


def test_an_untrusted_project_does_not_move_runs(project: Path) -> None:
    """It is told in one line."""
    folder = project / ".atomic"
    folder.mkdir()
    (folder / "settings.json").write_text('{"storage": {"dir": "theirs"}}')
    said: list[str] = []
    with open_workflow_runs(notify=said.append) as runs:
        runs.begin_run(Run("r"), now_ms())
    assert len(said) == 1
    with open_workflow_runs(trust_project=True, notify=said.append) as runs:
        assert runs.get_run("r") is None
    assert len(said) == 1
