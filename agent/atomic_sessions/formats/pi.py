"""Lines of pi and Atomic sessions (formats 1, 2, 3, early alpha, 4) to views. Reads, never writes.

Facts: formats/atomic-sessions.md sections 3, 4, 6 and 19.
"""

import math

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from atomic_sessions.clock import parse_time
from atomic_sessions.entry import (
    Block,
    Image,
    Role,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    View,
)
from atomic_sessions.formats.lines import decode
from atomic_sessions.unreadable import UNREADABLE

NAMES = ("pi", "atomic")

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "toolResult": "tool",
    "system": "system",
    "bashExecution": "bash",
    "custom": "custom",
    "hookMessage": "custom",
    "branchSummary": "summary",
}
VERBATIM = "verbatim-lines"

NONE = Raw(b"null")


class _Cost(Struct):
    total: float = 0.0


class _Usage(Struct):
    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    cost: _Cost | None = None


class _Block(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    thinkingSignature: str = ""
    redacted: bool = False
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")
    data: str = ""
    mimeType: str = ""


class _Details(Struct):
    diff: str = ""
    strategy: str = ""


class _Message(Struct):
    role: str = ""
    content: Raw = NONE
    timestamp: float | int | str | None = None
    provider: str = ""
    model: str = ""
    usage: Raw = NONE
    stopReason: str | None = None
    errorMessage: str | None = None
    toolCallId: str = ""
    toolName: str = ""
    isError: bool = False
    details: Raw = NONE
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool = False
    excludeFromContext: bool = False
    customType: str = ""
    summary: str = ""
    display: bool = True


class _Line(Struct):
    type: str = ""
    id: str | UnsetType = UNSET
    parentId: str | UnsetType | None = UNSET
    timestamp: float | int | str | None = None
    createdAt: float | int | str | None = None
    cwd: str | None = None
    message: Raw = NONE
    provider: str = ""
    modelId: str = ""
    thinkingLevel: str = ""
    summary: str | None = None
    details: Raw = NONE
    customType: str = ""
    content: Raw = NONE
    display: bool = True
    excludeFromContext: bool = False
    targetId: str = ""
    label: str | None = None
    name: str | None = None
    leafId: str | None = None
    usage: Raw = NONE
    contextWindow: float | int | None = None
    firstKeptEntryId: str | None = None
    activeToolNames: Raw = NONE


_LINE = msgspec.json.Decoder(_Line)
_MESSAGE = msgspec.json.Decoder(_Message)
_BLOCKS: msgspec.json.Decoder[str | list[Raw] | None] = msgspec.json.Decoder(str | list[Raw] | None)
_BLOCK = msgspec.json.Decoder(_Block)
_NAMES = msgspec.json.Decoder(list[str])
_USAGE = msgspec.json.Decoder(_Usage)
_DETAILS = msgspec.json.Decoder(_Details)


def view(raw: bytes, *, hidden: bool = False) -> View:
    """What one line says. A line that cannot be read is a damaged view of kind `damaged`.

    `hidden` also reads messages that are not drawn, which a model is sent all the same.
    """
    line, damaged = decode(raw, _LINE)
    if line is None:
        return View(kind="damaged", in_context=False, damaged=True)
    identity = line.id if isinstance(line.id, str) else None
    parent = line.parentId if isinstance(line.parentId, str) else None
    at = parse_time(line.timestamp if line.timestamp is not None else line.createdAt)
    if line.type == "session":
        return View(
            "session", id=identity, at=parse_time(line.createdAt) or at, cwd=line.cwd or "", in_context=False
        )
    if line.type == "message":
        return _message(line.message, identity, parent, at, damaged)
    return _other(line, identity, parent, at, damaged, hidden)


def _message(raw: Raw, identity: str | None, parent: str | None, at: int | None, damaged: bool) -> View:
    message, _ = decode(bytes(raw), _MESSAGE)
    if message is None:
        return View("message", id=identity, parent=parent, at=at, in_context=False, damaged=True)
    role = _ROLES.get(message.role, "custom")
    blocks = _blocks(message.content)
    details = _details(message.details)
    if role == "tool":
        content = tuple(b for b in blocks if isinstance(b, Text | Image))
        blocks = (ToolResult(message.toolCallId, message.toolName, content, message.isError, details.diff),)
    elif role == "bash":
        blocks = (Shell(message.command, message.output, message.exitCode, message.cancelled),)
    elif role == "summary":
        blocks = (Text(message.summary),)
    own = parse_time(message.timestamp)
    return View(
        kind="message",
        role=role,
        id=identity,
        parent=parent,
        at=own if own is not None else at,
        blocks=blocks,
        typed=role == "user",
        text=message.customType,
        model=message.model,
        provider=message.provider,
        usage=_usage(message.usage),
        stop=message.stopReason or "",
        error=message.errorMessage or "",
        in_context=role != "system" and not message.excludeFromContext,
        damaged=damaged,
    )


def _names(raw: Raw) -> list[str] | None:
    """The names of tools; None when they are no list of such."""
    try:
        return _NAMES.decode(raw)
    except UNREADABLE:
        return None


def _other(
    line: _Line, identity: str | None, parent: str | None, at: int | None, damaged: bool, hidden: bool
) -> View:
    role: Role = ""
    blocks: tuple[Block, ...] = ()
    text, target, in_context, model = "", "", False, ""
    match line.type:
        case "model_change":
            text, model = line.modelId, line.modelId
        case "thinking_level_change":
            text = line.thinkingLevel
        case "active_tools_change":
            names = _names(line.activeToolNames)
            text, damaged = "\n".join(names or ()), damaged or names is None
        case "context_window_change":
            # JSON has numbers beyond all floats, and they are nobody's window.
            window = line.contextWindow
            text = str(int(window)) if window is not None and math.isfinite(window) else ""
        case "label":
            text, target = (line.label or "").strip(), line.targetId
        case "session_info":
            text = (line.name or "").strip()
        case "session_summary":
            text = (line.summary or "").strip()
        case "branch_summary":
            role, text, in_context = "summary", line.summary or "", bool(line.summary)
            blocks = (Text(text),) if text else ()
        case "compaction":
            role, text = "summary", line.summary or ""
            blocks = (Text(text),) if text else ()
            in_context, target = _details(line.details).strategy == VERBATIM, line.firstKeptEntryId or ""
        case "custom_message":
            role, text = "custom", line.customType
            blocks = _blocks(line.content) if line.display or hidden else ()
            in_context = not line.excludeFromContext
        case "leaf":
            target = line.leafId or ""
        case "custom":
            text = line.customType
    return View(
        kind=line.type or "unknown",
        role=role,
        id=identity,
        parent=parent,
        at=at,
        blocks=blocks,
        typed=False,
        text=text,
        target=target,
        model=model,
        provider=line.provider,
        usage=_usage(line.usage),
        in_context=in_context,
        damaged=damaged,
    )


def _blocks(raw: Raw) -> tuple[Block, ...]:
    content, _ = decode(bytes(raw), _BLOCKS)
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not isinstance(content, list):
        return ()
    found: list[Block] = []
    for item in content:
        block, _ = decode(bytes(item), _BLOCK)
        if block is None:
            continue
        match block.type:
            case "text":
                found.append(Text(block.text))
            case "thinking":
                found.append(Thinking(block.thinking, block.thinkingSignature, block.redacted))
            case "redacted_thinking":
                found.append(Thinking("", block.data, redacted=True))
            case "toolCall":
                found.append(
                    ToolCall(block.id, block.name, bytes(block.arguments).decode("utf-8", "replace"))
                )
            case "image":
                found.append(Image(block.mimeType, block.data))
    return tuple(found)


def _details(raw: Raw) -> _Details:
    details, _ = decode(bytes(raw), _DETAILS)
    return details or _Details()


def _usage(raw: Raw) -> Usage | None:
    usage, _ = decode(bytes(raw), _USAGE)
    if usage is None:
        return None
    cost = usage.cost.total if usage.cost is not None else 0.0
    return Usage(usage.input, usage.output, usage.cacheRead, usage.cacheWrite, cost)
