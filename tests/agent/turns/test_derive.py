"""Going on with another agent's session: in a new session of ours, with every call and its result."""

import json
import signal
from typing import Any

import pytest

from agent.turns.machines import CANARY, Machine
from atomic_agent.cache.sessions import SessionRow
from atomic_sessions.clock import parse_time
from atomic_sessions.entry import Thinking, ToolCall, ToolResult
from atomic_sessions.formats import pi

SID = "14b410d2-158c-48f4-88a5-308f31cd66a3"
SIGNATURE = "c2lnbmF0dXJl"


def claude(machine: Machine) -> list[dict[str, Any]]:
    """A Claude Code session: a compaction, then one answer of three records with two parallel calls whose
    results hang on their own records, so that the open branch misses one of them."""
    lines: list[dict[str, Any]] = []

    def record(uuid: str, parent: str | None, kind: str, **more: Any) -> None:
        at = f"2026-11-30T10:00:{len(lines):02d}.000Z"
        base = {
            "parentUuid": parent,
            "isSidechain": False,
            "cwd": str(machine.project),
            "sessionId": SID,
            "version": "2.1.332",
        }
        lines.append({**base, "type": kind, "uuid": uuid, "timestamp": at, **more})

    def user(uuid: str, parent: str | None, content: Any, **more: Any) -> None:
        record(uuid, parent, "user", message={"role": "user", "content": content}, **more)

    def answer(uuid: str, parent: str, group: str, block: dict[str, Any]) -> None:
        usage = {"input_tokens": 7, "output_tokens": 3}
        message = {
            "id": group,
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [block],
        }
        record(
            uuid,
            parent,
            "assistant",
            message={**message, "stop_reason": None, "usage": usage},
            requestId=group,
        )

    user("u1", None, "old question")
    answer("a1", "u1", "msg_0", {"type": "text", "text": "old answer"})
    record("c1", None, "system", subtype="compact_boundary", content="x", logicalParentUuid="a1")
    user("c2", "c1", "SUMMARY of it", isCompactSummary=True)
    user("u2", "c2", "list both")
    answer("a2", "u2", "msg_A", {"type": "thinking", "thinking": "two calls", "signature": SIGNATURE})
    answer(
        "a3",
        "a2",
        "msg_A",
        {"type": "tool_use", "id": "toolu_A", "name": "Bash", "input": {"command": "ls a"}},
    )
    answer(
        "a4",
        "a3",
        "msg_A",
        {"type": "tool_use", "id": "toolu_B", "name": "Bash", "input": {"command": "ls b"}},
    )
    user("r1", "a3", [{"type": "tool_result", "tool_use_id": "toolu_A", "content": "in a"}])
    user("r2", "a4", [{"type": "tool_result", "tool_use_id": "toolu_B", "content": "in b", "is_error": True}])
    answer("a5", "r2", "msg_B", {"type": "text", "text": "both listed"})
    return lines


