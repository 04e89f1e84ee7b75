"""What lines of pi and Atomic sessions say."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.entry import Image, Shell, Text, Thinking, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats import pi
from strategies import json_values


def _view(**members: object) -> View:
    return pi.view(json.dumps(members).encode())


def _message(role: str, content: object = None, **members: object) -> View:
    body = {"role": role, "content": content, **members}
    return _view(type="message", id="i", parentId="p", timestamp="2026-11-30T12:00:00Z", message=body)


AT = 1_796_040_000_000


def test_a_header() -> None:
    """Formats 1 to 3 have `timestamp`, 4 has `createdAt`; a folder that is no text is none."""
    old = _view(type="session", version=3, id="s", timestamp="2026-11-30T12:00:00Z", cwd="/p")
    new = _view(type="session", version=4, id="s", createdAt="2026-11-30T12:00:00Z", cwd="/p")
    assert old == new == View("session", id="s", at=AT, cwd="/p", in_context=False)
    assert _view(type="session", id="s", cwd=7).cwd == ""
    assert not old.counts


@pytest.mark.parametrize("content", ["hello", [{"type": "text", "text": "hello"}]])
def test_a_user_message(content: object) -> None:
    """Text or blocks; its own time in ms comes before the line's."""
    found = _message("user", content, timestamp=5)
    assert (found.role, found.id, found.parent, found.at) == ("user", "i", "p", 5)
    assert found.blocks == (Text("hello"),)
    assert found.typed
    assert found.decides
    assert found.in_context
    assert _message("user", content).at == AT


def test_an_assistant_message() -> None:
    """Text, thinking shown and kept back, calls with their arguments as written, pictures, cost."""
    found = _message(
        "assistant",
        [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "sealed"},
            {"type": "redacted_thinking", "data": "old"},
            {"type": "text", "text": "one"},
            {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "/x", "n": 1.0}},
            {"type": "image", "data": "QQ==", "mimeType": "image/png"},
            {"type": "from-the-future", "x": 1},
            {"type": "text", "text": "two"},
        ],
        provider="p",
        model="m",
        stopReason="toolUse",
        usage={
            "input": 1,
            "output": 2,
            "cacheRead": 3,
            "cacheWrite": 4,
            "reasoning": 9,
            "cost": {"total": 0.5},
        },
    )
    assert found.blocks == (
        Thinking("hm", "sig"),
        Thinking("", "sealed", redacted=True),
        Thinking("", "old", redacted=True),
        Text("one"),
        ToolCall("c", "read", '{"path": "/x", "n": 1.0}'),
        Image("image/png", "QQ=="),
        Text("two"),
    )
    assert (found.provider, found.model, found.stop) == ("p", "m", "toolUse")
    assert found.usage == Usage(1, 2, 3, 4, 0.5)
    assert found.spoken() == "one two"
    assert not found.typed


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, None),
        ({}, Usage()),
        ({"input": 5}, Usage(input=5)),
        ({"input": 5, "cost": None}, Usage(input=5)),
        ({"cost": {}}, Usage()),
    ],
)
def test_usage_of_old_files(usage: object, wanted: Usage | None) -> None:
    """What is missing is nought."""
    assert _message("assistant", [], usage=usage).usage == wanted


def test_a_failed_answer() -> None:
    """No content, the reason and the provider's words."""
    found = _message("assistant", [], stopReason="error", errorMessage="overloaded")
    assert (found.blocks, found.stop, found.error) == ((), "error", "overloaded")
    assert found.decides


def test_a_tool_result() -> None:
    """Belongs to its call; counts, decides nothing, is not typed."""
    found = _message(
        "toolResult",
        [{"type": "text", "text": "out"}, {"type": "image", "data": "QQ==", "mimeType": "image/png"}],
        toolCallId="c",
        toolName="edit",
        isError=True,
        details={"diff": "-a\n+b", "more": 1},
    )
    content = (Text("out"), Image("image/png", "QQ=="))
    assert found.blocks == (ToolResult("c", "edit", content, is_error=True, diff="-a\n+b"),)
    assert found.role == "tool"
    assert found.counts
    assert not found.decides


def test_a_command_of_the_person() -> None:
    """Run with `!`; with `!!` no model sees it."""
    found = _message(
        "bashExecution", command="ls", output="x", exitCode=1, cancelled=True, excludeFromContext=True
    )
    assert found.blocks == (Shell("ls", "x", 1, cancelled=True),)
    assert (found.role, found.in_context) == ("bash", False)
    assert _message("bashExecution", command="ls", output="x").blocks == (Shell("ls", "x", None),)


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        ("system", "system"),
        ("custom", "custom"),
        ("hookMessage", "custom"),
        ("branchSummary", "summary"),
        ("someday", "custom"),
        ("", "custom"),
    ],
)
def test_other_roles(role: str, wanted: str) -> None:
    """Count as messages and never decide what is newest."""
    found = _message(role, "x", summary="s")
    assert found.role == wanted
    assert found.counts
    assert not found.decides


def test_a_system_message_of_today() -> None:
    """pi 1.6 writes its prompt into the tree: counted, never shown as said, never sent from here."""
    found = _message("system", "", sections={"preamble": "x"}, toolsAdded=[{"name": "read"}])
    assert (found.role, found.in_context, found.spoken()) == ("system", False, "")


@pytest.mark.parametrize("content", [None, [], "", [{"type": "text"}], [1, "x", None], {"a": 1}, 7])
def test_content_of_any_shape(content: object) -> None:
    """Null, empty and wrong content is no content; the message is there."""
    found = _message("user", content)
    assert found.spoken() == ""
    assert found.counts


