"""The numbered chooser, and the store chosen again before a conversation is first saved, on a real terminal."""

import json
import sys

import pytest

from agent.turns.machines import Machine

if sys.platform == "win32":
    pytest.skip("needs a pseudo terminal", allow_module_level=True)

from agent.turns.terminals import terminal


def test_one_is_chosen_by_its_number(machine: Machine) -> None:
    """`-r` lists this project's sessions, newest first, and opens the one whose number is typed."""
    for text in ("oldest thing", "middle thing", "newest thing"):
        machine.atomic("-p", text)
    with terminal(machine, "-r") as screen:
        screen.wait(r"1 .*newest thing\r?\n.*2 .*middle thing\r?\n.*3 .*oldest thing")
        screen.type("9\n")
        screen.wait("no number 9")
        screen.type("oldest\n")
        screen.wait(r"1 .*oldest thing")
        screen.type("1\n")
        screen.wait("> ")
        screen.type("again\n")
        screen.wait("2 user, 1 assistant, 0 tool; you said: again")
        screen.wait("> ")
        screen.leave()
    assert sorted(row.messages for row in machine.rows()) == [2, 2, 4]


def test_nothing_is_chosen(machine: Machine) -> None:
    """Enter leaves with 0 and nothing made; without a terminal the flag says what to do instead."""
    machine.atomic("-p", "one")
    with terminal(machine, "-r") as screen:
        screen.wait("to leave: ")
        screen.type("\n")
        assert screen.process.wait(20) == 0
    assert len(machine.rows()) == 1
    ran = machine.atomic("-r")
    assert ran.code == 2
    assert "--session" in ran.err
    assert machine.atomic("-r", "-p", "x").code == 2


def test_a_store_is_chosen_again_before_the_first_save(machine: Machine) -> None:
    """What settings say when a new conversation is first saved decides; one that is saved stays where it is."""
    settings = machine.home / ".atomic" / "agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    with terminal(machine) as screen:
        screen.wait("> ")
        settings.write_text(json.dumps({"sessions": {"storage": {"dir": "chosen"}}}))
        screen.type("one\n")
        screen.wait("is kept in .*chosen")
        screen.wait("1 user, 0 assistant")
        screen.wait("> ")
        settings.write_text("{}")
        screen.type("two\n")
        screen.wait("2 user, 1 assistant")
        screen.wait("> ")
        screen.type("/new\n")
        screen.wait("> ")
        screen.type("three\n")
        screen.wait("1 user, 0 assistant, 0 tool; you said: three")
        screen.wait("> ")
        said = screen.leave()
    assert "--session-store" in said
    assert len(list((machine.home / ".atomic" / "chosen").glob("*.jsonl"))) == 1
    assert [row.first_message for row in machine.rows()] == ["three"]


def test_a_person_is_asked_once_whether_a_project_counts(machine: Machine) -> None:
    """At a terminal the question comes before anything is saved, and the answer holds from then on."""
    (machine.project / ".git").mkdir()
    (machine.project / ".atomic").mkdir()
    chosen = {"sessions": {"storage": {"dir": str(machine.project / "theirs")}}}
    (machine.project / ".atomic" / "settings.json").write_text(json.dumps(chosen))
    with terminal(machine) as screen:
        screen.wait(r"Trust the project .*\[y/N\] ")
        screen.type("y\n")
        screen.wait("> ")
        screen.type("one\n")
        screen.wait("1 user")
        screen.wait("> ")
        assert "--session-dir" in screen.leave()
    assert len(list((machine.project / "theirs").glob("*.jsonl"))) == 1
    with terminal(machine, "-c") as screen:
        screen.wait("2 messages")
        screen.wait("> ")
        assert "Trust" not in screen.leave()