@pytest.fixture
def captured(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> SessionRow:
    """The machine with that session captured, and a key for Anthropic."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", machine.provider.anthropic_url)
    machine.env |= {"ANTHROPIC_API_KEY": CANARY, "ANTHROPIC_BASE_URL": machine.provider.anthropic_url}
    folder = machine.home / ".claude" / "projects" / "x"
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in claude(machine))
    (folder / f"{SID}.jsonl").write_text(text)
    ran = machine.atomic("capture", "--from", str(folder))
    assert ran.code == 0, ran
    (row,) = machine.rows()
    assert row.agent == "claude-code"
    return row


def test_the_whole_context_is_sent(machine: Machine, captured: SessionRow) -> None:
    """From the summary on: both calls in one answer with their results right after, thinking with its signature
    back to Anthropic, and its model goes on."""
    ran = machine.atomic("-c", "-p", "next")
    assert ran.code == 0, ran
    assert "claude-code session" in ran.err
    sent = machine.provider.requests[-1].body
    assert sent["model"] == "claude-x"
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    first, calls, results, done, last = (m["content"] for m in sent["messages"])
    assert [b["text"] for b in first] == ["SUMMARY of it", "list both"]
    assert calls[0] == {"type": "thinking", "thinking": "two calls", "signature": SIGNATURE}
    assert [(b["id"], b["input"]) for b in calls[1:]] == [
        ("toolu_A", {"command": "ls a"}),
        ("toolu_B", {"command": "ls b"}),
    ]
    assert [(b["tool_use_id"], b["content"][0]["text"], b["is_error"]) for b in results] == [
        ("toolu_A", "in a", False),
        ("toolu_B", "in b", True),
    ]
    assert (done[0]["text"], last[0]["text"]) == ("both listed", "next")
    assert [tool["name"] for tool in sent["tools"]] == ["Bash"]
    assert sent["tool_choice"] == {"type": "none"}


def test_the_new_session_keeps_everything(machine: Machine, captured: SessionRow) -> None:
    """It is format 4, names its parent, keeps times, calls, results and thinking; the captured one is unchanged,
    and -c goes on with the new one."""
    before = machine.lines(captured)
    machine.atomic("-c", "-p", "next")
    new = next(row for row in machine.rows() if row.agent == "atomic")
    assert (new.parent, new.project, new.cwd) == (SID, captured.project, str(machine.project))
    assert machine.lines(captured) == before
    views = [pi.view(raw) for raw in machine.lines(new)]
    assert [v.role or v.kind for v in views] == [
        "custom",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    answer = views[2]
    assert answer.blocks[0] == Thinking("two calls", SIGNATURE)
    assert [b.id for b in answer.blocks if isinstance(b, ToolCall)] == ["toolu_A", "toolu_B"]
    results = [b for v in views for b in v.blocks if isinstance(b, ToolResult)]
    assert [(b.call, b.name, b.is_error) for b in results] == [
        ("toolu_A", "Bash", False),
        ("toolu_B", "Bash", True),
    ]
    assert answer.at == parse_time("2026-11-30T10:00:05.000Z")
    assert answer.usage is not None
    assert (answer.usage.input, answer.stop) == (7, "toolUse")
    assert [v.parent for v in views[1:]] == [v.id for v in views[:-1]]
    again = machine.atomic("-c", "-p", "and on")
    assert "as a new session" not in again.err
    assert len(machine.rows()) == 2
    assert (
        machine.provider.requests[-1].body["messages"][:5] == machine.provider.requests[-2].body["messages"]
    )


def test_another_provider_gets_the_same_history(machine: Machine, captured: SessionRow) -> None:
    """Over the OpenAI protocol: two tool messages after the calls, without the thinking."""
    machine.atomic("-c", "-p", "next", "--provider", "openai")
    sent = machine.provider.requests[-1].body["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert (
        [c["id"] for c in sent[1]["tool_calls"]]
        == [m["tool_call_id"] for m in sent[2:4]]
        == ["toolu_A", "toolu_B"]
    )
    assert "two calls" not in json.dumps(sent)


def test_taking_over_twice_gives_the_same_lines(machine: Machine, captured: SessionRow) -> None:
    """Ids come from the source's ids: two forks hold the same lines up to their own turns."""
    for prompt in ("one", "two"):
        assert machine.atomic("--fork", SID, "-p", prompt).code == 0
    first, second = [machine.lines(row) for row in machine.rows() if row.agent == "atomic"]
    assert first[:6] == second[:6]
    assert len(first) == len(second) == 8


def test_a_failed_first_turn_makes_no_session(machine: Machine, captured: SessionRow) -> None:
    """Nothing is taken over for a turn that fails."""
    assert machine.atomic("-c", "-p", "[[status: 401]]").code == 10
    assert machine.rows() == [captured]


def test_killed_in_its_first_turn(machine: Machine, captured: SessionRow) -> None:
    """The interrupted turn of a session taken over waits at its source, and taken up it brings all with it."""
    process = machine.start("-c", "-p", "next [[hang]]")
    assert machine.provider.hanging.wait(20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert machine.rows() == [captured]
    machine.provider.released.set()
    ran = machine.atomic("-c", "--resume-interrupted")
    assert ran.code == 0, ran
    new = next(row for row in machine.rows() if row.agent == "atomic")
    assert (new.parent, len(machine.lines(new))) == (SID, 8)
    assert machine.provider.requests[0].body["messages"] == machine.provider.requests[1].body["messages"]
    assert machine.count("turns") == 0


def test_a_format_1_pi_session(machine: Machine) -> None:
    """Lines without ids get theirs, the fake provider of the session falls back in one line, and the history is
    whole; the lines' own members stay."""
    lines = [
        {"type": "session", "id": SID, "timestamp": "2025-12-03T14:00:00.000Z", "cwd": str(machine.project)},
        {
            "type": "message",
            "timestamp": "2025-12-03T14:00:01.000Z",
            "message": {"role": "user", "content": "one"},
            "x": 1,
        },
        {
            "type": "message",
            "timestamp": "2025-12-03T14:00:02.000Z",
            "message": {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "c|1", "name": "bash", "arguments": {}}],
                "provider": "fake",
                "model": "m1",
                "stopReason": "toolUse",
            },
        },
    ]
    folder = machine.home / "pi"
    folder.mkdir()
    (folder / f"2025-12-03T14-00-00-000Z_{SID}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert machine.atomic("capture", "--from", str(folder)).code == 0
    ran = machine.atomic("-c", "-p", "two")
    assert ran.code == 0, ran
    assert "The session's model fake/m1 cannot be used" in ran.err
    sent = machine.provider.requests[-1].body["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "user"]
    assert "unknown" in sent[2]["content"], "the call was never answered, and that is said"
    new = next(row for row in machine.rows() if row.agent == "atomic")
    views = [pi.view(raw) for raw in machine.lines(new)]
    assert [v.parent for v in views[1:]] == [v.id for v in views[:-1]]
    assert json.loads(machine.lines(new)[0])["x"] == 1