def test_model_and_level() -> None:
    """Kept as written, also levels nobody knows."""
    found = _view(type="model_change", id="i", parentId=None, provider="p", modelId="m")
    assert (found.kind, found.text, found.model, found.provider, found.in_context) == (
        "model_change",
        "m",
        "m",
        "p",
        False,
    )
    assert _view(type="thinking_level_change", id="i", thinkingLevel="ultra").text == "ultra"
    assert _view(type="context_window_change", id="i", contextWindow=200000).text == "200000"


def test_names_labels_and_summaries() -> None:
    """Trimmed; an empty one clears; a label points at its entry."""
    assert _view(type="session_info", id="i", name=" N ").text == "N"
    assert _view(type="session_info", id="i").text == ""
    label = _view(type="label", id="i", targetId="t", label=" L ")
    assert (label.text, label.target) == ("L", "t")
    assert _view(type="label", id="i", targetId="t", label=None).text == ""
    assert _view(type="session_summary", id="i", summary=" S ").text == "S"
    assert _view(type="leaf", id="i", leafId="x").target == "x"


def test_branch_summaries_and_compactions() -> None:
    """A branch summary is sent when it says something; a compaction only with verbatim lines."""
    found = _view(type="branch_summary", id="i", summary="left")
    assert (found.role, found.blocks, found.in_context) == ("summary", (Text("left"),), True)
    assert not _view(type="branch_summary", id="i", summary="").in_context
    prose = _view(
        type="compaction", id="i", summary="so far", firstKeptEntryId="k", details={"readFiles": []}
    )
    assert (prose.role, prose.text, prose.target, prose.in_context) == ("summary", "so far", "k", False)
    assert _view(type="compaction", id="i", summary="x", details={"strategy": "verbatim-lines"}).in_context
    assert _view(type="compaction", id="i", summary="x", firstKeptEntryId=None).target == ""


def test_extensions_messages() -> None:
    """Drawn or not, sent or not; a custom entry is neither."""
    shown = _view(type="custom_message", id="i", customType="t", content="note", display=True)
    assert (shown.role, shown.text, shown.blocks, shown.in_context) == ("custom", "t", (Text("note"),), True)
    hidden = {"type": "custom_message", "id": "i", "customType": "t", "content": "note", "display": False}
    assert pi.view(json.dumps(hidden).encode()).blocks == ()
    assert pi.view(json.dumps(hidden).encode(), hidden=True).blocks == (Text("note"),)
    assert not _view(type="custom_message", id="i", content="x", excludeFromContext=True).in_context
    assert not _view(type="custom", id="i", customType="t", data={}).in_context


@pytest.mark.parametrize("kind", ["usage", "context_edit", "context_compaction", "tomorrow", ""])
def test_kinds_without_a_view(kind: str) -> None:
    """Nodes of the tree that say nothing and are not sent."""
    found = _view(type=kind, id="i", parentId="p", x=[1])
    assert (found.kind, found.id, found.parent) == (kind or "unknown", "i", "p")
    assert (found.role, found.blocks, found.in_context, found.damaged) == ("", (), False, False)


@pytest.mark.parametrize(
    ("members", "identity", "parent"),
    [
        ({}, None, None),
        ({"id": "", "parentId": ""}, "", ""),
        ({"id": "a", "parentId": None}, "a", None),
        ({"id": "a\x00", "parentId": "é"}, "a\x00", "é"),
    ],
)
def test_ids_of_any_text(members: dict[str, object], identity: str | None, parent: str | None) -> None:
    """An empty id is an id; a missing one is none; null is the root."""
    found = _view(type="label", **members)
    assert (found.id, found.parent) == (identity, parent)


@given(json_values)
def test_no_json_value_breaks_a_view(value: object) -> None:
    """Any value as a line, as a message, as content, as a block's member."""
    block = {"type": "toolCall", "id": value, "name": value, "arguments": value, "text": value, "data": value}
    for line in (
        value,
        {"type": value, "id": value, "parentId": value, "timestamp": value},
        {"type": "message", "id": "i", "message": value},
        {"type": "message", "message": {"role": value, "content": value, "usage": value, "details": value}},
        {"type": "message", "message": {"role": "assistant", "content": [value, block], "timestamp": value}},
        {"type": "session", "id": value, "cwd": value, "createdAt": value},
        *(
            {
                "type": kind,
                "name": value,
                "label": value,
                "summary": value,
                "contextWindow": value,
                "content": value,
                "details": value,
            }
            for kind in (
                "label",
                "session_info",
                "compaction",
                "custom_message",
                "branch_summary",
                "context_window_change",
            )
        ),
    ):
        found = pi.view(json.dumps(line).encode())
        assert isinstance(found, View)
        found.spoken().encode()


@given(
    st.binary(max_size=60)
    | st.text(max_size=30).map(lambda text: f'{{"type":"message","id":"{text}"}}'.encode("utf-8", "replace"))
)
def test_no_bytes_break_a_view(raw: bytes) -> None:
    """Whatever stands on a line."""
    assert isinstance(pi.view(raw), View)


@given(st.dictionaries(st.sampled_from(["id", "parentId", "timestamp", "cwd", "name"]), json_values))
def test_a_wrong_member_does_not_hide_the_others(members: dict[str, object]) -> None:
    """One member of a type nobody expects costs that member alone."""
    found = _view(**{**members, "type": "session_info"})
    assert found.kind == "session_info"
    if isinstance(members.get("name"), str):
        assert found.text == str(members["name"]).strip()
