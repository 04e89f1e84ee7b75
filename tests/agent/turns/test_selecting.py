"""Which session a command line means, and what is done with one without a screen (B8, B19, B26)."""

import json
import os
import signal
from pathlib import Path

import pytest

from agent.turns.machines import Machine, Ran, done, listed


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
        rows = {row["id"]: row for row in listed(machine, *flags)}
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
    (row,) = listed(machine, *flags)
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
    rows = {one["id"]: one for one in listed(machine, *flags)}
    assert (rows[clone]["messages"], rows[fork["session"]["id"]]["messages"]) == (4, 2)
    assert {rows[clone]["parent"], fork["session"]["parent"]} == {"work"}
    beginning = json.loads(does("fork", "work", "--at", asked[0]["entry"], "--json").out)
    assert beginning["session"]["messages"] == 0
    whole = does("fork", "work").out.strip()
    assert "3 user" in machine.atomic(*flags, "--session", whole, "-p", "third").out

    refused = machine.atomic("sessions", "delete", "work", *flags)
    assert refused.code == 13
    does("delete", "work", clone, "--yes")
    assert {"work", clone}.isdisjoint(one["id"] for one in listed(machine, *flags))
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


@pytest.mark.parametrize("flags", [(), ("--session-dir",)])
def test_a_folder_whose_name_is_no_text(
    machine: Machine, flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conversations go on there, as anywhere; ids that are no text are found nowhere."""
    if flags:
        flags = ("--session-dir", str(tmp_path / "kept"))
    folder = tmp_path / os.fsdecode(b"\xff\xfe")
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert machine.atomic(*flags, "-p", "one").code == 0
    ran = machine.atomic(*flags, "-c", "-p", "two")
    assert "2 user, 1 assistant" in ran.out, ran
    (row,) = listed(machine, *flags)
    assert machine.atomic("show", row["id"], *flags, "--branch", "\udcff").code == 7
    assert machine.atomic("sessions", "fork", row["id"], *flags, "--at", "\udcff").code == 7
    assert machine.atomic(*flags, "--session", "\udcff", "-p", "x").code == 7
