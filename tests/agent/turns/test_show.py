"""`atomic show`: readable, harmless, complete."""

import json

from agent.turns.machines import Machine


def test_the_conversation_as_text(machine: Machine) -> None:
    """Prompts and answers in order, by id or its first eight characters; escapes cannot reach the terminal."""
    machine.atomic("-p", "hello [[say: red \x1b[31m end]]", "-n", "a \x1b]0;name\x07 x")
    (row,) = machine.rows()
    shown = machine.atomic("show", row.id[:8])
    assert shown.code == 0
    assert shown.out.index("── You") < shown.out.index("hello") < shown.out.index("── Assistant")
    assert "\x1b" not in shown.out
    assert "\x07" not in shown.out
    assert machine.atomic("show", "ffffffff").code == 7


def test_json_and_branches(machine: Machine) -> None:
    """JSON is one object an entry; --branch shows the branch that ends at an entry."""
    machine.atomic("-p", "one")
    (row,) = machine.rows()
    first = row.newest_id
    assert first is not None
    machine.atomic("-c", "-p", "two")
    entries = [json.loads(line) for line in machine.atomic("show", row.id, "--json").out.splitlines()]
    assert [e["role"] for e in entries] == ["", "user", "assistant", "user", "assistant"]
    assert entries[1]["blocks"] == [{"type": "text", "text": "one"}]
    assert [e["parent"] for e in entries[1:]] == [e["id"] for e in entries[:-1]]
    assert "two" not in machine.atomic("show", row.id, "--branch", first).out
    assert machine.atomic("show", row.id, "--branch", "nowhere").code == 7
