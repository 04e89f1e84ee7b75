"""What the tables of errors are checked with: a used machine, every command it has, and one way to look."""

import base64
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from system.fake_service import TOKEN
from system.machines import Done, Machine, claude_lines

SESSION = "0badcafe-0000-4000-8000-00000000000a"
CANARY = "heron-in-the-message"
TURN = ("-c", "-p", "hello", "--provider", "openai", "--model", "test")
NOBODY = 65534
REPAIR = "atomic doctor --repair"
COMMANDS: dict[str, tuple[str, ...]] = {
    "capture": ("capture",),
    "sessions": ("sessions", "--all"),
    "turn": TURN,
    "export": ("export", SESSION, "-", "--as", "md"),
    "share": ("share", SESSION, "--yes"),
    "status": ("status",),
    "sync": ("sync",),
}
root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file to another user or mount a disk"
)
STORE = tuple(COMMANDS)

Environment = Mapping[str, str]


class Trouble(Struct, frozen=True):
    """A row of the table: what is wrong on the machine (`make`, which may give variables), which commands
    meet it, how they leave, and fragments of the sentence and of the mend.

    `seen` is the state of a check of `atomic doctor` that says the same, empty when it cannot know; then
    `told` is that check's fragment, where it differs.
    """

    name: str
    make: "Callable[[Machine, Path], Environment | None]"
    code: int
    said: str
    mend: str
    commands: tuple[str, ...] = STORE
    seen: str = "problem"
    told: str = ""

    @property
    def id(self) -> str:
        return self.name.replace(" ", "-")


def used(machine: Machine) -> Machine:
    """The machine after its first capture."""
    # A session is called by its first message, and a list may show that.
    texts = [f"{CANARY if n else 'hello'} {n} " + "x" * 3000 * (n % 2) for n in range(40)]
    lines = claude_lines(SESSION, str(machine.folder), texts)
    machine.claude_file(SESSION, lines)
    machine.atomic("capture")
    return machine


def copied(original: Machine, to: Machine) -> Machine:
    """Another machine that holds what the first does."""
    shutil.copytree(original.home / ".atomic", to.home / ".atomic")
    shutil.copytree(original.home / ".claude", to.home / ".claude")
    to.key_file.write_bytes(original.key_file.read_bytes())
    return to


def place(machine: Machine) -> Home:
    return Home(machine.home / ".atomic")


def key_of(machine: Machine) -> LocalKey:
    return LocalKey(base64.b64decode(machine.key_file.read_bytes()))


def assert_told(machine: Machine, done: Done, said: str, mend: str) -> None:
    """One line that begins with the program's name, holds the sentence and then the mend, and nothing secret."""
    lines = [line for line in done.err.splitlines() if line.startswith("atomic: ")]
    assert len(lines) == 1, done.err[-800:]
    assert done.err.splitlines()[-1] == lines[0]
    assert said in lines[0], lines[0]
    assert mend in lines[0].split(said, 1)[1], lines[0]
    assert_nothing_leaked(machine, done)


def assert_nothing_leaked(machine: Machine, done: Done) -> None:
    """No text of a message, no key, no token, no traceback."""
    shown = done.out + done.err
    assert "Traceback" not in shown
    assert CANARY not in shown
    assert TOKEN not in shown
    key = machine.key_file.read_bytes().decode("latin-1")
    assert not key or key not in shown


def assert_seen(machine: Machine, trouble: Trouble, environment: Environment) -> None:
    """`atomic doctor` names the trouble and its mend, as JSON and for a person, and changes nothing."""
    done = machine.atomic("doctor", "--json", code=None, **environment)
    assert done.err == ""
    assert_nothing_leaked(machine, done)
    checks = json.loads(done.out)["checks"]
    said = trouble.told or trouble.said
    found = [one for one in checks if one["state"] == trouble.seen and said in one["said"]]
    assert found, [one for one in checks if one["state"] != "ok"]
    assert found[0]["mend"]
    assert done.code == (1 if any(one["state"] == "problem" for one in checks) else 0)


def _content(machine: Machine) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in place(machine).root.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm", "lock"))
    }


def assert_met(machine: Machine, trouble: Trouble, folder: Path) -> None:
    """Every command meets the trouble in the same words, and nothing in the home is changed by it."""
    environment = trouble.make(machine, folder) or {}
    before = _content(machine)
    for name in trouble.commands:
        done = machine.atomic(*COMMANDS[name], code=None, **environment)
        assert done.code == trouble.code, (name, done.code, done.err[-500:])
        assert_told(machine, done, trouble.said, trouble.mend)
    assert _content(machine) == before
    if trouble.seen:
        assert_seen(machine, trouble, environment)
    assert _content(machine) == before
