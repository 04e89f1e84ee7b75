"""Whose session a file is, told from its first lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.detect import HEAD_LINES, Detected, detect
from strategies import broken_files, json_values

SID = "615753d9-cd5a-4f7e-8341-494c874882a7"


def _detect(*records: object) -> Detected:
    return detect(r if isinstance(r, bytes) else json.dumps(r).encode() for r in records)


@pytest.mark.parametrize(
    ("version", "agent"),
    [(None, "pi"), (1, "pi"), (2, "pi"), (3, "pi"), (4, "atomic"), (99, "pi"), ("new", "pi")],
)
def test_headers(version: object, agent: str) -> None:
    """Formats 1 to 3 are pi's, 4 is Atomic's; the future is refused by who reads the header."""
    head = {
        "type": "session",
        "id": "x",
        "cwd": "/p",
        **({"version": version} if version is not None else {}),
    }
    assert _detect(head) == Detected(agent, id="x")
    assert _detect({**head, "id": ""}) == Detected(agent, id="")


@pytest.mark.parametrize(
    "first",
    [
        {"type": "user", "uuid": "u", "sessionId": SID, "message": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SID},
        {"type": "mode", "mode": "normal", "sessionId": SID},
        {"type": "summary", "summary": "x", "leafUuid": "l"},
        {"type": "user", "message": {"role": "user", "content": "x"}},
        {"type": "assistant", "uuid": "u", "message": {}},
    ],
)
def test_claude_code(first: dict[str, object]) -> None:
    """By any of the records its files begin with."""
    found = _detect(first)
    assert found.agent == "claude-code"
    assert found.id == first.get("sessionId", "")


@pytest.mark.parametrize(
    "first",
    [
        {"type": "session_meta", "payload": {"id": SID}},
        {"type": "response_item", "payload": {}},
        {"type": "event_msg", "ordinal": 3, "payload": {"type": "task_started"}},
        {"type": "turn_context", "payload": {}},
        {"id": SID, "timestamp": "2025-06-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
    ],
)
def test_codex(first: dict[str, object]) -> None:
    """By any record with a payload, and by the bare first line of its oldest files."""
    assert _detect(first) == Detected("codex")
    assert _detect(b"garbage", first) == Detected("codex")


def test_a_subagents_records_name_their_owner() -> None:
    """The parent's session id stands on each of them."""
    assert (
        _detect({"type": "user", "uuid": "u", "agentId": "a", "isSidechain": True, "sessionId": SID}).owner
        == SID
    )


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"type": "session.start", "data": {}}, "Copilot"),
        ({"sessionId": "x", "projectHash": "y", "startTime": "z"}, "Gemini"),
        ({"type": "user", "id": "m", "content": "x"}, "Gemini"),
        ({"type": "gemini", "id": "m", "content": "x"}, "Gemini"),
        ({"kind": "header", "version": 4, "id": "x"}, "another program"),
        ({"hello": 1}, "not a session"),
        ([], "not a session"),
        (b"<!doctype html>", "not a session"),
        (b"\x00\x01\x02", "not a session"),
    ],
)
def test_what_is_not_read(first: object, words: str) -> None:
    """Named as what it is."""
    found = _detect(first)
    assert found.agent == ""
    assert words in found.why


@pytest.mark.parametrize("lines", [[], [b""], [b"", b"  ", b"\r"]])
def test_empty_files(lines: list[bytes]) -> None:
    """Blank lines are no content."""
    assert detect(lines) == Detected(why="empty")


@pytest.mark.parametrize(
    "noise", [b"", b"\r", b"garbage", b'{"type":"mess', b"\x00" * 8, b'{"x":1}', b"[1]", b"7"]
)
def test_noise_before_the_first_record(noise: bytes) -> None:
    """Damage and records nobody knows do not hide what follows."""
    assert _detect(noise, {"type": "session", "version": 3, "id": "x"}).agent == "pi"
    assert _detect(noise, {"type": "user", "uuid": "u", "sessionId": SID}).agent == "claude-code"


def test_only_the_beginning_is_looked_at() -> None:
    """A file that says nothing for so long is not ours."""
    head = {"type": "session", "version": 3, "id": "x"}
    assert _detect(*[{"x": n} for n in range(HEAD_LINES)], head).agent == ""
    assert _detect(*[{"x": n} for n in range(HEAD_LINES - 1)], head).agent == "pi"


@given(
    st.lists(
        json_values
        | st.dictionaries(
            st.sampled_from(["type", "id", "uuid", "sessionId", "kind", "version"]), json_values
        ),
        max_size=5,
    )
)
def test_no_values_break_it(values: list[object]) -> None:
    """It answers an agent, or why not, never both and never neither."""
    found = _detect(*values)
    assert bool(found.agent) != bool(found.why)


@given(broken_files())
def test_no_bytes_break_it(content: bytes) -> None:
    """Nor do damaged files."""
    found = detect(content.split(b"\n"))
    assert bool(found.agent) != bool(found.why)


@pytest.mark.parametrize("agent", ["gemini", "", "Claude-Code", "x" * 500])
def test_agents_nobody_knows(agent: str) -> None:
    """A session from a newer machine is refused by name, briefly."""
    with pytest.raises(BadSessionFileError) as refused:
        viewer(agent)
    assert len(refused.value.message) < 120
    assert "Update" in refused.value.mend
