"""What lines of Claude Code sessions say."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.entry import Image, Text, Thinking, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats import claude
from atomic_sessions.formats.agents import viewer
from fuzz.corpus import CLAUDE
from fuzz.mutations import cases
from strategies import json_values

BASE = {
    "uuid": "u",
    "parentUuid": "p",
    "sessionId": "s",
    "timestamp": "2026-11-30T12:00:00.000Z",
    "cwd": "/p",
    "isSidechain": False,
}


def _view(**members: object) -> View:
    return claude.view(json.dumps(members).encode())


def _user(content: object, **members: object) -> View:
    return _view(**{**BASE, "type": "user", "message": {"role": "user", "content": content}, **members})


def _assistant(content: object, message: dict[str, object] | None = None, **members: object) -> View:
    body = {"role": "assistant", "content": content, **(message or {})}
    return _view(**{**BASE, "type": "assistant", "message": body, **members})


@pytest.mark.parametrize("content", ["hello", [{"type": "text", "text": "hello"}]])
def test_a_prompt(content: object) -> None:
    """Typed by a person: decides, counts, is sent."""
    found = _user(content)
    assert (found.kind, found.role, found.id, found.parent) == ("message", "user", "u", "p")
    assert (found.at, found.cwd, found.blocks) == (1_796_040_000_000, "/p", (Text("hello"),))
    assert found.typed
    assert found.decides
    assert found.in_context


@pytest.mark.parametrize(
    "text",
    [
        "<command-name>/clear</command-name>",
        "<local-command-stdout>x",
        " <system-reminder>x",
        "<bash-input>ls</bash-input>",
        "Caveat: The messages below were generated",
    ],
)
def test_what_a_program_put_in(text: str) -> None:
    """Commands, reminders and caveats are no prompts: they neither name nor order a session."""
    found = _user(text)
    assert (found.role, found.typed, found.decides, found.counts) == ("custom", False, False, True)
    assert _user("real words", isMeta=True).role == "custom"


def test_a_compacted_conversation() -> None:
    """The summary is one, and the boundary hangs below what it follows."""
    assert _user("in short", isCompactSummary=True).role == "summary"
    boundary = _view(
        **{
            **BASE,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "c",
            "parentUuid": None,
            "logicalParentUuid": "l",
        }
    )
    assert (boundary.kind, boundary.parent, boundary.text, boundary.in_context) == (
        "system/compact_boundary",
        "l",
        "c",
        False,
    )


@pytest.mark.parametrize("content", ["out", [{"type": "text", "text": "out"}]])
def test_a_tool_result(content: object) -> None:
    """A user record on the wire, an answer to a call for people."""
    found = _user(
        [{"type": "tool_result", "tool_use_id": "c", "content": content, "is_error": True}],
        toolUseResult={"x": 1},
    )
    assert found.role == "tool"
    assert found.blocks == (ToolResult("c", "", (Text("out"),), is_error=True),)
    assert found.counts
    assert not found.decides
    empty = _user([{"type": "tool_result", "tool_use_id": "c"}])
    assert empty.blocks == (ToolResult("c", "", ()),)


def test_an_answer() -> None:
    """Parts of one answer share its group; thinking, calls, pictures, model and tokens are read."""
    found = _assistant(
        [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "said"},
            {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}},
            {"type": "server_tool_use", "id": "d", "name": "web_search", "input": {}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
            {"type": "tomorrow"},
        ],
        {
            "id": "msg_1",
            "model": "claude-x",
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 4,
            },
        },
    )
    assert found.blocks == (
        Thinking("hm", "sig"),
        Thinking("", "sealed", redacted=True),
        Text("said"),
        ToolCall("c", "Bash", '{"command": "ls"}'),
        ToolCall("d", "web_search", "{}"),
        Image("image/png", "QQ=="),
    )
    assert (found.group, found.model, found.provider, found.stop) == (
        "msg_1",
        "claude-x",
        "anthropic",
        "tool_use",
    )
    assert found.usage == Usage(1, 2, 3, 4)
    assert found.decides


def test_answers_that_are_errors() -> None:
    """A failed call and a synthetic answer are shown and never sent."""
    failed = _assistant([{"type": "text", "text": "API Error"}], isApiErrorMessage=True)
    assert (failed.error, failed.in_context) == ("API Error", False)
    assert not _assistant(
        [{"type": "text", "text": "No response requested."}], {"model": "<synthetic>"}
    ).in_context


def test_side_chains() -> None:
    """An inline sub-agent's records neither count nor decide, except in the sub-agent's own session."""
    found = _user("task", isSidechain=True)
    assert (found.side, found.counts, found.decides) == (True, False, False)
    raw = json.dumps(
        {**BASE, "type": "user", "isSidechain": True, "message": {"role": "user", "content": "task"}}
    ).encode()
    assert viewer("claude-code", internal=True)(raw).decides
    assert not viewer("claude-code")(raw).decides


@pytest.mark.parametrize(
    ("members", "kind", "text"),
    [
        ({"type": "custom-title", "customTitle": " Mine "}, "session_info", "Mine"),
        ({"type": "custom-title", "title": "Mine"}, "session_info", "Mine"),
        ({"type": "ai-title", "aiTitle": "Its"}, "title", "Its"),
        ({"type": "agent-name", "agentName": "Agent"}, "title", "Agent"),
        ({"type": "summary", "summary": "Once", "leafUuid": "x"}, "title", "Once"),
    ],
)
def test_titles(members: dict[str, object], kind: str, text: str) -> None:
    """The person's title is a name, everything else a title."""
    found = _view(**members)
    assert (found.kind, found.text, found.id) == (kind, text, None)
    assert found.target == members.get("leafUuid", "")


