"""What stands beside an Atom file, and what an import makes of one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from atomic_sessions import compose
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Text, Thinking, ToolCall, ToolResult, Usage
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats import atom_import, pi
from atomic_sessions.formats.atom import Document
from atomic_sessions.formats.atom_history import entries
from atomic_sessions.formats.atom_lines import kept, lines
from atomic_sessions.formats.atom_messages import history
from atomic_sessions.formats.upgrade import read_header

NOW = 1_796_043_907_321


def _line(number: int, kind: str, parent: str | None) -> Entry:
    """One line of a conversation."""
    identity, at = f"e{number}", NOW + number
    match kind:
        case "user":
            raw = compose.message(identity, parent, at, compose.user(at, [Text(f"prompt {number}")]))
        case "answer":
            said = compose.assistant(
                at, [Thinking("hm"), Text("yes")], provider="p", model="m", usage=Usage(1, 2, 3, 4, 0.5), stop="stop"
            )  # fmt: skip
            raw = compose.message(identity, parent, at, said)
        case "call":
            call = ToolCall(f"c{number}", "edit", '{"path":"x"}')
            said = compose.assistant(at, [call], provider="p", model="m2", usage=Usage(7), stop="toolUse")
            raw = compose.message(identity, parent, at, said)
        case "result":
            result = ToolResult(f"c{number - 1}", "edit", (Text("done"),), is_error=True, diff="+x")
            raw = compose.message(identity, parent, at, compose.tool_result(at, result, "edit"))
        case "failed":
            said = compose.assistant(at, [], provider="p", model="m", usage=Usage(), stop="error")
            raw = compose.message(identity, parent, at, said | {"errorMessage": "overloaded"})
        case "model":
            raw = compose.model_change(identity, parent, at, "p", f"m{number}")
        case "inert":
            raw = compose.entry("compaction", identity, parent, at, summary="old prose")
        case _:
            raw = compose.session_info(identity, parent, at, f"name {number}")
    return Entry(identity, parent, number, at, raw)


def _chain(kinds: list[str]) -> list[Entry]:
    found: list[Entry] = []
    for number, kind in enumerate(kinds):
        found.append(_line(number, kind, found[-1].id if found else None))
    return found


KINDS = st.lists(
    st.sampled_from(["user", "answer", "call", "result", "failed", "model", "inert", "name"]), max_size=12
)


@given(KINDS)
def test_a_path_comes_back(kinds: list[str]) -> None:
    """Ids, parents, times, words, who answered and what it used; and kept again, it is the same."""
    path = _chain(kinds)
    said = history(path)
    beside = kept(path, said)
    document = Document({}, said, picks=Settings("other", "other", "low"), saved_at=NOW + 99)
    back = lines(document, beside)
    if not beside:
        return
    assert [(e.id, e.parent, e.pos, e.stamp) for e in back] == [
        (e.id, e.parent, e.pos, e.stamp) for e in path
    ]
    for one, other in zip(path, back, strict=True):
        before, after = pi.view(one.raw, hidden=True), pi.view(other.raw, hidden=True)
        blocks = tuple(block for block in before.blocks if not isinstance(block, Thinking))
        assert replace(before, blocks=blocks) == replace(
            after, blocks=tuple(block for block in after.blocks if not isinstance(block, Thinking))
        )
    assert history(back) == said
    again = lines(document, kept(back, said))
    assert [json.loads(one.raw) for one in again] == [json.loads(one.raw) for one in back]


@given(KINDS, KINDS)
def test_another_program_went_on(kinds: list[str], more: list[str]) -> None:
    """What is known of the part before is put back; the rest is what the file alone says, and no message is lost."""
    path = _chain([*kinds, "user"])
    longer = _chain([*kinds, "user", *more])
    said = history(longer)
    back = lines(Document({}, said, saved_at=NOW), kept(path, history(path)))
    assert history(back) == said
    assert [e.id for e in back][: len(path)] == [e.id for e in path]
    assert len({e.id for e in back}) == len(back)


def test_a_compaction_takes_the_place_of_what_was_before() -> None:
    """Its own id stays, and those of what the system said and of what follows; a name outlives it; an earlier one is
    gone with what it stood for. A second file made from the first says the same."""
    path: list[Entry] = []

    def put(identity: str, kind: str, **more: Any) -> None:
        parent = path[-1].id if path else None
        raw = compose.entry(kind, identity, parent, NOW, **more)
        path.append(Entry(identity, parent, len(path), NOW + len(path), raw))

    def say(identity: str, role: str) -> None:
        put(identity, "message", message={"role": role, "content": compose.content([Text(identity)])})

    verbatim = {"details": {"strategy": "verbatim-lines"}, "tokensBefore": 1}
    for identity, role in (("s", "system"), ("u1", "user"), ("a1", "assistant")):
        say(identity, role)
    put("c1", "compaction", summary="one", firstKeptEntryId="u1", **verbatim)
    say("u2", "user")
    put("n", "session_info", name="named")
    say("a2", "assistant")
    put("c2", "compaction", summary="two", firstKeptEntryId="u2", **verbatim)
    say("u3", "user")
    say("a3", "assistant")
    said = history(path)
    assert [json.loads(one)["role"] for one in said] == ["system", "user", "user", "assistant"]
    back = lines(Document({}, said, saved_at=NOW), kept(path, said))
    assert [one.id for one in back] == ["s", "n", "c2", "u3", "a3"]
    assert history(back) == said
    assert [one.id for one in lines(Document({}, said, saved_at=NOW), kept(back, said))] == [
        e.id for e in back
    ]


def test_what_is_known_of_another_conversation() -> None:
    """It changes no word of the one that is there."""
    beside = kept(_chain(["user", "answer", "name"]), history(_chain(["user", "answer", "name"])))
    said = ('{"role":"user","content":"else"}', '{"role":"assistant","content":"ok"}')
    document = Document({}, said, saved_at=NOW)
    assert [e.raw for e in lines(document, beside)] == [e.raw for e in entries(document)]


def _file(**more: Any) -> bytes:
    said = [{"role": "user", "content": "hello", "name": "bob"}, {"role": "assistant", "content": "hi"}]
    return json.dumps({"version": 1, "history": said, **more}, indent=1).encode()


def test_imported() -> None:
    """A session of the folder it is imported in, whose id is the conversation's and whose lines are chained."""
    raw = _file(savedAt="2026-11-30T13:05:07.321Z", provider="zen", model="big")
    facts, found = atom_import.session(raw, "/p", "path:/p", NOW * 2)
    assert (facts.agent, facts.cwd, facts.project, facts.scope) == ("atomic", "/p", "path:/p", "")
    header = read_header(facts.header)
    assert (header.id, header.cwd, header.created_at) == (facts.id, "/p", facts.created_at)
    assert [pi.view(entry.raw).kind for entry in found] == ["model_change", "message", "message"]
    assert [entry.parent for entry in found] == [None, found[0].id, found[1].id]
    assert history(found)[0] == '{"role":"user","content":"hello","name":"bob"}'
    assert atom_import.session(raw, "/q", "path:/q", NOW * 2)[0].id == facts.id


@pytest.mark.parametrize("saved", [None, "2999-01-01T00:00:00.000Z", NOW * 9])
def test_a_time_from_the_future_is_not_believed(saved: object) -> None:
    """Nothing of it is later than now, so it is not the newest session for ever."""
    facts, found = atom_import.session(_file(savedAt=saved), "", "", NOW)
    assert facts.created_at == NOW
    assert [entry.stamp for entry in found] == [NOW - 1, NOW]


@pytest.mark.parametrize("raw", [b"", b"{", b'{"type":"session","id":"x"}\n', b'{"version":1,"history":[]}'])
def test_no_atom_file(raw: bytes) -> None:
    """A sentence; and other files are told apart from it."""
    assert not atom_import.is_atom(raw) or b"[]" in raw
    with pytest.raises(BadSessionFileError):
        atom_import.session(raw, "", "", NOW)
