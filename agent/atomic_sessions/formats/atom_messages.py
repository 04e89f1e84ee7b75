"""Entries of format 4 to the messages of a chat API, as an Atom file keeps them. Pure; the other way is
`formats.atom_history`'s.

A line that came from an Atom file holds its message in the member `atom` where its blocks alone would not give it
back byte for byte; further lines of the same message hold null there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from atomic_sessions import compose
from atomic_sessions.context import COMPACTION_PREFACE, boundary, is_boundary, transcript
from atomic_sessions.entry import Block, Entry, Image, Node, Shell, Text, ToolCall, ToolResult
from atomic_sessions.formats import pi
from atomic_sessions.formats.atom import DECODER, member

ATOM = "atom"
MARK = b',"atom":'
PART = "null"

_Said = dict[str, Any]  # JSON of any shape


def history(path: Sequence[Entry]) -> tuple[str, ...]:
    """The API history of a path, one compact JSON text a message: from the last compaction that holds, what a
    model was sent and said. Messages that came from an Atom file are given back as they were."""
    nodes = [Node(entry.id, entry.parent, entry.stamp, pi.view(entry.raw, hidden=True)) for entry in path]
    start = boundary(nodes)
    found: list[str] = []
    if start < len(nodes) and nodes[start].view.kind == "compaction" and is_boundary(nodes[start]):
        found += [raw for entry in path[:start] if _is_system(entry) for raw in written(entry.raw)]
        found.append(_text_message("user", _kept(nodes, start)))
        start += 1
    return (*found, *(raw for entry in path[start:] for raw in written(entry.raw)))


def _is_system(entry: Entry) -> bool:
    return pi.view(entry.raw).role == "system"


def _kept(nodes: Sequence[Node], place: int) -> str:
    view = nodes[place].view
    first = next((i for i in range(place) if nodes[i].id == view.target), place) if view.target else place
    parts = [part for node in nodes[first:place] for part in transcript(node)]
    return "\n\n".join((COMPACTION_PREFACE, view.text, *parts))


def written(raw: bytes) -> list[str]:
    """The API messages of a line: its original, or what its blocks say."""
    if MARK in raw:
        original = member(raw.decode("utf-8", "replace"), ATOM)
        if original == PART:
            return []
        if original is not None and _is_message(original):
            return [original]
    view = pi.view(raw, hidden=True)
    if view.role == "system" and view.kind == "message":
        return [_text_message("system", "".join(b.text for b in view.blocks if isinstance(b, Text)))]
    if not view.in_context or view.side:
        return []
    match view.role:
        case "assistant":
            return _assistant(view.blocks)
        case "tool":
            return [_tool(block) for block in view.blocks if isinstance(block, ToolResult)]
        case "":
            return []
    return _user(view.blocks)


def _is_message(original: str) -> bool:
    try:
        value = DECODER.decode(original)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _user(blocks: Iterable[Block]) -> list[str]:
    parts: list[_Said] = []
    for block in blocks:
        match block:
            case Text(text):
                parts.append({"type": "text", "text": text})
            case Image(mime, data):
                parts.append({"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}})
            case Shell(command, output):
                parts.append({"type": "text", "text": f"I ran this command:\n$ {command}\n{output}"})
            case _:
                pass
    if not parts:
        return []
    whole = parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else parts
    return [encode({"role": "user", "content": whole})]


def _assistant(blocks: Iterable[Block]) -> list[str]:
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.arguments}}
        for block in blocks
        if isinstance(block, ToolCall)
    ]
    if not text and not calls:
        return []
    said: _Said = {"role": "assistant", "content": text or None}
    return [encode(said | ({"tool_calls": calls} if calls else {}))]


def _tool(result: ToolResult) -> str:
    text = "\n".join(part.text if isinstance(part, Text) else "[image]" for part in result.content)
    return encode({"role": "tool", "tool_call_id": result.call, "content": text})


def _text_message(role: str, text: str) -> str:
    return encode({"role": role, "content": text})


def encode(value: _Said) -> str:
    return compose.line(value).decode()
