"""A conversation's store chosen again before its first save, and what must survive that (B5, B6)."""

import argparse
import json
import os
import threading
from pathlib import Path

import pytest

from agent.turns.machines import Machine
from atomic_agent.cli.converse import arguments
from atomic_agent.cli.selection import opened
from atomic_agent.cli.sitting import Sitting
from atomic_agent.cli.storage import Launch
from atomic_agent.config import trust
from atomic_agent.locations import Home, home
from atomic_agent.turns import opening
from atomic_sessions.errors import BusyError, ProviderError

NOW = 1_796_043_907_321


def options_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments(parser)
    return parser.parse_args(words)


def sitting(*words: str) -> Sitting:
    """A sitting as the line prompt has it."""
    options = options_of(*words)
    launch = Launch(options, ask=False)
    talk = opened(launch, options)
    assert talk is not None
    talk.claim(NOW)
    return Sitting(launch, talk, options, lambda _: None)


@pytest.fixture
def settings(machine: Machine) -> Path:
    """The person's settings file, not there yet; the machine's environment is this process's."""
    path = machine.home / ".atomic" / "agent" / "settings.json"
    path.parent.mkdir(parents=True)
    return path


def folder(path: Path, name: str) -> None:
    path.write_text(json.dumps({"sessions": {"storage": {"dir": name}}}))


def kept(machine: Machine, name: str) -> int:
    return len(list((machine.home / ".atomic" / name).glob("*.jsonl")))


def test_after_a_first_turn_that_failed(machine: Machine, settings: Path) -> None:
    """It waits nowhere, since its prompt is said again; the store that is chosen by then gets the conversation."""
    here = sitting()
    with pytest.raises(ProviderError):
        here.turn("[[status: 401]]")
    folder(settings, "chosen")
    here.turn("again")
    assert kept(machine, "chosen") == 1
    here.leave()
    here.launch.close()
    assert machine.count("turns") == machine.count("claims") == 0
    assert machine.rows() == []


def test_a_session_that_is_there_is_gone_on_with(machine: Machine, settings: Path) -> None:
    """An exact id that the newly chosen store has is that session, not a second beginning in it."""
    machine.atomic(
        "--session-dir", str(machine.home / ".atomic" / "chosen"), "--session-id", "mine", "-p", "one"
    )
    here = sitting("--session-id", "mine")
    folder(settings, "chosen")
    assert "2 user, 1 assistant" in here.turn("two").text
    here.leave()
    here.launch.close()
    assert kept(machine, "chosen") == 1


def test_a_pipe_is_read_once(machine: Machine, tmp_path: Path) -> None:
    """What --storage-file got from a pipe holds for the whole sitting."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(json.dumps({"dir": "piped"}),))
    writer.start()
    here = sitting("--storage-file", str(pipe))
    writer.join()
    here.turn("one")
    here.begin_anew()
    here.turn("two")
    here.leave()
    here.launch.close()
    assert kept(machine, "piped") == 2


def test_trust_is_given_at_the_launch_alone(machine: Machine) -> None:
    """What is taken back meanwhile stays taken back."""
    (machine.project / ".git").mkdir()
    (machine.project / ".atomic").mkdir()
    chosen = {"sessions": {"storage": {"dir": str(machine.project / "theirs")}}}
    (machine.project / ".atomic" / "settings.json").write_text(json.dumps(chosen))
    here = sitting("--trust")
    root = trust.project_root(machine.project)
    trust.remember(home(), root, trusted=False, now=NOW)
    here.turn("one")
    here.leave()
    here.launch.close()
    assert list((machine.project / "theirs").glob("*.jsonl")) == []
    assert len(machine.rows()) == 1
    found = trust.answer(Home(Path(machine.env["ATOMIC_HOME"])), root)
    assert found is not None
    assert not found.trusted


def test_what_cannot_be_chosen_changes_nothing(machine: Machine, settings: Path) -> None:
    """The open conversation stays ours when the settings are broken by the time of /new."""
    machine.atomic("-p", "one")
    here = sitting("-c")
    settings.write_text("{")
    with pytest.raises(Exception, match="not valid JSON"):
        here.begin_anew()
    assert machine.count("claims") == 1
    assert "2 user" in here.turn("two").text
    here.leave()
    here.launch.close()


def test_a_stages_process_makes_stages_sessions(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with /new: none of them is in a list (B22)."""
    marking = {"runId": "r", "stageId": "s", "stageName": "a stage"}
    monkeypatch.setenv("ATOMIC_WORKFLOW_SESSION_METADATA", json.dumps(marking))
    here = sitting()
    here.turn("one")
    here.begin_anew()
    here.turn("two")
    here.leave()
    here.launch.close()
    assert machine.rows() == []
    monkeypatch.delenv("ATOMIC_WORKFLOW_SESSION_METADATA")
    assert machine.atomic("sessions", "--internal", "--json").out.count("\n") == 2


def test_picks_without_a_key_are_saved_at_the_end(machine: Machine) -> None:
    """Leaving with a provider that has no key is a clean exit; its name comes back at the next launch (A7, A8)."""
    here = sitting()
    here.turn("one")
    here.pick("provider", "anthropic")
    here.leave()
    here.launch.close()
    ran = machine.atomic("-p", "two")
    assert "anthropic" in ran.err


def test_a_session_somebody_writes_is_not_renamed(machine: Machine) -> None:
    """--name waits until the session is ours."""
    machine.atomic("--session-id", "busy", "-p", "one")
    machine.provider.hanging.clear()
    process = machine.start("--session", "busy", "-p", "two [[hang]]")
    assert machine.provider.hanging.wait(20)
    assert machine.atomic("--session", "busy", "--name", "x", "-p", "three").code == BusyError.exit_code
    process.kill()
    process.communicate()
    (row,) = machine.rows()
    assert row.name == ""


def test_one_answer_that_cannot_be_entered_stops_no_start(machine: Machine) -> None:
    """It waits on and is said; other conversations go on."""
    here = sitting("--storage", '{"atom": "one.json"}')
    here.turn("one")
    talk, store = here.talk, here.launch.store
    draft = talk.draft(NOW)
    draft.add(lambda i, p, at: json.dumps({"type": "label", "id": i, "parentId": p, "targetId": p}).encode())
    talk.begin(draft, "a prompt", NOW)
    talk.answered(draft.entries[0])
    store.release(talk.key)
    said: list[str] = []
    assert opening.settle(store, said.append) == 0
    assert len(said) == 1
    assert len(store.pending()) == 1
    here.launch.close()
    ran = machine.atomic("--storage", '{"atom": "one.json"}', "-c", "-p", "two")
    assert "still waits to be saved" in ran.err
    assert "2 user" in ran.out


def test_a_cancelled_turn_drops_itself_alone(machine: Machine) -> None:
    """What a kill left, and the person left for later, still waits (A1)."""
    machine.atomic("-p", "first")
    machine.provider.hanging.clear()
    process = machine.start("-p", "precious [[hang]]")
    assert machine.provider.hanging.wait(20)
    process.kill()
    process.communicate()
    machine.provider.released.set()
    here = sitting()
    draft = here.talk.draft(NOW)
    draft.add(lambda i, p, at: b"{}")
    here.talk.begin(draft, "mine", NOW)
    here.talk.roll_back()
    assert [flight.begun.prompt for flight in here.launch.store.pending()] == ["precious [[hang]]"]
    here.leave()
    here.launch.close()
