"""The same conversations in every store a person can choose, and never in one they did not."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.turns.machines import Machine, done, listed

Choose = Callable[[Machine, pytest.MonkeyPatch], tuple[str, ...]]


def _setting(machine: Machine, members: dict[str, Any]) -> None:
    path = machine.home / ".atomic" / "agent" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(members))


def _by_setting(members: dict[str, Any]) -> Choose:
    def choose(machine: Machine, _: pytest.MonkeyPatch) -> tuple[str, ...]:
        _setting(machine, members)
        return ()

    return choose


def _by_variable(name: str, value: str) -> Choose:
    def choose(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
        monkeypatch.setenv(name, value)
        machine.env[name] = value
        return ()

    return choose


def _by_flags(*flags: str) -> Choose:
    return lambda _machine, _monkeypatch: flags


WAYS: dict[str, Choose] = {
    "folder": _by_flags("--session-dir", "my sessions"),
    "sqlite": _by_flags("--session-store", "data/it's mine.sqlite"),
    "prefixed": _by_flags("--session-store", "data/shared.sqlite", "--session-prefix", "p_"),
    "json": _by_flags("--storage", '{"dir": "kept"}'),
    "atom": _by_flags("--storage", '{"atom": true}'),
    "default by path": _by_flags("--session-store", "../home/.atomic/workflows/journal.sqlite"),
    "variable": _by_variable("ATOMIC_SESSIONS_STORAGE", '{"path": "other.sqlite"}'),
    "folder variable": _by_variable("ATOMIC_CODING_AGENT_SESSION_DIR", "from-env"),
    "shared variable": _by_variable("ATOMIC_STORAGE", '{"dir": "shared"}'),
    "setting": _by_setting({"sessions": {"storage": {"dir": "set"}}}),
    "shared setting": _by_setting({"storage": {"path": "shared.sqlite", "prefix": "x_"}}),
}


@pytest.fixture(params=WAYS)
def flags(
    request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, ...]:
    (machine.project / "data").mkdir()
    return WAYS[request.param](machine, monkeypatch)


def test_goes_on_where_it_was(machine: Machine, flags: tuple[str, ...]) -> None:
    """Two turns in one session, in that store; the command it hands to scripts leads back to it, quoted for a shell,
    from another folder and without variables or settings."""
    assert machine.atomic(*flags, "-p", "one").code == 0
    ran = machine.atomic(*flags, "-c", "-p", "two")
    assert "2 user, 1 assistant" in ran.out, ran
    resume = done(machine.atomic(*flags, "-c", "-p", "three", "--mode", "json"))["resume"]
    arguments = shlex.split(resume)[1:]
    env = {name: value for name, value in machine.env.items() if name not in WAYS and "STORAGE" not in name}
    env.pop("ATOMIC_CODING_AGENT_SESSION_DIR", None)
    (machine.home / ".atomic" / "agent" / "settings.json").unlink(missing_ok=True)
    script = f"{shlex.quote(sys.executable)} -m atomic_agent.cli.app {resume.removeprefix('atomic ')} -p four"
    ran_there = subprocess.run(
        ["sh", "-c", script], env=env, cwd="/", capture_output=True, text=True, timeout=30, check=False
    )
    assert "4 user, 3 assistant" in ran_there.stdout, (arguments, ran_there.stderr)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in {"atom", "default by path"}])
def test_is_in_no_other_store(way: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of a store is in that one alone."""
    (machine.project / "data").mkdir()
    flags = WAYS[way](machine, monkeypatch)
    machine.atomic(*flags, "-p", "one")
    assert [row["first_message"] for row in listed(machine, *flags)] == ["one"]
    assert listed(machine, "--session-store", str(machine.home / ".atomic/workflows/journal.sqlite")) == []
    assert listed(machine, "--session-dir", "another") == []
    assert machine.atomic("--session-dir", "another", "-c", "-p", "two").out.startswith("Answer 2: 1 user")


