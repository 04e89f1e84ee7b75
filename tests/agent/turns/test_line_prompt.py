"""The line prompt on a real terminal: the same engine, and what it offers after a kill or beside a writer."""

import signal
import sys

import pytest

from agent.turns.machines import DEADLINE, Machine

if sys.platform == "win32":
    pytest.skip("needs a pseudo terminal", allow_module_level=True)

from agent.turns.terminals import terminal


def test_two_turns_and_the_way_back(machine: Machine) -> None:
    """Prompts are answered in one session, commands work, and leaving names the command to come back."""
    with terminal(machine) as screen:
        screen.wait("> ")
        screen.type("one\n")
        screen.wait("1 user, 0 assistant, 0 tool; you said: one")
        screen.wait("> ")
        screen.type("/name my title\n")
        screen.wait("> ")
        screen.type("/model m2\n")
        screen.wait("> ")
        screen.type("two\n")
        screen.wait("2 user, 1 assistant, 0 tool; you said: two")
        screen.wait("> ")
        said = screen.leave()
    (row,) = machine.rows()
    assert (
        f"atomic --session-store {machine.home / '.atomic/workflows/journal.sqlite'} --session {row.id}"
        in said
    )
    assert (row.name, row.messages) == ("my title", 4)
    assert machine.provider.requests[-1].body["model"] == "m2"
    assert machine.count("claims") == 0


def test_a_failed_prompt_comes_back(machine: Machine) -> None:
    """After an error the prompt stands in the line again, and Enter sends it once more."""
    machine.provider.refuse = [401]
    with terminal(machine) as screen:
        screen.wait("> ")
        screen.type("try me\n")
        screen.wait("refuses the key")
        screen.wait("> try me")
        screen.type("\n")
        screen.wait("1 user, 0 assistant, 0 tool; you said: try me")
        screen.wait("> ")
        screen.leave()
    assert machine.rows()[0].messages == 2
    assert machine.count("turns") == 0


def test_ctrl_c_cancels_the_turn(machine: Machine) -> None:
    """Ctrl-C in an answer takes nothing into the session and gives the prompt back."""
    with terminal(machine) as screen:
        screen.wait("> ")
        screen.type("stop [[hang]]\n")
        assert machine.provider.hanging.wait(DEADLINE)
        screen.process.send_signal(signal.SIGINT)
        screen.wait("Cancelled")
        screen.wait(r"> stop \[\[hang\]\]")
        screen.leave()
    assert machine.rows() == []


@pytest.mark.parametrize("reply", ["g", "d"])
def test_an_interrupted_turn_is_offered(machine: Machine, reply: str) -> None:
    """After a kill the next open shows the prompt: [g]o on answers it, [d]rop puts it back into the line."""
    machine.atomic("-p", "first")
    process = machine.start("-c", "-p", "second [[hang]]")
    assert machine.provider.hanging.wait(DEADLINE)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    machine.provider.released.set()
    with terminal(machine, "-c") as screen:
        screen.wait(r"second \[\[hang\]\]")
        screen.wait("later: ")
        screen.type(f"{reply}\n")
        if reply == "d":
            screen.wait(r"> second \[\[hang\]\]")
            assert machine.rows()[0].messages == 2
            assert machine.count("turns") == 0
            screen.type("\n")
        screen.wait("2 user, 1 assistant, 0 tool; you said: second")
        screen.wait("> ")
        screen.leave()
    assert machine.rows()[0].messages == 4
    assert machine.count("turns") == 0


def test_beside_another_writer(machine: Machine) -> None:
    """A session somebody else is writing is offered read-only, as a fork, or for taking over."""
    machine.atomic("-p", "first")
    (row,) = machine.rows()
    with terminal(machine, "-c") as holder:
        holder.wait("> ")
        with terminal(machine, "-c") as reader:
            reader.wait("leave: ")
            reader.type("r\n")
            reader.wait("you said: first")
            assert reader.process.wait(DEADLINE) == 0
        with terminal(machine, "-c") as fork:
            fork.wait("leave: ")
            fork.type("f\n")
            fork.wait("> ")
            fork.type("mine\n")
            fork.wait("2 user")
            fork.wait("> ")
            fork.leave()
        holder.leave()
    assert [r.parent for r in machine.rows()] == [row.id, ""]


def test_no_key_starts_and_says_so(machine: Machine) -> None:
    """Without any key the program starts, says what to do, and stays usable."""
    machine.env.pop("OPENAI_API_KEY")
    with terminal(machine) as screen:
        screen.wait("atomic keys set")
        screen.wait("> ")
        screen.type("hi\n")
        screen.wait("No provider has a key here")
        screen.wait("> hi")
        screen.leave()
    assert machine.rows() == []
