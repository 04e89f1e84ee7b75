"""What is loaded when: no client library before a turn starts."""

import pytest

from agent.turns.machines import Machine

LIBRARIES = ("openai", "anthropic", "httpx", "httpx2", "pydantic")
LOADED = """
import sys
from atomic_agent.cli import app
try:
    app.run(sys.argv[1:])
except SystemExit:
    pass
print("LOADED", *sorted(set(sys.modules) & {libraries!r}))
"""


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("sessions",), ("-p", "--help"), ("keys", "list"), ("show", "--help")],
    ids=" ".join,
)
def test_no_client_library_before_a_turn(machine: Machine, arguments: tuple[str, ...]) -> None:
    """Listing, help and keys load no provider's library."""
    done = machine.script(LOADED.format(libraries=set(LIBRARIES)), *arguments)
    assert done.stdout.splitlines()[-1] == "LOADED", done


def test_a_turn_loads_its_own_library_only(machine: Machine) -> None:
    """A turn loads the library of its protocol, not the other."""
    done = machine.script(LOADED.format(libraries={"openai", "anthropic"}), "-p", "-", "--no-session")
    assert done.returncode != 0, "no prompt: nothing was asked"
    code = LOADED.format(libraries={"openai", "anthropic"}).replace(
        "app.run", "sys.stdin = open('/dev/null'); app.run"
    )
    done = machine.script(code, "-p", "hi", "--no-session")
    assert done.stdout.splitlines()[-1] == "LOADED openai", done
