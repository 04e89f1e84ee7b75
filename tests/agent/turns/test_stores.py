"""The same conversations in every store a person can choose, and never in one they did not."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.turns.machines import Machine, Ran

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


def sessions(machine: Machine, *flags: str) -> list[dict[str, Any]]:
    ran = machine.atomic("sessions", *flags, "--all", "--json")
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def done(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran
    found: dict[str, Any] = json.loads(ran.out.splitlines()[-1])
    return found


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
    assert [row["first_message"] for row in sessions(machine, *flags)] == ["one"]
    assert sessions(machine, "--session-store", str(machine.home / ".atomic/workflows/journal.sqlite")) == []
    assert sessions(machine, "--session-dir", "another") == []
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


def test_an_exact_id_opens_or_makes(machine: Machine) -> None:
    """--session-id: made the first time and said, opened the second; never by a prefix."""
    for flags in ((), ("--session-dir", "d")):
        first = machine.atomic(*flags, "--session-id", "my.work", "-p", "one")
        assert "this is a new one" in first.err
        second = machine.atomic(*flags, "--session-id", "my.work", "-p", "two")
        assert "2 user" in second.out
        assert "new" not in second.err
        assert machine.atomic(*flags, "--session-id", "../x", "-p", "x").code == 2


def test_a_fork_is_the_whole_tree_in_a_new_session(machine: Machine) -> None:
    """--fork copies all branches under a new id with its parent, and the source stays as it is; --session-id names
    the copy, and an id that is taken is refused with nothing done."""
    for flags in ((), ("--session-dir", "d")):
        machine.atomic(*flags, "--session-id", "first", "-p", "one")
        raw = machine.atomic("export", *flags, "first", "-", "--as", "jsonl")
        ran = machine.atomic(*flags, "--fork", "first", "--session-id", "second", "-p", "two")
        assert "2 user, 1 assistant" in ran.out, ran
        assert machine.atomic(*flags, "--fork", "first", "--session-id", "second", "-p", "x").code == 12
        rows = {row["id"]: row for row in sessions(machine, *flags)}
        assert rows["second"]["parent"] == "first"
        assert (rows["first"]["messages"], rows["second"]["messages"]) == (2, 4)
        assert machine.atomic("export", *flags, "first", "-", "--as", "jsonl").out == raw.out


def test_an_empty_id(machine: Machine, tmp_path: Path) -> None:
    """An imported empty id is kept, opens with --session "" and is printed like that."""
    file = tmp_path / "x.jsonl"
    file.write_text(
        json.dumps(
            {"type": "session", "version": 3, "id": "", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p"}
        )
        + "\n"
        + json.dumps(
            {
                "type": "message",
                "id": "a",
                "parentId": None,
                "timestamp": "2026-01-01T00:00:01Z",
                "message": {"role": "user", "content": "kept", "timestamp": 1},
            }
        )
        + "\n"
    )
    for flags in ((), ("--session-dir", "d"), ("--session-store", "s.sqlite")):
        assert machine.atomic(*flags, "--import", str(file), "-p", "more").code == 0
        assert machine.atomic(*flags, "--import", str(file), "-p", "more").code == 12
        again = machine.atomic(*flags, "--session", "", "-p", "and more", "--mode", "json")
        assert done(again)["resume"].endswith(' --session ""')
        assert '""' in machine.atomic("sessions", *flags, "--all").out


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
    assert [row["first_message"] for row in sessions(machine)] == ["two"]


@pytest.mark.parametrize("flags", [(), ("--session-dir", "d"), ("--session-store", "s.sqlite")])
def test_sessions_are_handled_without_a_screen(machine: Machine, flags: tuple[str, ...]) -> None:
    """rename, info, fork, clone and delete, for people and for scripts."""
    machine.atomic(*flags, "--session-id", "work", "-p", "first question")
    machine.atomic(*flags, "-c", "-p", "second question")

    def does(*words: str) -> Ran:
        ran = machine.atomic("sessions", *words, *flags)
        assert ran.code == 0, ran
        return ran

    does("rename", "work", "a", "fine name")
    (row,) = sessions(machine, *flags)
    assert row["name"] == "a fine name"
    told = json.loads(does("info", "work", "--json").out)
    assert (told["user"], told["assistant"], told["branches"]) == (2, 2, 1)
    assert told["tokens"]["total"] > 0
    assert told["session"]["name"] == "a fine name"
    assert "--session work" in told["resume"]
    assert "a fine name" in does("info", "work").out
    asked = [json.loads(line) for line in does("info", "work", "--messages", "--json").out.splitlines()]
    assert [one["text"] for one in asked] == ["first question", "second question"]

    clone = does("clone", "work").out.strip()
    fork = json.loads(does("fork", "work", "--at", asked[1]["entry"], "--json").out)
    assert fork["prompt"] == "second question"
    rows = {one["id"]: one for one in sessions(machine, *flags)}
    assert (rows[clone]["messages"], rows[fork["session"]["id"]]["messages"]) == (4, 2)
    assert {rows[clone]["parent"], fork["session"]["parent"]} == {"work"}
    beginning = json.loads(does("fork", "work", "--at", asked[0]["entry"], "--json").out)
    assert beginning["session"]["messages"] == 0
    whole = does("fork", "work").out.strip()
    assert "3 user" in machine.atomic(*flags, "--session", whole, "-p", "third").out

    refused = machine.atomic("sessions", "delete", "work", *flags)
    assert refused.code == 13
    does("delete", "work", clone, "--yes")
    assert {"work", clone}.isdisjoint(one["id"] for one in sessions(machine, *flags))
    assert machine.atomic(*flags, "--session", "work", "-p", "x").code == 7


def test_a_session_that_is_written_is_not_deleted(machine: Machine) -> None:
    """Nor renamed: its writer would lose its turn, or hang a branch beside the name."""
    machine.atomic("--session-id", "busy", "-p", "one")
    machine.provider.hanging.clear()
    process = machine.start("--session", "busy", "-p", "two [[hang]]")
    assert machine.provider.hanging.wait(20)
    for words in (("delete", "busy", "--yes"), ("rename", "busy", "x")):
        assert machine.atomic("sessions", *words).code == 14
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert machine.atomic("sessions", "rename", "busy", "x").code == 0


def test_a_path_is_no_session(machine: Machine) -> None:
    """--session and --fork take ids; for a file the other flag is named."""
    machine.atomic("--session-dir", "d", "-p", "one")
    (file,) = (machine.project / "d").glob("*.jsonl")
    for flag in ("--session", "--fork"):
        ran = machine.atomic("--session-dir", "d", flag, str(file), "-p", "x")
        assert ran.code == 7
        assert "--import" in ran.err


def tools_in(machine: Machine, *flags: str) -> list[str]:
    ran = machine.atomic(*flags, "-p", "hi", "--mode", "json")
    assert ran.code == 0, ran
    found: list[str] = json.loads(ran.out.splitlines()[0])["tools"]
    return found


@pytest.mark.parametrize("flags", [(), ("--session-dir", "d")])
def test_the_sessions_tools_come_back(machine: Machine, flags: tuple[str, ...]) -> None:
    """What was chosen is recorded with the turn and restored on resume; changes edit that set, restrictions hold,
    exclusions stay off, and a session that recorded nothing has the defaults."""
    usual = ["read", "bash", "edit", "write"]
    assert tools_in(machine, *flags) == usual
    assert tools_in(machine, *flags, "-c") == usual
    assert tools_in(machine, *flags, "-c", "--tools", "+grep,-bash") == ["read", "edit", "write", "grep"]
    assert tools_in(machine, *flags, "-c") == ["read", "edit", "write", "grep"]
    assert tools_in(machine, *flags, "-c", "--tools", "-edit") == ["read", "write", "grep"]
    assert tools_in(machine, *flags, "-c", "--exclude-tools", "read") == ["write", "grep"]
    assert tools_in(machine, *flags, "-c", "--tools", "ls,find") == ["find", "ls"]
    assert tools_in(machine, *flags, "-c", "--no-builtin-tools") == []
    assert tools_in(machine, *flags, "-c") == []
    assert tools_in(machine, *flags) == usual, "a new session does not inherit them"
    assert machine.atomic(*flags, "--tools", "raed", "-p", "x").code == 2


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


def earlier(machine: Machine, text: str, session: str, *, at: int = 1, cwd: Path | None = None) -> Path:
    """A file as earlier versions left them."""
    folder = machine.home / ".atomic" / "agent" / "sessions" / "--some-project--"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"2026-01-01T00-00-00-000Z_{session}.jsonl"
    stamp = "2026-01-01T00:00:00.000Z"
    header = {
        "type": "session",
        "version": 3,
        "id": session,
        "timestamp": stamp,
        "cwd": str(cwd or machine.project),
    }
    said = {
        "type": "message",
        "id": "a",
        "parentId": None,
        "timestamp": stamp,
        "message": {"role": "user", "content": text, "timestamp": 1_700_000_000_000 + at},
    }
    path.write_text(json.dumps(header) + "\n" + json.dumps(said) + "\n")
    return path


def test_earlier_sessions_go_on(machine: Machine) -> None:
    """They are listed, continued and searched beside the default store's, their files stay, a chosen store shows none
    of them, and one that is deleted does not come back."""
    old = earlier(machine, "an old question", "01a22c81-7192-70af-aa13-6f2a524f0b20")
    gone = earlier(machine, "unwanted", "gone", at=2)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (old, gone)}
    machine.atomic("-p", "new")
    assert [row["first_message"] for row in sessions(machine)] == ["new", "unwanted", "an old question"]
    chosen = sessions(machine, "--session-store", str(machine.home / ".atomic/workflows/journal.sqlite"))
    assert [row["first_message"] for row in chosen] == ["new"]
    assert sessions(machine, "--session-dir", "x") == []
    assert machine.atomic("sessions", "delete", "gone", "--yes").code == 0
    assert [row["first_message"] for row in sessions(machine)] == ["new", "an old question"]
    ran = machine.atomic("--session", "01a22c81", "-p", "and on")
    assert "you said: an old question and on" in ran.out, ran
    assert "2 user, 1 assistant" in machine.atomic("-c", "-p", "more").out
    refused = machine.atomic("capture", "--from", str(old.parent))
    assert refused.code == 2
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert sorted(path.name for path in old.parent.parent.iterdir()) == ["--some-project--"]


def test_the_newest_may_be_an_earlier_one(machine: Machine) -> None:
    """`-c` where only an earlier session is goes on in it."""
    earlier(machine, "long ago", "one")
    earlier(machine, "elsewhere", "two", at=5, cwd=machine.home)
    assert "you said: long ago now" in machine.atomic("-c", "-p", "now").out
