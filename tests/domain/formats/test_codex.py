"""What lines of Codex sessions say, and how they hang together."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions import context
from atomic_sessions.entry import Entry, Image, Node, Text, Thinking, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats import codex, codex_origin
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.html.totals import totals
from atomic_sessions.redact import publishable, withheld
from strategies import broken_files, json_values

AT = "2026-11-30T12:00:00.000Z"
NOW = 1_796_040_000_000
SID = "01a22c7e-f3ec-7c20-b047-8c8a507b4011"
FORK = "01a22c81-7de6-7882-b26e-caf0d4bd13a2"


def _raw(kind: str, payload: object, **more: object) -> bytes:
    return json.dumps({"timestamp": AT, "type": kind, "payload": payload, **more}).encode()


def _view(kind: str, payload: object) -> View:
    return codex.view(_raw(kind, payload))


def _item(**members: object) -> View:
    return _view("response_item", members)


def _message(role: str, *texts: str) -> View:
    kind = "output_text" if role == "assistant" else "input_text"
    return _item(type="message", role=role, content=[{"type": kind, "text": text} for text in texts])


def _event(kind: str, **members: object) -> View:
    return _view("event_msg", {"type": kind, **members})


def _scan(*lines: bytes, state: ScanState | None = None) -> list[tuple[Entry, View]]:
    scanner = Scanner("codex", state or ScanState(), now=NOW, stamp_of=lambda _: 0)
    return [scanner.read(line) for line in lines]


def _nodes(*lines: bytes) -> list[Node]:
    return [Node(entry.id, entry.parent, entry.stamp, view) for entry, view in _scan(*lines)]


def test_what_was_said() -> None:
    """A prompt decides and is typed; an answer decides; both are sent."""
    asked, answered = _message("user", "hello"), _message("assistant", "hi")
    assert (asked.kind, asked.role, asked.at, asked.blocks) == ("message", "user", NOW, (Text("hello"),))
    assert asked.typed
    assert (answered.role, answered.blocks) == ("assistant", (Text("hi"),))
    assert all(view.decides and view.in_context and view.id is None for view in (asked, answered))


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/p</cwd>",
        "<user_instructions>\nBe brief.",
        "# AGENTS.md instructions for /p",
        " <skill>\n<name>x</name>",
    ],
)
def test_instructions_under_the_users_name(text: str) -> None:
    """They are nobody's prompt: not typed, not counted, not published, not sent again."""
    found = _message("user", text)
    assert (found.kind, found.role, found.typed) == ("instructions", "system", False)
    assert (found.counts, found.decides, found.in_context) == (False, False, False)
    assert not publishable(found)
    assert _message("user", text, "and my question").typed


def test_what_else_is_put_in() -> None:
    """Notices of Codex are kept in the context but name and order nothing."""
    found = _message("user", "<turn_aborted>\nThe user interrupted.")
    assert (found.role, found.typed, found.in_context) == ("custom", False, True)
    assert _message("developer", "You are").role == "system"
    assert _message("system", "You are").role == "system"
    assert _message("critic", "Hm").role == "custom"


def test_pictures() -> None:
    """Data inside the line is a picture, a link stays a text, nothing stays nothing."""
    url = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    link = {"type": "input_image", "image_url": "https://x/y.png"}
    none = {"type": "input_image", "image_url": None}
    found = _item(type="message", role="user", content=[url, link, none])
    assert found.blocks == (Image("image/png", "AAAA"), Text("[image: https://x/y.png]"))
    made = _item(type="image_generation_call", id="i", result="BBBB", revised_prompt="a cat")
    assert made.blocks == (Text("a cat"), Image("image/png", "BBBB"))


def test_reasoning() -> None:
    """Its summary is shown; what is encrypted is known to be kept back and never in a view."""
    summary = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
    shown = _item(type="reasoning", summary=summary, content=None, encrypted_content="SECRET")
    assert shown.blocks == (Thinking("one\n\ntwo"),)
    kept = _item(type="reasoning", summary=[], content=None, encrypted_content="SECRET")
    assert kept.blocks == (Thinking("", redacted=True),)


