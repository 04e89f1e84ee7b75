"""The Atom file: read without ever raising, written with everything it held, its messages as entries and back."""

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions import compose
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Image, Text, Thinking, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats import atom, pi
from atomic_sessions.formats.atom import Corrupt, Document, Loaded, Missing, load, with_picks, with_session
from atomic_sessions.formats.atom_history import (
    Unpaired,
    entries,
    opening_id,
    session_id,
    turns,
    unpaired,
)
from atomic_sessions.formats.atom_messages import history
from atomic_sessions.formats.upgrade import read_header
from atomic_sessions.ids import UUID
from strategies import json_values

AT = 1_796_040_000_000
SECRET = "sk-a-secret-somebody-pasted"
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"/x"}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "You are Atom."},
    {"role": "user", "content": "read /x"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "It says 42."},
]
FILE: dict[str, Any] = {
    "version": 1,
    "savedAt": "2026-11-30T12:00:00.000Z",
    "provider": "zen",
    "model": "big-pickle",
    "effort": "high",
    "mode": "plan",
    "usageTotals": {"input": 10, "output": 5, "reasoning": 2},
    "history": HISTORY,
    "turns": [{"role": "user", "text": "read /x"}, {"role": "assistant", "text": "It says 42."}],
}


def _bytes(value: object, **how: Any) -> bytes:  # passed on
    return json.dumps(value, **how).encode()


def _compact(value: object) -> bytes:
    return _bytes(value, ensure_ascii=False, separators=(",", ":"))


def _loaded(raw: bytes) -> Document:
    found = load(raw)
    assert isinstance(found, Loaded), found
    return found.document


def _of(messages: Sequence[object], **members: object) -> Document:
    return _loaded(_bytes({**FILE, "history": messages, **members}))


def _views(document: Document) -> list[View]:
    return [pi.view(entry.raw) for entry in entries(document)]


def test_a_file() -> None:
    """Its picks, mode, time and totals are read; nothing of it is shown."""
    document = _loaded(_bytes(FILE))
    assert document.picks == Settings("zen", "big-pickle", "high")
    assert (document.mode, document.saved_at) == ("plan", AT)
    assert document.usage == Usage(10, 5)
    assert (len(document.history), len(document.turns)) == (5, 2)
    assert "42" not in repr(load(_bytes(FILE)))


def test_missing_and_least() -> None:
    """No file is missing; what may be left out is empty."""
    assert load(None) == Missing()
    least = _loaded(b'{"version":1,"history":[]}')
    assert (least.picks, least.mode, least.saved_at, least.usage) == (Settings(), "normal", 0, Usage())
    assert entries(least) == []


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "JSON"),
        (b"null", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{}", "not of version 1"),
        (b'{"version":1}', 'no "history"'),
        (b'{"version":2,"history":[]}', "not of version 1"),
        (b'{"version":"1","history":[]}', "not of version 1"),
        (b'{"version":1.0,"history":[]}', "not of version 1"),
        (b'{"version":1,"history":{}}', '"history" is no list'),
        (b'{"version":1,"history":[],"turns":7}', '"turns" is no list'),
        (b'{"version":1,"history":["hi"]}', "no message"),
        (b'{"version":1,"history":[{"role":7}]}', "no message"),
        (b'{"version":1,"history":[],"model":7}', '"model" is no text'),
        (b'{"version":1,"history":[],"savedAt":{}}', '"savedAt" is no time'),
        (b'{"version":1,"history":[],"usageTotals":[]}', '"usageTotals" is no object'),
        (b'{"version":1,"history":[]} x', "follows its end"),
        (b'{"version":1,"history":[]', "breaks off"),
        (b'{"version":1,"history":[', "JSON"),
        (b'{"version":1,"history":[],}', "no JSON object"),
        (b'{"version":1,"history":[NaN]}', "JSON"),
        (b'{"version":1,"history":[],"x":Infinity}', "JSON"),
        (b'{"version":1,"history":[],"x":01}', "breaks off"),
        (b"\xff\xfe{\x00", "UTF-8"),
        (b'{"version":1,"history":[],"x":"\xed\xa0\x80"}', "UTF-8"),
        (b'{"version":1,"history":[],"x":"a\x00b"}', "JSON"),
        (b'{"version":1,"history":' + b"[" * 100_000, "too deeply"),
        (b'{"version":1,"history":[],"x":' + b'{"a":' * 100_000, "too deeply"),
        (
            b'{"version":1,"history":[{"role":"user","content":' + b"[" * 150 + b"]" * 150 + b"}]}",
            "too deeply",
        ),
        (_bytes(FILE)[:-30], ""),
        (_bytes(FILE)[30:], ""),
        (b"\x00" * 4096, "JSON"),
    ],
)
def test_what_is_malformed_is_corrupt(raw: bytes, why: str) -> None:
    """Anything else is corrupt, with a reason that repeats nothing of the file."""
    found = load(raw.replace(b"42", SECRET.encode()))
    assert isinstance(found, Corrupt)
    assert why in found.why
    assert SECRET not in repr(found)