@pytest.mark.parametrize(
    "kind",
    [
        "queue-operation",
        "mode",
        "permission-mode",
        "atis-latch",
        "tools-used",
        "api-request",
        "api-request-shape",
        "api-request-blob",
        "last-prompt",
        "cost-state",
        "file-history-snapshot",
        "pr-link",
        "worktree-state",
        "relocated",
        "tomorrow",
    ],
)
def test_loose_records(kind: str) -> None:
    """No id, no text, not sent, not damaged."""
    found = _view(type=kind, sessionId="s", message={"role": "user", "content": "x"}, content="y")
    assert (found.kind, found.id, found.role, found.blocks, found.text) == (kind, None, "", (), "")
    assert not found.in_context
    assert not found.damaged


@pytest.mark.parametrize("kind", ["progress", "attachment"])
def test_chain_records_that_say_nothing(kind: str) -> None:
    """They are nodes of the tree."""
    found = _view(**{**BASE, "type": kind, "attachment": {"type": "environment"}})
    assert (found.kind, found.id, found.parent, found.role) == (kind, "u", "p", "")


def test_system_records() -> None:
    """With a subtype, and as old versions wrote them."""
    assert _view(**{**BASE, "type": "system", "subtype": "api_error"}).kind == "system/api_error"
    old = _view(**{**BASE, "type": "system", "content": " told ", "level": "info"})
    assert (old.kind, old.text) == ("system", "told")


@pytest.mark.parametrize(
    "message", [None, 7, "x", [], {}, {"content": None}, {"content": 7}, {"content": {"a": 1}}]
)
def test_messages_of_any_shape(message: object) -> None:
    """There, without words."""
    found = _view(**{**BASE, "type": "user", "message": message})
    assert (found.kind, found.id, found.spoken()) == ("message", "u", "")


@given(json_values)
def test_no_json_value_breaks_a_view(value: object) -> None:
    """Any value as a line, as a member, as content, in a block, in a nested result."""
    nested = {
        "type": "tool_result",
        "tool_use_id": value,
        "content": [value, {"type": "image", "source": value}],
        "is_error": value,
    }
    for line in (
        value,
        dict.fromkeys([*BASE, "type", "message", "content", "summary", "leafUuid", "isMeta"], value),
        {**BASE, "type": "user", "message": value},
        {
            **BASE,
            "type": "assistant",
            "message": {"id": value, "model": value, "content": value, "usage": value, "stop_reason": value},
        },
        {
            **BASE,
            "type": "user",
            "message": {"content": [value, nested, {"type": "tool_use", "input": value, "name": value}]},
        },
        {"type": "system", "subtype": value, "content": value},
        {"type": "custom-title", "customTitle": value, "title": value},
    ):
        found = claude.view(json.dumps(line).encode())
        assert isinstance(found, View)
        found.spoken().encode()


@given(st.binary(max_size=60))
def test_no_bytes_break_a_view(raw: bytes) -> None:
    """Whatever stands on a line."""
    assert isinstance(claude.view(raw), View)


def test_results_nested_without_end() -> None:
    """A result in a result in a result does not exhaust the stack."""
    content: object = "deep"
    for _ in range(300):
        content = [{"type": "tool_result", "tool_use_id": "c", "content": content}]
    assert _user(content).role in {"tool", "user", ""}


@given(st.dictionaries(st.sampled_from([*BASE, "isMeta", "leafUuid"]), json_values))
def test_a_wrong_member_does_not_hide_the_others(members: dict[str, object]) -> None:
    """One member of a type nobody expects costs that member alone."""
    found = _user("words", **members)
    assert found.spoken() == "words"
    if "uuid" not in members:
        assert found.id == "u"


def test_one_pass_reads_what_member_by_member_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line whose members have their usual types is read in one pass; what it says does not depend on that."""

    class Refusing:
        def decode(self, _: bytes) -> None:
            raise msgspec.ValidationError

    lines = [raw for _, raw in cases(CLAUDE, 3000, seed=31)]
    at_once = [claude.view(raw) for raw in lines]
    monkeypatch.setattr(claude, "_LINE", Refusing())
    assert [claude.view(raw) for raw in lines] == at_once