@pytest.mark.parametrize(
    ("item", "call"),
    [
        ({"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}'}, '{"command":["ls"]}'),
        ({"type": "function_call", "name": "shell", "parameters": '{"a":1}'}, '{"a":1}'),
        ({"type": "function_call", "name": "shell"}, "{}"),
        ({"type": "custom_tool_call", "name": "shell", "input": "*** Begin"}, '{"input":"*** Begin"}'),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, '{"command": ["ls"]}'),
    ],
)
def test_tool_calls(item: dict[str, object], call: str) -> None:
    """Whatever they are called, they are calls with JSON arguments."""
    assert _item(**item, call_id="c1").blocks == (ToolCall("c1", "shell", call),)


def test_names_of_tools() -> None:
    """A tool of a server carries the server's name, in letters every provider takes."""
    found = _item(type="function_call", name="find", namespace="mcp__docs__", arguments="{}", call_id="c")
    assert found.blocks == (ToolCall("c", "mcp__docs__find", "{}"),)
    search = _item(type="tool_search_call", arguments={"query": "x"}, call_id="c")
    assert search.blocks == (ToolCall("c", "tool_search", '{"query": "x"}'),)
    answer = _item(type="tool_search_output", call_id="c", tools=[])
    assert answer.blocks == (ToolResult("c", "tool_search", (Text("[]"),)),)


@pytest.mark.parametrize(
    ("output", "text", "failed"),
    [
        ("plain", "plain", False),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nx", None, False),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nx", None, True),
        ("Chunk ID: a\nProcess exited with code 127\nOutput:\nx", None, True),
        ('{"output":"done","metadata":{"exit_code":0}}', "done", False),
        ('{"output":"bad","metadata":{"exit_code":2}}', "bad", True),
        ('{"answer":42}', '{"answer":42}', False),
        ('{"half', '{"half', False),
        ({"content": "no", "success": False}, "no", True),
        ({"content": [{"type": "input_text", "text": "y"}], "success": True}, "y", False),
        ([{"type": "input_text", "text": "y"}], "y", False),
        ({"type": "input_text", "text": "y"}, "y", False),
        ({"z": 1}, '{"z": 1}', False),
        (None, "", False),
    ],
)
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_tool_results(kind: str, output: object, text: str | None, *, failed: bool) -> None:
    """Every shape of output is read; a failure is seen."""
    found = _item(type=kind, call_id="c1", output=output)
    said = output if text is None else text
    assert isinstance(said, str)
    assert found.role == "tool"
    assert found.blocks == (ToolResult("c1", "", (Text(said),) if said else (), failed),)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "user_message", "message": "hello"},
        {"type": "agent_message", "message": "hi"},
        {"type": "agent_reasoning", "text": "hm"},
        {"type": "item_completed", "item": {"type": "UserMessage", "content": [{"text": "hello"}]}},
        {"type": "exec_command_end", "stdout": "x"},
    ],
)
def test_events_are_no_messages(event: dict[str, object]) -> None:
    """They say again what a response item says: shown once, published once."""
    found = _view("event_msg", event)
    assert found.kind == f"event/{event['type']}"
    assert (found.blocks, found.text, found.counts, found.in_context) == ((), "", False, False)
    assert not publishable(found)


def test_names_and_ends() -> None:
    """A thread's name names the session; an abort, an error and a roll-back are said."""
    assert _event("thread_name_updated", thread_name=" Fix ").kind == "session_info"
    assert _event("thread_name_updated", thread_name=" Fix ").text == "Fix"
    assert _event("turn_aborted", reason="interrupted").text == "interrupted"
    assert _event("error", message="boom").text == "boom"
    assert _event("thread_rolled_back", num_turns=2).text == "2 turns"
    search = _item(type="web_search_call", action={"type": "search", "query": "q"})
    assert (search.kind, search.text) == ("web_search", "q")


def test_tokens_are_counted_once() -> None:
    """The same count comes again with every news of limits."""

    def count(total: int, last: int) -> bytes:
        def tokens(n: int) -> dict[str, int]:
            return {"input_tokens": n, "cached_input_tokens": 4, "output_tokens": 1}

        info = {"total_token_usage": tokens(total), "last_token_usage": tokens(last)}
        return _raw("event_msg", {"type": "token_count", "info": info})

    nothing = _raw("event_msg", {"type": "token_count", "info": None})
    nodes = _nodes(nothing, count(10, 10), count(10, 10), count(30, 20), count(30, 20))
    assert totals(nodes).usage == Usage(22, 2, 8)


def test_models_and_folders() -> None:
    """Of a turn's settings; the provider from the session's first line."""
    meta = _raw("session_meta", {"id": SID, "cwd": "/p", "model_provider": "openai"})
    turn = _raw("turn_context", {"cwd": "/q", "model": "gpt-5", "user_instructions": "x"})
    nodes = _nodes(meta, turn)
    assert [node.view.cwd for node in nodes] == ["/p", "/q"]
    assert context.settings(nodes) == context.Settings("openai", "gpt-5")
    assert totals(nodes).models == ("gpt-5",)
    applied = {"model": "other", "model_provider_id": "local"}
    changed = _raw("event_msg", {"type": "thread_settings_applied", "thread_settings": applied})
    assert context.settings(_nodes(meta, turn, changed)) == context.Settings("local", "other")


def _history(*items: object, message: str = "") -> bytes:
    return _raw("compacted", {"message": message, "replacement_history": list(items)})


