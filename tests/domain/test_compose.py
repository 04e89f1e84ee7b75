"""Format 4 lines: what they hold, and that our own reader reads them back."""

import json
import uuid

import msgspec
import pytest

from atomic_sessions import compose
from atomic_sessions.clock import parse_time
from atomic_sessions.entry import Image, Text, Thinking, ToolCall, ToolResult, Usage
from atomic_sessions.formats import pi
from atomic_sessions.formats.upgrade import read_header

AT = 1_796_043_907_321


def test_session_id_is_a_uuid7_of_its_time() -> None:
    """The id is a UUID of version 7, its first 48 bits are the milliseconds, equal input gives equal ids."""
    made = uuid.UUID(compose.session_id(AT, bytes(range(10))))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == AT
    assert str(made) == compose.session_id(AT, bytes(range(10)))


def test_header_reads_back() -> None:
    """Our own reader takes the header as format 4, unchanged, with its parent."""
    raw = compose.header("s", AT, "/work/é", project="git:host/x", parent="p")
    header = read_header(raw)
    assert (header.version, header.id, header.cwd, header.parent, header.created_at) == (
        4,
        "s",
        "/work/é",
        "p",
        AT,
    )
    assert header.raw == raw
    assert json.loads(raw)["createdAt"] == "2026-11-30T13:05:07.321Z"
    assert "parentSession" not in json.loads(compose.header("s", AT, "/"))


def test_entry_id_avoids_what_is_taken() -> None:
    """A drawn id that is taken is drawn again; after a hundred draws it is a whole UUID."""
    draws = iter([b"\x00" * 4, b"\x00" * 4, b"\x01" * 4])
    assert compose.entry_id({"00000000"}.__contains__, lambda _: next(draws)) == "01010101"
    assert uuid.UUID(compose.entry_id(lambda i: len(i) == 8, lambda n: b"\x07" * n)).version == 4


def test_assistant_reads_back() -> None:
    """Text, thinking with its signature, calls, usage, model and stop survive writing and reading."""
    blocks = (
        Thinking("hm", "sig"),
        Thinking("", "secret", redacted=True),
        Text("said"),
        ToolCall("c1", "bash", '{"command": "ls"}'),
    )
    said = compose.assistant(
        AT,
        blocks,
        provider="anthropic",
        model="m",
        usage=Usage(1, 2, 3, 4, 0.5),
        stop="toolUse",
        response_id="r",
    )
    raw = compose.message("a", "p", AT, said)
    view = pi.view(raw)
    assert view.blocks[:3] == blocks[:3]
    call = view.blocks[3]
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"command": "ls"}
    assert (view.role, view.provider, view.model, view.stop, view.usage) == (
        "assistant",
        "anthropic",
        "m",
        "toolUse",
        Usage(1, 2, 3, 4, 0.5),
    )
    assert (view.id, view.parent, view.at) == ("a", "p", AT)
    assert json.loads(raw)["message"]["api"] == "anthropic-messages"
    assert b"\n" not in raw
    assert b": " not in raw


def test_tool_result_and_user_read_back() -> None:
    """A result keeps its call, name, error mark and diff; a prompt its text and picture."""
    result = ToolResult("c1", "", (Text("no"), Image("image/png", "AA==")), is_error=True, diff="-a\n+b")
    view = pi.view(compose.message("r", None, AT, compose.tool_result(AT, result, "bash")))
    assert view.blocks == (ToolResult("c1", "bash", result.content, True, "-a\n+b"),)
    view = pi.view(compose.message("u", None, AT, compose.user(AT, [Text("hi"), Image("image/png", "AA==")])))
    assert (view.role, view.blocks) == ("user", (Text("hi"), Image("image/png", "AA==")))


@pytest.mark.parametrize(
    ("raw", "kind", "text"),
    [
        (compose.model_change("i", None, AT, "openai", "gpt"), "model_change", "gpt"),
        (compose.thinking_level_change("i", None, AT, "high"), "thinking_level_change", "high"),
        (compose.session_info("i", None, AT, "  a name "), "session_info", "a name"),
        (compose.label("i", None, AT, "x", " mark "), "label", "mark"),
    ],
)
def test_small_entries_read_back(raw: bytes, kind: str, text: str) -> None:
    """Model, level, name and label entries say what they were made of, at their time."""
    view = pi.view(raw)
    assert (view.kind, view.text, view.id, view.parent, view.at) == (kind, text, "i", None, AT)


def test_lone_surrogates_do_not_break_a_line() -> None:
    """Text that no file can hold is replaced, not refused."""
    raw = compose.message("i", None, AT, compose.user(AT, [Text("a\ud83db")]))
    assert pi.view(raw).spoken() == "a\ufffdb"


@pytest.mark.parametrize("arguments", ['{"a": ', '{"a": 1e999}', '{"a": NaN}'])
def test_arguments_that_are_no_object_are_kept(arguments: str) -> None:
    """Half a JSON of a cut stream, and numbers JSON has no word for, are kept as text under one member."""
    said = {"role": "assistant", "content": compose.content([ToolCall("c", "t", arguments)])}
    raw = compose.message("i", None, AT, said)
    call = pi.view(raw).blocks[0]
    assert isinstance(call, ToolCall)
    assert msgspec.json.decode(call.arguments) == {"arguments": arguments}


def test_times_are_iso_with_milliseconds() -> None:
    """An entry's timestamp reads back to the same millisecond."""
    assert parse_time(json.loads(compose.session_info("i", None, AT, "n"))["timestamp"]) == AT