@given(st.binary(max_size=200))
def test_any_bytes_load(raw: bytes) -> None:
    """No bytes raise."""
    assert isinstance(load(raw), Corrupt)


@given(st.integers(0, 400), st.binary(max_size=6), st.integers(0, 6))
def test_bytes_near_a_file_load(at: int, noise: bytes, cut: int) -> None:
    """A file with bytes replaced, put in or cut away raises nothing, and what loads can be used."""
    raw = _bytes(FILE)
    found = load(raw[:at] + noise + raw[at + cut :])
    if isinstance(found, Loaded):
        assert history(entries(found.document)) == found.document.history
        atom.encode(found.document)


MESSAGES = st.one_of(
    st.sampled_from(HISTORY),
    st.builds(
        lambda role, content, more: {**more, "role": role, "content": content},
        st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "else", ""]),
        json_values
        | st.text(max_size=8)
        | st.lists(
            st.sampled_from(
                [
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
                    {"type": "tool_use", "id": "c2", "name": "ls", "input": {"n": 1.0}},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "x"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
                    {"type": "later"},
                ]
            ),
            max_size=3,
        ),
        st.dictionaries(
            st.sampled_from(["name", "tool_calls", "tool_call_id", "x", "atom", "id"]),
            json_values,
            max_size=3,
        ),
    ),
)


@given(st.lists(MESSAGES, max_size=5), st.dictionaries(st.text(max_size=4), json_values, max_size=3))
def test_round_trips(messages: list[object], more: dict[str, Any]) -> None:
    """Written again the file is the same value; entries give back exactly the history they came from, every
    unknown member included, and each is a valid line of format 4."""
    value = {**FILE, **{name: inner for name, inner in more.items() if name not in FILE}}
    value["history"] = messages
    raw = _compact(value)
    document = _loaded(raw)
    assert atom.encode(document) == raw or json.loads(atom.encode(document)) == json.loads(raw)
    lines = entries(document)
    assert history(lines) == document.history
    assert [msgspec.json.decode(line.raw)["id"] for line in lines] == [line.id for line in lines]
    assert len({line.id for line in lines}) == len(lines)
    assert all(b"\n" not in line.raw for line in lines)
    again = load(atom.encode(document))
    assert again == Loaded(document)


def test_a_pretty_file_is_the_same_session() -> None:
    """Space between tokens changes neither ids nor lines; savedAt changes no ids."""
    plain, pretty = _loaded(_compact(FILE)), _loaded(_bytes(FILE, indent=2))
    assert entries(plain) == entries(pretty)
    assert session_id(plain) == session_id(pretty)
    later = _of(HISTORY, savedAt=AT + 5000)
    assert [line.id for line in entries(later)] == [line.id for line in entries(plain)]


