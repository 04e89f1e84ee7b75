"""Lines of Claude Code sessions to views. Reads, never writes.

Facts: formats/native-agents.md sections 1 and 7.2 (1.0.24 to 2.1.332).
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from atomic_sessions.clock import parse_time
from atomic_sessions.entry import Block, Image, Role, Text, Thinking, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats.lines import decode
from atomic_sessions.unreadable import UNREADABLE

NAMES = ("claude-code",)

_INJECTED = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<system-reminder>",
    "<bash-",
    "Caveat: The messages below",
)

NONE = Raw(b"null")


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class _Source(Struct, gc=False):
    type: str = ""
    media_type: str = ""
    data: str = ""


class _Block(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: "str | list[_Block] | None" = None
    is_error: bool | None = None
    source: _Source | None = None


class _Message(Struct):
    id: str = ""
    role: str = ""
    model: str = ""
    content: str | list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Line(Struct):
    type: str = ""
    subtype: str = ""
    uuid: str | None = None
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    timestamp: str | int | None = None
    cwd: str | None = None
    isSidechain: bool = False
    isMeta: bool = False
    isCompactSummary: bool = False
    isApiErrorMessage: bool = False
    message: _Message | None = None
    content: Any = None  # of any shape; a system line's text
    summary: str = ""
    customTitle: str = ""
    aiTitle: str = ""
    title: str = ""
    agentName: str = ""
    leafUuid: str | None = None


# The same with inner values of any shape, each read by itself, so that one of a wrong type costs no more
# than itself.
class _LooseBlock(_Block):
    content: Raw = NONE  # type: ignore[assignment]
    source: Raw = NONE  # type: ignore[assignment]


class _LooseMessage(_Message):
    content: Raw = NONE  # type: ignore[assignment]
    usage: Raw = NONE  # type: ignore[assignment]


class _LooseLine(_Line):
    message: Raw = NONE  # type: ignore[assignment]


_LINE = msgspec.json.Decoder(_Line)
_LOOSE_LINE = msgspec.json.Decoder(_LooseLine)
_LOOSE_MESSAGE = msgspec.json.Decoder(_LooseMessage)
_LOOSE_BLOCK = msgspec.json.Decoder(_LooseBlock)
_CONTENT: msgspec.json.Decoder[str | list[Raw] | None] = msgspec.json.Decoder(str | list[Raw] | None)
_USAGE = msgspec.json.Decoder(_Usage)
_SOURCE = msgspec.json.Decoder(_Source)


def _read(raw: bytes) -> tuple[_Line | None, bool]:
    """A line's members and whether it was damaged; in one pass where every member has its usual type."""
    try:
        return _LINE.decode(raw), False
    except UNREADABLE:
        pass
    line, damaged = decode(raw, _LOOSE_LINE)
    if line is None:
        return None, True
    return msgspec.structs.replace(line, message=_loose_message(line.message)), damaged


def _loose_message(raw: Raw) -> _Message | None:
    message, _ = decode(bytes(raw), _LOOSE_MESSAGE)
    if message is None:
        return None
    usage, _ = decode(bytes(message.usage), _USAGE)
    return msgspec.structs.replace(message, content=_loose_content(message.content), usage=usage)


def _loose_content(raw: Raw) -> str | list[_Block] | None:
    content, _ = decode(bytes(raw), _CONTENT)
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    found: list[_Block] = []
    for item in content:
        block, _ = decode(bytes(item), _LOOSE_BLOCK)
        if block is not None:
            source, _ = decode(bytes(block.source), _SOURCE)
            found.append(msgspec.structs.replace(block, content=_loose_content(block.content), source=source))
    return found


def view(raw: bytes) -> View:
    """What one line says. `side` marks the records of an inline sub-agent."""
    line, damaged = _read(raw)
    if line is None:
        return View(kind="damaged", in_context=False, damaged=True)
    at = parse_time(line.timestamp)
    parent = line.parentUuid or line.logicalParentUuid
    if line.type in {"user", "assistant"}:
        return _message(line, at, parent, damaged)
    kind = line.type or "unknown"
    text = ""
    match kind:
        case "custom-title":
            kind, text = "session_info", line.customTitle or line.title
        case "ai-title" | "agent-name" | "summary":
            kind, text = "title", line.aiTitle or line.title or line.agentName or line.summary
        case "system":
            kind = f"system/{line.subtype}" if line.subtype else "system"
            text = line.content if isinstance(line.content, str) else ""
    return View(
        kind=kind,
        id=line.uuid,
        parent=parent,
        at=at,
        typed=False,
        text=text.strip(),
        target=line.leafUuid or "",
        cwd=line.cwd or "",
        in_context=False,
        side=line.isSidechain,
        damaged=damaged,
    )


def _message(line: _Line, at: int | None, parent: str | None, damaged: bool) -> View:
    message = line.message
    if message is None:
        return View("message", id=line.uuid, parent=parent, at=at, in_context=False, damaged=True)
    blocks = _blocks(message.content)
    role: Role = "assistant" if line.type == "assistant" else "user"
    if role == "user" and any(isinstance(b, ToolResult) for b in blocks):
        role = "tool"
    spoken = blocks[0].text if blocks and isinstance(blocks[0], Text) else ""
    typed = role == "user" and not line.isMeta and not line.isCompactSummary
    typed = typed and not spoken.lstrip().startswith(_INJECTED)
    if role == "user" and line.isCompactSummary:
        role = "summary"
    elif role == "user" and not typed:
        role = "custom"
    return View(
        kind="message",
        role=role,
        id=line.uuid,
        parent=parent,
        at=at,
        blocks=blocks,
        typed=typed,
        model=message.model,
        provider="anthropic" if message.model else "",
        usage=_usage(message.usage),
        stop=message.stop_reason or "",
        error=spoken if line.isApiErrorMessage else "",
        cwd=line.cwd or "",
        in_context=not line.isApiErrorMessage and message.model != "<synthetic>",
        side=line.isSidechain,
        group=message.id if role == "assistant" else "",
        damaged=damaged,
    )


def _blocks(content: str | list[_Block] | None) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    found: list[Block] = []
    for block in content or ():
        match block.type:
            case "text":
                found.append(Text(block.text))
            case "thinking":
                found.append(Thinking(block.thinking, block.signature))
            case "redacted_thinking":
                found.append(Thinking("", block.data, redacted=True))
            case "tool_use" | "server_tool_use":
                found.append(ToolCall(block.id, block.name, bytes(block.input).decode("utf-8", "replace")))
            case "tool_result" | "web_search_tool_result":
                inner = tuple(b for b in _blocks(block.content) if isinstance(b, Text | Image))
                found.append(ToolResult(block.tool_use_id, "", inner, bool(block.is_error)))
            case "image" if block.source is not None:
                found.append(Image(block.source.media_type, block.source.data))
    return tuple(found)


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
    )
