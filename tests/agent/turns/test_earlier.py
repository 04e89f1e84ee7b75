"""Sessions of earlier versions beside those of the default store, as a person meets them (B3, B4)."""

import json
from pathlib import Path

from agent.turns.machines import Machine, listed


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
    assert [row["first_message"] for row in listed(machine)] == ["new", "unwanted", "an old question"]
    chosen = listed(machine, "--session-store", str(machine.home / ".atomic/workflows/journal.sqlite"))
    assert [row["first_message"] for row in chosen] == ["new"]
    assert listed(machine, "--session-dir", "x") == []
    assert machine.atomic("sessions", "delete", "gone", "--yes").code == 0
    assert [row["first_message"] for row in listed(machine)] == ["new", "an old question"]
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
