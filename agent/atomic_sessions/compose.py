"""Lines of format 4: header, messages, model and level changes, names, labels. Writes, never reads.

Pure: time, ids and randomness are arguments. What a line says is for ever, since entries are immutable;
whoever reads them is `formats.pi`. Facts: formats/atomic-sessions.md sections 3 to 6.
"""

import json
import math
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from atomic_sessions.clock import iso
from atomic_sessions.entry import Block, Image, Text, Thinking, ToolCall, ToolResult, Usage
from atomic_sessions.formats.lines import replace_surrogates

VERSION = 4
ID_TRIES = 100
APIS = {"anthropic": "anthropic-messages"}
OTHER_API = "openai-completions"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def session_id(now: int, randomness: bytes) -> str:
    """A UUIDv7 of this millisecond from ten random bytes."""
    value = (now & (1 << 48) - 1) << 80 | int.from_bytes(randomness[:10], "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def entry_id(taken: Callable[[str], bool], randomness: Callable[[int], bytes]) -> str:
    """Eight hex characters no entry of the session has; a whole UUID when a hundred draws are taken."""
    for _ in range(ID_TRIES):
        drawn = randomness(4).hex()
        if not taken(drawn):
            return drawn
    return str(uuid.UUID(bytes=randomness(16), version=4))


def line(value: dict[str, Any]) -> bytes:  # JSON of any shape
    """Compact JSON on one line; lone surrogates, which no file can hold, become U+FFFD."""
    try:
        return _compact(value)
    except (UnicodeEncodeError, RecursionError):
        return _compact(replace_surrogates(value))


def _compact(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def header(session: str, at: int, cwd: str, *, project: str = "", parent: str = "") -> bytes:
    """The first line of a session."""
    parts: dict[str, Any] = {
        "type": "session",
        "version": VERSION,
        "id": session,
        "createdAt": iso(at),
        "cwd": cwd,
    }
    if project:
        parts["project"] = project
    if parent:
        parts["parentSession"] = parent
    return line(parts)


def entry(kind: str, identity: str, parent: str | None, at: int, **fields: object) -> bytes:
    """Any tree entry: its place first, then what its kind adds."""
    return line({"type": kind, "id": identity, "parentId": parent, "timestamp": iso(at), **fields})


def message(identity: str, parent: str | None, at: int, said: dict[str, Any]) -> bytes:
    """A `message` entry."""
    return entry("message", identity, parent, at, message=said)


def model_change(identity: str, parent: str | None, at: int, provider: str, model: str) -> bytes:
    """The model that answers from here on."""
    return entry("model_change", identity, parent, at, provider=provider, modelId=model)


def thinking_level_change(identity: str, parent: str | None, at: int, level: str) -> bytes:
    """The effort that holds from here on."""
    return entry("thinking_level_change", identity, parent, at, thinkingLevel=level)


def session_info(identity: str, parent: str | None, at: int, name: str) -> bytes:
    """The session's name; an empty one clears it."""
    return entry("session_info", identity, parent, at, name=name.strip())


def active_tools_change(identity: str, parent: str | None, at: int, names: Iterable[str]) -> bytes:
    """The tools that are on from here on (B19)."""
    return entry("active_tools_change", identity, parent, at, activeToolNames=list(names))


def label(identity: str, parent: str | None, at: int, target: str, text: str) -> bytes:
    """A bookmark on an entry; an empty text clears it."""
    return entry("label", identity, parent, at, targetId=target, label=text.strip())


def custom_message(identity: str, parent: str | None, at: int, kind: str, blocks: Iterable[Block]) -> bytes:
    """A message a program put in, which the model reads as the user's."""
    return entry(
        "custom_message", identity, parent, at, customType=kind, content=content(blocks), display=True
    )


def user(at: int, blocks: Iterable[Block]) -> dict[str, Any]:  # JSON
    """What a person said."""
    return {"role": "user", "content": content(blocks), "timestamp": at}


def assistant(
    at: int,
    blocks: Iterable[Block],
    *,
    provider: str,
    model: str,
    usage: Usage,
    stop: str,
    response_id: str = "",
    answered_by: str = "",
) -> dict[str, Any]:  # JSON
    """A model's answer. `stop` is one of format 4: stop, length, toolUse, error, aborted; `answered_by` the
    model that the provider names, which may be a dated one."""
    said: dict[str, Any] = {
        "role": "assistant",
        "content": content(blocks),
        "api": APIS.get(provider, OTHER_API),
        "provider": provider,
        "model": model,
        "usage": _usage(usage),
        "stopReason": stop,
        "timestamp": at,
    }
    if answered_by and answered_by != model:
        said["responseModel"] = answered_by
    if response_id:
        said["responseId"] = response_id
    return said


def tool_result(at: int, result: ToolResult, name: str) -> dict[str, Any]:  # JSON
    """What a tool answered; `name` is the tool's, which not every agent repeats in the result."""
    said: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": result.call,
        "toolName": name,
        "content": content(result.content),
        "isError": result.is_error,
        "timestamp": at,
    }
    if result.diff:
        said["details"] = {"diff": result.diff}
    return said


def content(blocks: Iterable[Block]) -> list[dict[str, Any]]:  # JSON
    """Blocks as a message holds them; kinds no message can hold are left out."""
    found: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case Text(text):
                found.append({"type": "text", "text": text})
            case Image(mime, data):
                found.append({"type": "image", "data": data, "mimeType": mime})
            case Thinking():
                found.append(_thinking(block))
            case ToolCall(identity, name, arguments):
                found.append(
                    {"type": "toolCall", "id": identity, "name": name, "arguments": _object(arguments)}
                )
            case _:
                pass
    return found


def _thinking(block: Thinking) -> dict[str, Any]:  # JSON
    said: dict[str, Any] = {"type": "thinking", "thinking": block.text}
    if block.signature:
        said["thinkingSignature"] = block.signature
    if block.redacted:
        said["redacted"] = True
    return said


def _object(arguments: str) -> Any:  # JSON of any shape
    """Arguments as the value they spell; text that is no JSON object is kept under one member."""
    try:
        found = json.loads(arguments or "{}", parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}


def _finite(text: str) -> float:
    """ValueError for what Python reads and JSON has no word for: 1e999, NaN."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not a JSON number")
    return value


def _usage(usage: Usage) -> dict[str, Any]:  # JSON
    total = usage.input + usage.output + usage.cache_read + usage.cache_write
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": total,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": usage.cost},
    }
