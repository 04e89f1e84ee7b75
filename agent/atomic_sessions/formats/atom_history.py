"""The messages of an Atom file to entries of format 4, system messages and tool pairs included. Pure.

The history is that of a chat API: `{role, content, tool_calls, tool_call_id}`, with text or parts; messages in
Anthropic's blocks are read too. A message that the lines alone would not give back byte for byte goes along in
their `atom` member, so that a file that is read and written keeps every member of every message.
"""

import hashlib
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from atomic_sessions import compose
from atomic_sessions.entry import (
    Block,
    Entry,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from atomic_sessions.formats.atom import DECODER, Document, Number
from atomic_sessions.formats.atom_messages import MARK, PART, encode, written

_Said = dict[str, Any]  # JSON of any shape


class Unpaired(Struct, frozen=True):
    """Tool calls without a result, and results without their call. A saved turn leaves neither."""

    calls: int = 0
    results: int = 0


def session_id(document: Document) -> str:
    """An id for what an import makes of the file: the same file gives the same session on every machine."""
    return _uuid("session", *document.history)


def opening_id(document: Document) -> str:
    """An id that stays while the conversation grows: from all that stands before the first answer."""
    opening: list[str] = []
    for raw in document.history:
        if DECODER.decode(raw)["role"] == "assistant":
            break
        opening.append(raw)
    return _uuid("opening", *opening)


def _uuid(*seed: str) -> str:
    """A UUID of version 8, so that eight characters of it select the session as they do others."""
    value = int(_hex(seed, 32), 16)
    value = value & ~(0xF << 76) | 0x8 << 76
    return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


class Name(Struct, frozen=True):
    """What an entry was called before it went into a file, and its time (ms)."""

    id: str
    at: int


def entries(
    document: Document, fallback_at: int = 0, names: Mapping[str, Name] = MappingProxyType({})
) -> list[Entry]:
    """The session as one chain of format 4 entries: model, effort, then every message. The file knows one
    time only, `savedAt`; entries count back from it. `names` says better for some of the ids made here."""
    drafts = list(_drafts(document))
    first = max((document.saved_at or fallback_at) - len(drafts) + 1, 1)
    found: list[Entry] = []
    parent: str | None = None
    for place, draft in enumerate(drafts):
        name = names.get(draft.id, Name(draft.id, first + place))
        raw = replace(draft, id=name.id).line(parent, name.at)
        found.append(Entry(name.id, parent, place, name.at, raw))
        parent = name.id
    return found


class _Draft(Struct, frozen=True):
    """A line but for its parent and its time. `original` is the message itself, or that this is a part of one."""

    id: str
    kind: str
    members: _Said
    original: str = ""

    def line(self, parent: str | None, at: int) -> bytes:
        members = dict(self.members)
        if self.kind == "message":
            members["message"] = {**members["message"], "timestamp": at}
        raw = compose.entry(self.kind, self.id, parent, at, **members)
        return raw[:-1] + MARK + self.original.encode() + b"}" if self.original else raw


def _drafts(document: Document) -> Iterator[_Draft]:
    taken: set[str] = set()
    picks = document.picks
    if picks.provider or picks.model:
        said = {"provider": picks.provider, "modelId": picks.model}
        yield _Draft(_fresh(taken, "model", *said.values()), "model_change", said)
    if picks.effort:
        level = {"thinkingLevel": picks.effort}
        yield _Draft(_fresh(taken, "effort", picks.effort), "thinking_level_change", level)
    names: dict[str, str] = {}
    previous = ""
    for raw in document.history:
        value = DECODER.decode(raw)
        for part, (kind, members) in enumerate(_read(value, names)):
            identity = _fresh(taken, "message", previous, str(part), raw)
            original = PART if part else ""
            draft = _Draft(identity, kind, members)
            if not part and written(draft.line(None, 0)) != [raw]:
                original = raw
            yield _Draft(identity, kind, members, original)
            previous = identity


def _fresh(taken: set[str], *seed: str) -> str:
    """Eight hex characters from content and position alone; more when others have them."""
    length = 8
    while (identity := _hex(seed, length)) in taken:
        length += 4
    taken.add(identity)
    return identity


def _hex(seed: Iterable[str], length: int) -> str:
    hashed = hashlib.sha256()
    for part in seed:
        encoded = part.encode("utf-8", "surrogatepass")
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed.hexdigest()[:length]


def _read(value: _Said, names: dict[str, str]) -> list[tuple[str, _Said]]:
    """What lines one message becomes, at least one; `names` are the tools that were called, by call."""
    role, content = value["role"], value.get("content")
    match role:
        case "system" | "developer":
            return [_message({"role": "system", "content": compose.content(_blocks(content))})]
        case "user":
            results = [_result(item, names) for item in _of_type(content, "tool_result")]
            blocks = _blocks(content)
            if results and not blocks:
                return results
            return [*results, _message(compose.user(0, blocks))]
        case "assistant":
            return [_message(_answer(value, names))]
        case "tool" | "function":
            call = _str(value.get("tool_call_id"))
            said = ToolResult(call, "", _content(content))
            return [_message(compose.tool_result(0, said, _str(value.get("name")) or names.get(call, "")))]
    return [("custom", {"customType": f"atom/{role[:40]}"})]


def _message(said: _Said) -> tuple[str, _Said]:
    return "message", {"message": said}


def _answer(value: _Said, names: dict[str, str]) -> _Said:
    blocks: list[Block] = []
    thought = _str(value.get("reasoning_content")) or _str(value.get("reasoning"))
    if thought:
        blocks.append(Thinking(thought))
    blocks += _blocks(value.get("content"))
    for item in _dicts(value.get("tool_calls")):
        function = item.get("function")
        called = function if isinstance(function, dict) else item
        arguments = _sound(_str(called.get("arguments")))
        blocks.append(ToolCall(_str(item.get("id")), _str(called.get("name")), arguments))
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    names.update((call.id, call.name) for call in calls)
    stop = "toolUse" if calls else "stop"
    said = compose.assistant(0, blocks, provider="", model="", usage=Usage(), stop=stop)
    # The file does not say who gave this answer, nor what it cost.
    return {name: said[name] for name in ("role", "content", "stopReason", "timestamp")}


def _result(item: _Said, names: dict[str, str]) -> tuple[str, _Said]:
    call = _str(item.get("tool_use_id"))
    said = ToolResult(call, "", _content(item.get("content")), item.get("is_error") is True)
    return _message(compose.tool_result(0, said, names.get(call, "")))


def _blocks(content: object) -> list[Block]:
    """Text, pictures, thinking and calls of a message's content."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    found: list[Block] = []
    for item in _dicts(content):
        match item.get("type"):
            case "text" | "input_text" | "output_text":
                found.append(Text(_str(item.get("text"))))
            case "image_url":
                address = item.get("image_url")
                found += _picture(_str(address.get("url") if isinstance(address, dict) else address))
            case "image":
                source = item.get("source")
                if isinstance(source, dict) and source.get("type") == "base64":
                    found.append(Image(_str(source.get("media_type")), _str(source.get("data"))))
            case "thinking":
                found.append(Thinking(_str(item.get("thinking")), _str(item.get("signature"))))
            case "redacted_thinking":
                found.append(Thinking("", _str(item.get("data")), redacted=True))
            case "tool_use":
                found.append(
                    ToolCall(_str(item.get("id")), _str(item.get("name")), _sound(_json(item.get("input"))))
                )
            case _:
                pass
    return found


def _content(content: object) -> tuple[Text | Image, ...]:
    return tuple(block for block in _blocks(content) if isinstance(block, Text | Image))


def _picture(url: str) -> list[Image]:
    head, comma, rest = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return []
    return [Image(head[len("data:") : -len(";base64")], rest)]


def _of_type(content: object, kind: str) -> list[_Said]:
    return [item for item in _dicts(content) if item.get("type") == kind]


def _dicts(value: object) -> list[_Said]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _sound(arguments: str) -> str:
    """Arguments whose numbers a line can hold; what is beyond them, as 1e999, goes along as text."""
    try:
        json.loads(arguments or "{}", parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return json.dumps({"arguments": arguments})
    return arguments or "{}"


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(text)
    return value


def _json(value: object) -> str:
    """JSON text of a decoded value, its numbers as they were written."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(name)}:{_json(inner)}' for name, inner in value.items())}}}"
    return json.dumps(value)


def unpaired(document: Document) -> Unpaired:
    """Whether every tool call has its result after it and every result its call before it."""
    waiting: dict[str, int] = {}
    orphans = 0
    for raw in document.history:
        value = DECODER.decode(raw)
        content = value.get("content")
        called = [_str(item.get("id")) for item in _dicts(value.get("tool_calls"))]
        called += [_str(item.get("id")) for item in _of_type(content, "tool_use")]
        for call in called:
            waiting[call] = waiting.get(call, 0) + 1
        answered = [_str(item.get("tool_use_id")) for item in _of_type(content, "tool_result")]
        if value["role"] == "tool":
            answered.append(_str(value.get("tool_call_id")))
        for call in answered:
            if waiting.get(call, 0):
                waiting[call] -= 1
            else:
                orphans += 1
    return Unpaired(sum(waiting.values()), orphans)


def turns(document: Document | None, said: Sequence[str]) -> tuple[str, ...]:
    """The display transcript of a history: what people read, `{role, text}` each. What the file showed already
    stays when the conversation goes on from there."""
    before = document.history if document is not None else ()
    goes_on = len(before) > 0 and tuple(said[: len(before)]) == before
    found = list(document.turns) if document is not None and goes_on else []
    for raw in said[len(before) if goes_on else 0 :]:
        value = DECODER.decode(raw)
        text = "".join(block.text for block in _blocks(value.get("content")) if isinstance(block, Text))
        if value["role"] in {"user", "assistant"} and text:
            found.append(encode({"role": value["role"], "text": text}))
    return tuple(found)
