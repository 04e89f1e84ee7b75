"""Lines of a file to entries: the same ids however the reading is interrupted."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.entry import Entry
from atomic_sessions.formats.lines import split
from atomic_sessions.formats.scan import Scanner, ScanState
from strategies import broken_files

NOW = 1_800_000_000_000


def scan(agent: str, content: bytes, cut: int | None = None) -> list[Entry]:
    """All entries of a file, optionally in two runs."""
    state, found = ScanState(), []
    known: dict[str, int] = {}
    lines = [line.raw for line in split([content])]
    for part in [lines] if cut is None else [lines[:cut], lines[cut:]]:
        scanner = Scanner(agent, state, now=NOW, stamp_of=lambda i: known.get(i, 0))
        for raw in part:
            entry, _ = scanner.read(raw)
            known[entry.id] = entry.stamp
            found.append(entry)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(scanner.state), type=ScanState)
    return found


@pytest.mark.parametrize("agent", ["pi", "claude-code"])
@given(content=broken_files(), cut=st.integers(0, 10))
def test_interrupted_reading_gives_the_same_entries(agent: str, content: bytes, cut: int) -> None:
    """A capture that stopped anywhere goes on to the same ids, places and stamps."""
    assert scan(agent, content) == scan(agent, content, cut)


@pytest.mark.parametrize("agent", ["pi", "claude-code"])
@given(content=broken_files())
def test_every_line_is_an_entry_with_its_bytes(agent: str, content: bytes) -> None:
    """Nothing is dropped, whatever the file holds."""
    assert [e.raw for e in scan(agent, content)] == [line.raw for line in split([content])]


def test_format_1_lines_form_one_chain() -> None:
    """Lines without ids hang below each other in file order."""
    lines = [
        {"type": "session", "id": "s", "timestamp": "2025-12-03T14:00:00.000Z", "cwd": "/p"},
        {"type": "message", "message": {"role": "user", "content": "one", "timestamp": 1}},
        {"type": "message", "message": {"role": "assistant", "content": [], "timestamp": 2}},
    ]
    header, first, second = scan("pi", b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert header.loose
    assert (first.parent, second.parent) == (None, first.id)


def test_stamps_follow_the_chain_when_clocks_do_not() -> None:
    """A child's stamp is above its parent's even when its own time is earlier."""
    lines = [
        {
            "type": "user",
            "uuid": "a",
            "sessionId": "s",
            "timestamp": "2026-01-02T00:00:00Z",
            "message": {"content": "x"},
        },
        {
            "type": "user",
            "uuid": "b",
            "parentUuid": "a",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": {"content": "y"},
        },
    ]
    first, second = scan("claude-code", b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert second.stamp == first.stamp + 1