def test_entries_of_a_grown_file_begin_as_before() -> None:
    """Ids come from content and position: what is appended moves none, equal messages have ids of their own."""
    before, after = _of(HISTORY), _of([*HISTORY, HISTORY[1], HISTORY[1]])
    ids = [line.id for line in entries(after)]
    assert ids[: len(entries(before))] == [line.id for line in entries(before)]
    assert len(set(ids)) == len(ids)
    elsewhere = entries(_of([HISTORY[1]]))
    assert elsewhere[-1].id not in ids
    assert opening_id(before) == opening_id(after)
    assert session_id(before) != session_id(after)
    assert UUID.fullmatch(session_id(before))
    assert opening_id(_of([{"role": "user", "content": "other"}])) != opening_id(before)


def test_what_the_entries_say() -> None:
    """Model and effort, the system message out of the context, the call and its result as a pair, one chain
    that ends at savedAt."""
    lines = entries(_of(HISTORY))
    views = [pi.view(line.raw) for line in lines]
    assert [view.kind for view in views] == ["model_change", "thinking_level_change"] + ["message"] * 5
    assert [view.role for view in views[2:]] == ["system", "user", "assistant", "tool", "assistant"]
    assert (views[0].provider, views[0].model, views[1].text) == ("zen", "big-pickle", "high")
    assert not views[2].in_context
    assert views[4].blocks == (ToolCall("c1", "read", '{"path":"/x"}'),)
    assert views[5].blocks == (ToolResult("c1", "read", (Text("42"),)),)
    assert (views[6].blocks, views[6].stop) == ((Text("It says 42."),), "stop")
    assert [line.parent for line in lines] == [None, *(line.id for line in lines[:-1])]
    assert [line.stamp for line in lines] == list(range(AT - 6, AT + 1))
    assert [line.pos for line in lines] == list(range(7))
    header = read_header(compose.header(session_id(_of(HISTORY)), lines[0].stamp, "/p"))
    assert header.version == 4


def test_a_file_without_a_time() -> None:
    """The caller's time stands in for savedAt."""
    lines = entries(_of(HISTORY, savedAt=None), 5000)
    assert lines[-1].stamp == 5000


def test_blocks_of_anthropic() -> None:
    """Thinking, calls and results in blocks are read; a message of several results is several entries, which
    give it back once."""
    said = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "ls", "input": {"n": 1.0, "big": 10**400}},
                {"type": "tool_use", "id": "b", "name": "cat", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
                {"type": "text", "text": "go on"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="},
                },
            ],
        },
    ]
    document = _of(said)
    views = _views(document)[2:]
    assert [view.role for view in views] == ["user", "assistant", "tool", "tool", "user"]
    assert views[1].blocks[0] == Thinking("hm", "s")
    assert views[2].blocks == (ToolResult("a", "ls", (Text("x"),)),)
    assert views[3].blocks == (ToolResult("b", "cat", (Text("no"),), is_error=True),)
    assert views[4].blocks == (Text("go on"), Image("image/png", "QQ=="))
    assert history(entries(document)) == document.history
    assert unpaired(document) == Unpaired()


def test_numbers_beyond_measure() -> None:
    """1e999 and integers of 5000 digits stay as they are written, in the file and in arguments; lines stay JSON."""
    big = "9" * 5000
    call = '{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"x\\":1e999}"}}'
    text = (
        f'{{"version":1,"savedAt":{big},"usageTotals":{{"input":1e999,"output":{big}}},"x":-0.0,"history":'
        f'[{{"role":"assistant","content":null,"tool_calls":[{call}]}},'
        f'{{"role":"assistant","content":[{{"type":"tool_use","id":"d","name":"f","input":{{"n":1e999,"m":{big}}}}}]}}]}}'
    )
    document = _loaded(text.encode())
    assert atom.encode(document) == text.encode()
    assert (document.saved_at, document.usage) == (0, Usage())
    lines = entries(document)
    assert history(lines) == document.history
    for line in lines:
        assert json.loads(line.raw, parse_int=str)["id"] == line.id


