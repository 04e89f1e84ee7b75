"""`atomic keys`: kept sealed, used, listed without the key, removed, and where the machine's own key lies."""

import json
import os

import pytest

from agent.turns.machines import CANARY, Machine
from atomic_agent.keys import sources
from atomic_agent.locations import Home


def test_a_kept_key_is_used(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key from standard input answers turns without any variable, survives in no file in clear, and is never
    printed; removed it is gone."""
    monkeypatch.delenv("OPENAI_API_KEY")
    ran = machine.atomic("keys", "set", "openai", "-", stdin=f"{CANARY}\n")
    assert ran.code == 0
    said = ran.out + ran.err
    assert machine.atomic("-p", "hi").out.startswith("Answer 1")
    listed = machine.atomic("keys", "list")
    assert "openai     this machine" in listed.out
    assert "zen        no key" in listed.out
    said += listed.out + listed.err
    assert CANARY not in said
    assert all(CANARY.encode() not in p.read_bytes() for p in machine.home.rglob("*") if p.is_file())
    assert machine.atomic("keys", "remove", "openai").code == 0
    assert machine.atomic("-p", "hi").code == 10


def test_list_tells_where(machine: Machine) -> None:
    """A key in the environment is listed by its variable's name; JSON is one object a provider."""
    rows = [json.loads(line) for line in machine.atomic("keys", "list", "--json").out.splitlines()]
    assert {row["provider"]: row["places"] for row in rows} == {
        "zen": [],
        "openai": ["environment (OPENAI_API_KEY)"],
        "anthropic": [],
    }


def test_a_wrong_kept_key_is_told_with_its_mend(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key the provider refuses is named by provider and command, not shown."""
    monkeypatch.delenv("OPENAI_API_KEY")
    machine.atomic("keys", "set", "openai", "-", stdin="sk-wrong-one")
    ran = machine.atomic("-p", "hi")
    assert ran.code == 10
    assert "atomic keys set openai" in ran.err
    assert "sk-wrong" not in ran.err


@pytest.mark.parametrize(
    ("name", "key"), [("gemini", "x"), ("openai", ""), ("openai", "a\nb"), ("openai", "é")]
)
def test_what_is_no_key(machine: Machine, name: str, key: str) -> None:
    """An unknown provider and an impossible key are refused, with nothing kept."""
    assert machine.atomic("keys", "set", name, "-", stdin=key).code == 2
    assert "this machine" not in machine.atomic("keys", "list").out


def test_without_a_terminal_the_dash_is_named(machine: Machine) -> None:
    """`keys set` asks on a terminal only; elsewhere it says how to pass the key."""
    ran = machine.atomic("keys", "set", "openai", stdin=CANARY)
    assert ran.code == 2
    assert "atomic keys set openai -" in ran.err


def test_the_machines_key_moves_under_a_passphrase(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`keys use passphrase` wraps the key there is: afterwards the cache opens with the passphrase alone; on a
    machine that has none yet it makes the first."""
    machine.atomic("-p", "before")

    def passphrase() -> None:
        reader, writer = os.pipe()
        os.write(writer, b"correct horse\n")
        os.close(writer)
        monkeypatch.setenv("ATOMIC_PASSPHRASE_FD", str(reader))

    passphrase()
    ran = machine.atomic("keys", "use", "passphrase")
    assert ran.code == 0, ran
    assert "ATOMIC_KEY_FILE" in ran.err, "the variable still wins, and that is said"
    monkeypatch.delenv("ATOMIC_KEY_FILE")
    passphrase()
    assert "2 user" in machine.atomic("-c", "-p", "after").out
    other = Home(machine.home / "other")
    monkeypatch.setenv("ATOMIC_HOME", str(other.root))
    passphrase()
    assert machine.atomic("keys", "use", "passphrase").code == 0
    passphrase()
    assert sources.find(other) is not None