def _part(role: str, text: str) -> dict[str, object]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def test_a_compaction_starts_over() -> None:
    """With its summary and the messages it kept, without what Codex puts in anew."""
    prompt = _raw("response_item", _part("user", "old question"))
    after = _raw("response_item", _part("user", "new question"))
    kept = [_part("developer", "d"), _part("user", "<environment_context>"), _part("user", "kept question")]
    path = _nodes(prompt, _history(*kept, _part("user", "Prefix: SUM"), message="SUM"), after)
    assert context.boundary(path) == 1
    said = context.build(path, [], "go on", provider="openai")
    assert [block for message in said for block in message.blocks] == [
        Text(f"{context.COMPACTION_PREFACE}\n\n[User]: kept question\n\nPrefix: SUM"),
        Text("new question"),
        Text("go on"),
    ]
    assert path[1].view.role == "summary"
    assert publishable(path[1].view)


def test_what_is_published_of_a_compaction() -> None:
    """What was said, and nothing of the instructions that its history repeats."""
    kept = [
        _part("developer", "SECRET"),
        _part("user", "# AGENTS.md instructions SECRET"),
        _part("user", "q"),
    ]
    opaque = {"type": "compaction", "encrypted_content": "SECRET"}
    whole = _raw(
        "compacted", {"message": "SUM", "replacement_history": [*kept, opaque], "base": {"text": "SECRET"}}
    )
    published = codex.without_instructions(whole)
    assert b"SECRET" not in published
    assert codex.view(published) == codex.view(whole)
    assert codex.view(codex.without_instructions(_raw("compacted", {"message": "SUM"}))).blocks == (
        Text("SUM"),
    )
    for odd in (b"", _raw("compacted", None), _raw("compacted", {"replacement_history": 1})):
        assert codex.view(codex.without_instructions(odd)).kind == "compacted"


def test_a_compaction_of_the_oldest_files() -> None:
    """Its message alone."""
    found = _view("compacted", {"message": "SUM"})
    assert (found.blocks, found.in_context) == ((Text("SUM"),), True)


@pytest.mark.parametrize(
    "raw",
    [
        _history(_part("user", "kept"), {"type": "compaction", "encrypted_content": "SECRET"}),
        _history({"type": "compaction", "encrypted_content": "SECRET"}),
        _raw("compacted", {}),
        _raw("compacted", None),
    ],
)
def test_a_compaction_nobody_can_read(raw: bytes) -> None:
    """It does not cut off the history that is there."""
    path = _nodes(_raw("response_item", _part("user", "old")), raw)
    assert context.boundary(path) == 0
    assert "SECRET" not in repr(path)
    assert context.build(path, [], "x", provider="openai")[0].blocks == (Text("old"),)