def test_lone_surrogates() -> None:
    """Half an emoji, in a value or a name, is kept as written and never breaks a line."""
    text = r'{"version":1,"\ud83d":"\ude00","history":[{"role":"user","content":"a \ud83d b","\udc00":1}]}'
    document = _loaded(text.encode())
    assert json.loads(atom.encode(document)) == json.loads(text)
    (line,) = entries(document)
    assert history([line]) == document.history
    assert pi.view(line.raw).blocks == (Text("a � b"),)


def test_a_byte_order_mark_and_names_twice() -> None:
    """A mark before the object is passed over; of a name that comes twice the last counts, as for JavaScript."""
    twice = b'\xef\xbb\xbf{"version":2,"model":"a","history":[{"role":"user"}],"version":1,"model":"b","history":[]}'
    document = _loaded(twice)
    assert (document.picks.model, document.history) == ("b", ())
    assert json.loads(atom.encode(document)) == {"version": 1, "model": "b", "history": []}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (HISTORY, Unpaired()),
        (HISTORY[:3], Unpaired(calls=1)),
        (HISTORY[3:], Unpaired(results=1)),
        ([*HISTORY, HISTORY[3]], Unpaired(results=1)),
        ([HISTORY[3], HISTORY[2]], Unpaired(calls=1, results=1)),
        ([HISTORY[2], HISTORY[3], HISTORY[2], HISTORY[3]], Unpaired()),
    ],
)
def test_pairs_are_checked(messages: list[object], expected: Unpaired) -> None:
    """A call wants its result after it, a result its call before it; ids may come again."""
    assert unpaired(_of(messages)) == expected


