"""I03, I04 for capture: kill -9 before each SQL statement, and each line is taken in once."""

import json
from pathlib import Path

import pytest

from agent.sync.account import Node
from atomic_agent.cache import entries, sessions
from faults.victim import Victim

SESSION = "0d9e8c1a-1111-4222-8333-444455556666"


def claude_line(number: int) -> bytes:
    line = {
        "type": "user" if number % 2 == 0 else "assistant",
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": SESSION,
        "cwd": "/p",
        "timestamp": f"2026-11-01T10:00:{number % 60:02d}.000Z",
        "message": {"role": "user", "content": f"line {number}"},
    }
    return json.dumps(line).encode() + b"\n"


def pi_line(number: int) -> bytes:
    if number == 0:
        head = {
            "type": "session",
            "version": 3,
            "id": SESSION,
            "timestamp": "2026-11-01T10:00:00Z",
            "cwd": "/p",
        }
        return json.dumps(head).encode() + b"\n"
    line = {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": f"{number - 1:08x}" if number > 1 else None,
        "timestamp": "2026-11-01T10:00:00Z",
        "message": {"role": "user", "content": f"line {number}", "timestamp": 1_793_000_000_000 + number},
    }
    return json.dumps(line).encode() + b"\n"


@pytest.mark.parametrize(("agent", "line"), [("claude-code", claude_line), ("pi", pi_line)])
def test_capture_killed_before_each_statement(tmp_path: Path, victim: Victim, agent: str, line) -> None:  # type: ignore[no-untyped-def]  # one of two functions above
    """A new file and a grown one: whatever statement the kill comes before, the next capture ends with the
    file's lines, each once, in its order."""
    node = Node(tmp_path, "m")
    path = tmp_path / f"{SESSION}.jsonl"
    more = {"file": str(path), "agent": agent}

    def capture(at: int) -> int:
        node.journal.close()
        done = victim.do(node.home, node.key, "capture", at, **more)
        node.journal = node._open()
        assert not done["error"], done
        return int(done["statements"])

    count, at, statements = 2, 1, 10_000
    while at <= statements:
        # Every other kill meets a file that nothing was taken of yet.
        if at % 2:
            path = tmp_path / f"{at}" / f"{SESSION[:-4]}{at:04d}.jsonl"
            path.parent.mkdir()
            more["file"], count = str(path), 2
        count += 3
        path.write_bytes(b"".join(map(line, range(count))).replace(SESSION.encode(), path.stem.encode()))
        capture(at)
        lived = capture(0)
        if statements == 10_000:
            statements = max(lived, 40)
        found = {row.id: row for row in sessions.listed(node.journal.cache, internal=True)}
        row = found[path.stem]
        raws = [stored.entry.raw for stored in entries.read(node.journal.cache, row.key)]
        header = row.facts.header
        lines = path.read_bytes().splitlines()
        assert raws == (lines[1:] if header else lines)
        at += 1
    assert statements > 20
    node.close()
