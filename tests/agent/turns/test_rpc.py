"""`--mode rpc` as a program meets it: a real process, requests in, answers out."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.turns.machines import DEADLINE, Machine


class Client:
    """The other end of a process's pipes."""

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self.process = machine.start("--mode", "rpc", *arguments, stdin=subprocess.PIPE)
        self._watch = threading.Timer(DEADLINE, self.process.kill)
        self._watch.start()
        self.events: list[dict[str, Any]] = []
        self.ready = self.read()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        found: dict[str, Any] = json.loads(line)
        return found

    def send(self, kind: str, **members: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"type": kind, "id": kind, **members}) + "\n")
        self.process.stdin.flush()

    def ask(self, kind: str, **members: object) -> dict[str, Any]:
        """The answer to a request; what came before it is kept."""
        self.send(kind, **members)
        while (found := self.read())["type"] != "response":
            self.events.append(found)
        assert found["id"] == kind
        return found

    def data(self, kind: str, **members: object) -> dict[str, Any]:
        answer = self.ask(kind, **members)
        assert answer["ok"], answer
        found: dict[str, Any] = answer["data"]
        return found

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        self._watch.cancel()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@contextmanager
def client(machine: Machine, *arguments: str) -> Iterator[Client]:
    opened = Client(machine, *arguments)
    try:
        yield opened
    finally:
        opened.close()


def test_a_conversation(machine: Machine) -> None:
    """Turns, state, names, forks, another session and a new one; the input's end is the end."""
    with client(machine) as rpc:
        assert rpc.ready["saved"] is False
        assert rpc.data("prompt", message="one")["text"].endswith("you said: one")
        assert "".join(event["text"] for event in rpc.events if event["type"] == "delta").endswith("one")
        rpc.data("prompt", message="two")
        assert rpc.ask("set_session_name", name="a name")["ok"]
        state = rpc.data("get_state")
        assert (state["saved"], state["name"], state["messages"]) == (True, "a name", 4)
        assert f"--session {state['session']}" in state["resume"]
        said = rpc.data("get_fork_messages")["messages"]
        assert [one["text"] for one in said] == ["one", "two"]
        fork = rpc.data("fork", entry=said[1]["entry"])
        assert (fork["prompt"], fork["messages"]) == ("two", 2)
        assert [one["role"] for one in rpc.data("get_messages")["messages"]] == ["user", "assistant"]
        assert rpc.data("set_model", model="m9", effort="low")["model"] == "m9"
        assert rpc.data("new_session")["messages"] == 0
        assert rpc.data("switch_session", session=state["session"])["messages"] == 4
        assert rpc.end() == 0
    assert sorted(row.messages for row in machine.rows()) == [2, 4]
    assert machine.count("claims") == 0


def test_what_cannot_be_done_is_answered(machine: Machine) -> None:
    """With the sentence, the mend and the exit code of the commands; the process goes on."""
    with client(machine) as rpc:
        assert rpc.ask("dance")["error"]["code"] == 2
        assert rpc.ask("prompt")["error"]["code"] == 2
        assert rpc.ask("switch_session", session="nobody")["error"]["code"] == 7
        assert rpc.process.stdin is not None
        rpc.process.stdin.write("no json\n")
        rpc.process.stdin.flush()
        assert rpc.read()["ok"] is False
        assert rpc.ask("prompt", message="[[status: 401]]")["error"]["code"] == 10
        assert rpc.data("get_state")["saved"] is False
        assert rpc.end() == 0
    assert machine.count("turns") == 0


def test_an_abort_ends_the_turn(machine: Machine) -> None:
    """Nothing of it is kept, and the next prompt is answered."""
    with client(machine) as rpc:
        rpc.send("prompt", message="one [[hang]]")
        assert machine.provider.hanging.wait(DEADLINE)
        rpc.send("abort")
        answers: dict[str, dict[str, Any]] = {}
        while len(answers) < 2:
            if (found := rpc.read())["type"] == "response":
                answers[found["request"]] = found
        assert answers["abort"]["data"] == {"aborted": True}
        assert answers["prompt"]["error"]["code"] == 130
        assert rpc.data("prompt", message="two")["text"].endswith(
            "1 user, 0 assistant, 0 tool; you said: two"
        )
        assert rpc.data("abort") == {"aborted": False}
        assert rpc.end() == 0
    assert machine.count("turns") == 0


def test_what_a_kill_interrupted_is_taken_up(machine: Machine) -> None:
    """It is in the state of the next process, which goes on with it."""
    machine.atomic("-p", "one")
    with client(machine, "-c") as rpc:
        rpc.send("prompt", message="two [[hang]]")
        assert machine.provider.hanging.wait(DEADLINE)
        rpc.process.kill()
    machine.provider.released.set()
    with client(machine, "-c") as rpc:
        assert [one["prompt"] for one in rpc.ready["interrupted"]] == ["two [[hang]]"]
        assert "2 user, 1 assistant" in rpc.data("resume_interrupted")["text"]
        assert rpc.data("get_state")["interrupted"] == []
        assert rpc.end() == 0
    assert machine.rows()[0].messages == 4