def test_calls_and_results_are_paired() -> None:
    """Parallel calls and their results go out in the order providers demand."""
    lines = [
        _raw("response_item", _part("user", "go")),
        _raw("response_item", {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}),
        _raw("response_item", {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"}),
        _raw("response_item", {"type": "function_call_output", "call_id": "a", "output": "1"}),
        _raw("response_item", {"type": "function_call_output", "call_id": "b", "output": "2"}),
    ]
    said = context.build(_nodes(*lines), [], "next", provider="openai")
    results = [b for m in said for b in m.blocks if isinstance(b, ToolResult)]
    assert [(r.call, r.name, r.content, r.is_error) for r in results] == [
        ("a", "f", (Text("1"),), False),
        ("b", "g", (Text("2"),), False),
    ]


def test_the_oldest_shape() -> None:
    """A bare first line, bare items, states between them."""
    meta: dict[str, object] = {
        "id": SID,
        "timestamp": "2025-06-01T10:00:00Z",
        "instructions": None,
        "git": {},
    }
    found = codex.view(json.dumps(meta).encode())
    assert (found.kind, found.at) == ("session_meta", 1_748_772_000_000)
    assert codex_origin.origin([json.dumps(meta).encode()], "x.jsonl").id == SID
    assert codex.view(b'{"record_type":"state"}').kind == "state"
    said = codex.view(json.dumps(_part("user", "hello")).encode())
    assert (said.role, said.blocks) == ("user", (Text("hello"),))
    typeless = _view("response_item", {"role": "assistant", "content": [{"type": "input_text", "text": "a"}]})
    assert typeless.role == "assistant"
    seconds = codex.view(b'{"type":"event_msg","timestamp":1737400001.5,"payload":{}}')
    assert seconds.at == 1_737_400_001_500


def test_glued_lines() -> None:
    """Of two records on a line the whole one is read, and marked."""
    whole = _raw("response_item", _part("user", "hello"))
    found = codex.view(whole[:60] + whole)
    assert (found.damaged, found.blocks) == (True, (Text("hello"),))
    assert codex.view(b"").kind == "damaged"


def test_who_a_file_is() -> None:
    """The first record counts, also where a fork repeats its source's; then the name."""
    own = _raw("session_meta", {"id": FORK, "forked_from_id": SID, "cwd": "/p", "timestamp": AT})
    source = _raw("session_meta", {"id": SID, "cwd": "/q"})
    assert codex_origin.origin([own, source], f"rollout-x-{FORK}.jsonl") == codex_origin.Origin(
        FORK, "/p", NOW, SID
    )
    assert codex_origin.origin([b"damaged", source], f"rollout-x-{FORK}.jsonl").id == FORK
    assert codex_origin.origin([b"damaged", source], "x.jsonl").id == SID
    assert codex_origin.origin([_raw("session_meta", {})], f"rollout-x-{FORK}.jsonl.zst").id == FORK
    assert codex_origin.origin([b"damaged"], "x.jsonl") == codex_origin.Origin("")


def test_where_a_file_comes_from() -> None:
    """Forks name the session they leave, sub-agents the one they work for."""

    def origin(**members: object) -> tuple[str, bool]:
        found = codex_origin.origin([_raw("session_meta", {"id": FORK, **members})], "")
        return found.parent, found.internal

    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": SID, "depth": 1}}}
    assert origin(forked_from_id=SID) == (SID, False)
    assert origin(history_base={"thread_id": SID, "end_byte_offset": 9}) == (SID, False)
    assert origin(source=spawn) == (SID, True)
    assert origin(source=spawn, forked_from_id="other") == (SID, True)
    assert origin(source={"subagent": "review"}, parent_thread_id=SID) == (SID, True)
    assert origin(source="cli") == ("", False)
    assert origin(forked_from_id=FORK) == ("", False)


def test_a_log_is_one_line_of_nodes() -> None:
    """Each line below the one before, equal lines apart, times never backwards."""
    line = _raw("response_item", _part("user", "same"))
    found = [entry for entry, _ in _scan(line, line, b"damaged", b"", line)]
    assert [entry.parent for entry in found] == [None, *(entry.id for entry in found[:-1])]
    assert len({entry.id for entry in found}) == 5
    assert [entry.pos for entry in found] == list(range(5))
    assert all(a.stamp < b.stamp for a, b in itertools.pairwise(found))
    assert not any(entry.loose for entry in found)


@given(broken_files(), st.integers(0, 50))
def test_a_scan_can_stop_anywhere(content: bytes, cut: int) -> None:
    """And goes on from a small state to the same entries."""
    lines = content.split(b"\n")
    whole = _scan(*lines)
    scanner = Scanner("codex", ScanState(), now=NOW, stamp_of=lambda _: 0)
    before = [scanner.read(line) for line in lines[:cut]]
    kept = msgspec.msgpack.encode(scanner.state)
    assert len(kept) < 200
    state = msgspec.msgpack.decode(kept, type=ScanState)
    assert before + _scan(*lines[cut:], state=state) == whole


_MEMBERS = [
    "type",
    "role",
    "id",
    "call_id",
    "name",
    "namespace",
    "content",
    "summary",
    "arguments",
    "input",
    "action",
    "output",
    "tools",
    "result",
    "source",
    "info",
    "message",
    "replacement_history",
    "thread_settings",
    "thread_name",
    "timestamp",
    "subagent",
    "history_base",
    "text",
    "image_url",
]
_KINDS = st.sampled_from(
    [
        "message",
        "reasoning",
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "function_call_output",
        "web_search_call",
        "tool_search_output",
        "image_generation_call",
        "token_count",
        "thread_settings_applied",
        "thread_name_updated",
    ]
)
_PAYLOADS: st.SearchStrategy[Any] = json_values | st.builds(
    lambda kind, members: {**members, "type": kind},
    _KINDS,
    st.dictionaries(st.sampled_from(_MEMBERS), json_values | st.lists(st.dictionaries(_KINDS, json_values))),
)


@given(
    st.sampled_from([*sorted(codex.RECORDS), "", "message", "x"]) | json_values,
    _PAYLOADS,
    json_values,
)
def test_no_values_break_it(kind: object, payload: object, at: object) -> None:
    """Whatever stands where, a line has a view, and a stub of it too."""
    raw = json.dumps({"type": kind, "payload": payload, "timestamp": at}).encode()
    for line in (raw, json.dumps(payload).encode()):
        ((entry, view),) = _scan(line)
        assert codex.view(line) == view
        stub = withheld(entry)
        assert stub is None or codex.view(stub.raw).kind
        codex_origin.origin([line], "")


@given(json_values)
def test_any_json_is_a_line(value: object) -> None:
    """Also what is no object."""
    assert isinstance(codex.view(json.dumps(value).encode()), View)