def test_a_completed_turn_is_saved() -> None:
    """History and transcript grow, totals, picks, mode and time are the new ones, all else stays as it was."""
    old = _loaded(_bytes({**FILE, "theme": {"dark": 1.0}}))
    prompt = compose.message("p1", None, AT, compose.user(AT, (Text("and <now>?"),)))
    blocks = (Thinking("hm"), Text("done é"), ToolCall("c9", "ls", '{"a":1}'))
    answer = compose.message(
        "a1",
        "p1",
        AT,
        compose.assistant(AT, blocks, provider="zen", model="m", usage=Usage(), stop="toolUse"),
    )
    result = compose.message(
        "r1", "a1", AT, compose.tool_result(AT, ToolResult("c9", "", (Text("x"),)), "ls")
    )
    path = [*entries(old), *(Entry("", None, 0, AT, raw) for raw in (prompt, answer, result))]
    said = history(path)
    new = with_session(
        old, said, turns(old, said), Settings("openai", "m2", ""), Usage(20, 7, 1), "normal", AT + 1
    )
    value = json.loads(atom.encode(new))
    assert list(value) == [*FILE, "theme"]
    assert value["history"][:5] == HISTORY
    assert value["history"][5:] == [
        {"role": "user", "content": "and <now>?"},
        {
            "role": "assistant",
            "content": "done é",
            "tool_calls": [
                {"id": "c9", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c9", "content": "x"},
    ]
    assert value["turns"] == [
        *FILE["turns"],
        {"role": "user", "text": "and <now>?"},
        {"role": "assistant", "text": "done é"},
    ]
    assert value["usageTotals"] == {
        "input": 20, "output": 7, "reasoning": 2, "cacheRead": 1, "cacheWrite": 0, "cost": 0.0
    }  # fmt: skip
    assert (value["provider"], value["model"], value["effort"], value["mode"]) == (
        "openai",
        "m2",
        "",
        "normal",
    )
    assert (value["savedAt"], value["theme"]) == ("2026-11-30T12:00:00.001Z", {"dark": 1.0})
    assert load(atom.encode(new)) == Loaded(new)


def test_a_first_save_has_exactly_the_shape() -> None:
    """Without a file before it, the nine members in their order."""
    said = tuple(json.dumps(message) for message in HISTORY)
    new = with_session(None, said, turns(None, said), Settings("zen", "m"), Usage(), "normal", AT)
    value = json.loads(atom.encode(new))
    assert list(value) == list(FILE)
    assert (value["version"], value["history"], value["turns"]) == (1, HISTORY, FILE["turns"])


def test_another_conversation_takes_the_place() -> None:
    """A history that does not go on from the file's has a transcript of its own."""
    old = _loaded(_bytes(FILE))
    said = ('{"role":"user","content":"new"}',)
    assert turns(old, said) == ('{"role":"user","text":"new"}',)


def test_an_exit_saves_the_picks_alone() -> None:
    """Provider, model, effort and the time; the conversation, its totals and its mode stay."""
    new = with_picks(_loaded(_bytes(FILE)), Settings("anthropic", "c", "low"), AT + 1000)
    value = json.loads(atom.encode(new))
    changed = {"provider": "anthropic", "model": "c", "effort": "low", "savedAt": "2026-11-30T12:00:01.000Z"}
    assert value == {**FILE, **changed}
    assert json.loads(atom.encode(with_picks(None, Settings("zen", "m"), AT)))["history"] == []


def test_kept_spellings() -> None:
    """A time in milliseconds stays one, and totals keep the names this file has for them."""
    old = _of([], savedAt=AT, usageTotals={"inputTokens": 3, "completionTokens": 4, "other": "x"})
    assert (old.saved_at, old.usage) == (AT, Usage(3, 4))
    value = json.loads(
        atom.encode(with_session(old, (), (), Settings(), Usage(5, 6, cost=float("inf")), "normal", AT + 1))
    )
    assert value["savedAt"] == AT + 1
    assert value["usageTotals"] == {
        "inputTokens": 5, "completionTokens": 6, "other": "x", "cacheRead": 0, "cacheWrite": 0, "cost": 0
    }  # fmt: skip


def test_a_compaction_is_where_the_history_starts() -> None:
    """Of a compacted path the system message, the summary with what it kept, and what came after."""
    old = entries(_of(HISTORY))
    boundary = compose.entry(
        "compaction", "b1", old[-1].id, AT, summary="[User]: short", firstKeptEntryId=old[-1].id,
        tokensBefore=1, details={"strategy": "verbatim-lines"},
    )  # fmt: skip
    after = compose.message("u1", "b1", AT, compose.user(AT, (Text("next"),)))
    path = [*old, Entry("b1", old[-1].id, 0, AT, boundary), Entry("u1", "b1", 0, AT, after)]
    said = [json.loads(raw) for raw in history(path)]
    assert [message["role"] for message in said] == ["system", "user", "user"]
    assert said[1]["content"].endswith("[User]: short\n\n[Assistant]: It says 42.")
    assert said[2]["content"] == "next"


@pytest.mark.parametrize("member", [b'{"role":7}', b"7", b'"x"', b"[[[[", b"[" * 5000 + b"]" * 5000])
def test_a_false_original_is_passed_over(member: bytes) -> None:
    """A line whose `atom` member is no message says what its own message says."""
    line = compose.message("u", None, AT, compose.user(AT, (Text("hi"),)))[:-1] + b',"atom":' + member + b"}"
    said = history([Entry("u", None, 0, AT, line)])
    assert [json.loads(raw)["content"] for raw in said] in (["hi"], [])


def test_a_huge_file_is_not_looked_at() -> None:
    """Beyond the limit nothing is parsed; below it memory stays within a few times the file."""
    assert load(b" " * (atom.MAX_BYTES + 1)) == Corrupt("it is larger than 64 MiB")
    size = 4 * 1024 * 1024
    raw = _bytes({**FILE, "history": [{"role": "user", "content": "x" * 500}] * (size // 540)})
    tracemalloc.start()
    _loaded(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(raw)


@settings(max_examples=30)
@given(st.text(max_size=30))
def test_compact_changes_no_string(text: str) -> None:
    """Only space between tokens goes."""
    value = {text: [text, {"a": 1.5}]}
    assert json.loads(atom.compact(json.dumps(value, indent=3))) == value
    assert atom.compact(json.dumps(value, indent=3)) == json.dumps(value, separators=(",", ":"))