def test_the_default_store_alone_syncs(
    machine: Machine, flags: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Also when it is named by its path; `atomic status` says of any other that it never does."""
    told = json.loads(machine.atomic("status", *flags, "--json").out)
    assert told["sessions_sync"] == ("default by path" in request.node.name)
    assert ("never sync" in machine.atomic("status", *flags).out) != told["sessions_sync"]
    assert json.loads(
        machine.atomic(
            "status", "--session-store", machine.env["ATOMIC_HOME"] + "/workflows/journal.sqlite", "--json"
        ).out
    )["sessions_sync"]


@pytest.mark.parametrize("way", ["folder", "sqlite", "prefixed", "atom"])
def test_a_kill_in_mid_answer(way: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 in any store: the session is as before, the prompt waits in that store, and is taken up there."""
    (machine.project / "data").mkdir()
    flags = WAYS[way](machine, monkeypatch)
    machine.atomic(*flags, "-p", "one")
    machine.provider.hanging.clear()
    process = machine.start(*flags, "-c", "-p", "two [[hang]]")
    assert machine.provider.hanging.wait(20), process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    machine.provider.released.set()
    waiting = machine.atomic(*flags, "-c", "-p", "three")
    assert "--resume-interrupted" in waiting.err
    assert "2 user, 1 assistant" in waiting.out
    taken = machine.atomic(*flags, "-c", "--resume-interrupted")
    assert "3 user, 2 assistant, 0 tool; you said: two" in taken.out, taken
    assert machine.atomic(*flags, "-c", "--resume-interrupted").code == 7


def test_nothing_is_kept_under_no_session(machine: Machine, tmp_path: Path) -> None:
    """--no-session leaves no file behind; with --import it works on a session without keeping it, under its id."""
    export = tmp_path / "in.jsonl"
    machine.atomic("--session-dir", "from", "-p", "before")
    (made,) = (machine.project / "from").glob("*.jsonl")
    export.write_bytes(made.read_bytes())
    before = sorted(path for path in machine.home.rglob("*") if path.name != "picks.json")
    ran = machine.atomic("--no-session", "--import", str(export), "-p", "go on")
    assert "2 user, 1 assistant" in ran.out, ran
    ran = machine.atomic("--no-session", "--session-id", "mine", "-p", "hi", "--mode", "json")
    assert json.loads(ran.out.splitlines()[0])["id"] == "mine"
    assert done(ran)["resume"] is None
    assert sorted(path for path in machine.home.rglob("*") if path.name != "picks.json") == before
    assert export.read_bytes() == made.read_bytes()


def test_a_store_that_cannot_be_opened_is_an_error(machine: Machine) -> None:
    """No other store takes its place, and nothing is sent to a model."""
    file = machine.project / "file"
    file.write_text("not a folder")
    plain = machine.project / "plain.sqlite"
    plain.write_bytes(b"SQLite format 3\0" + bytes(100))
    for flags, code in (
        (("--session-dir", str(file)), 16),
        (("--session-store", str(plain)), 5),
        (("--storage", '{"driver": "nobody"}'), 2),
        (("--storage", "{"), 2),
    ):
        ran = machine.atomic(*flags, "-p", "hi")
        assert ran.code in {code, 16}, ran
        assert ran.out == ""
    assert machine.provider.requests == []
    assert plain.read_bytes() == b"SQLite format 3\0" + bytes(100)


def test_an_untrusted_projects_settings_choose_nothing(machine: Machine) -> None:
    """They are ignored with one line until the project is trusted, and hold in the launch that trusts it."""
    (machine.project / ".git").mkdir()
    (machine.project / ".atomic").mkdir()
    chosen = {"sessions": {"storage": {"dir": str(machine.project / "theirs")}}}
    (machine.project / ".atomic" / "settings.json").write_text(json.dumps(chosen))
    ran = machine.atomic("-p", "one")
    assert ran.err.count("ignored") == 1
    assert not (machine.project / "theirs").exists()
    ran = machine.atomic("--trust", "-p", "two")
    assert "ignored" not in ran.err
    assert len(list((machine.project / "theirs").glob("*.jsonl"))) == 1
    assert [row["first_message"] for row in listed(machine)] == ["two"]


def test_an_atom_file_is_imported(machine: Machine) -> None:
    """What the Atom program saved goes on as a session of its own; the file stays as it is."""
    machine.atomic("--storage", '{"atom": "one.json"}', "-p", "said there")
    file = machine.home / ".atomic" / "one.json"
    before = file.read_bytes()
    ran = machine.atomic("--import", str(file), "-p", "said here")
    assert "2 user, 1 assistant" in ran.out, ran
    assert machine.atomic("--import", str(file), "-p", "again").code == 12
    assert file.read_bytes() == before
    assert "said there" in machine.atomic("sessions", "--search", "said there").out


def test_an_atom_file_holds_one_session(machine: Machine) -> None:
    """Lists and trees are refused with their own exit code; -c goes on; a new conversation keeps the former aside."""
    flags = ("--storage", '{"atom": true}')
    file = machine.home / ".atom" / "session.json"
    machine.atomic(*flags, "-p", "one")
    assert "2 user" in machine.atomic(*flags, "-c", "-p", "two").out
    assert machine.atomic("sessions", *flags).code == 17
    assert file.stat().st_mode & 0o777 == 0o600
    ran = machine.atomic(*flags, "-p", "another")
    assert ran.out.startswith("Answer 3: 1 user")
    assert "kept as session.json.former" in ran.err
    assert "one" in file.with_name("session.json.former").read_text()
    file.write_bytes(b"{")
    ran = machine.atomic(*flags, "-c", "-p", "fresh")
    assert ran.err.count("corrupt") >= 1
    assert ran.out.startswith("Answer 4: 1 user")
