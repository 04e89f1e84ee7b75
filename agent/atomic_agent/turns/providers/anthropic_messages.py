"""Anthropic messages through the `anthropic` library. Imported when a turn starts.

Knows nothing of sessions; retries are `failures.retrying`'s, visible ones.
"""

import json
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2  # the library's transport; its errors come through in mid-stream

from atomic_agent.turns.providers.failures import Refused, retrying
from atomic_agent.turns.providers.port import (
    CONNECT_SECONDS,
    MAX_TOKENS,
    SILENCE_SECONDS,
    Done,
    Event,
    Request,
    TextDelta,
    ThinkingDelta,
)
from atomic_sessions.entry import Block, Image, Text, Thinking, ToolCall, ToolResult, Usage
from atomic_sessions.pairing import ContextMessage, alternating

if TYPE_CHECKING:
    from anthropic.types import RawMessageStreamEvent

# ANTHROPIC_LOG=debug would print whole requests (A6).
logging.getLogger("anthropic").setLevel(logging.CRITICAL)

STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "refusal": "error",
}
EFFORTS = {"minimal": "low"}
MID_STREAM = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500, "authentication_error": 401}
NO_LONGER = "Was used earlier in this conversation and is not available now."


def stream(request: Request) -> Iterator[Event]:
    """One answer, as it comes."""
    return retrying(request, lambda: _attempt(request))


def _attempt(request: Request) -> Iterator[Event]:
    at = request.endpoint
    client = anthropic.Anthropic(
        api_key=at.key,
        base_url=at.url,
        max_retries=0,
        timeout=anthropic.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
    )
    thinking, output_config = _effort(request.effort)
    tools, tool_choice = _tools(request)
    history: Any = messages(request.messages)  # a union of TypedDicts
    answer = _Answer(request.model)
    try:
        with (
            client,
            client.messages.create(
                model=request.model,
                max_tokens=MAX_TOKENS,
                messages=history,
                stream=True,
                thinking=thinking,
                output_config=output_config,
                tools=tools,
                tool_choice=tool_choice,
            ) as events,
        ):
            html = "html" in events.response.headers.get("content-type", "")
            for event in events:
                yield from answer.take(event)
    except anthropic.APIStatusError as error:
        raise _refused(error) from None
    except (anthropic.APIError, httpx2.HTTPError, ValueError):
        # ValueError: what came was no JSON.
        raise Refused(0) from None
    if not answer.ended:
        raise Refused(200 if html else 0, html=html)
    yield answer.done()


def _effort(effort: str) -> tuple[Any, Any]:  # TypedDicts of the library
    if not effort:
        return anthropic.omit, anthropic.omit
    if effort == "off":
        return {"type": "disabled"}, anthropic.omit
    return {"type": "adaptive"}, {"effort": EFFORTS.get(effort, effort)}


def _tools(request: Request) -> tuple[Any, Any]:  # TypedDicts of the library
    """The provider refuses calls in the history of a request that offers no tools."""
    used = [b.name for m in request.messages for b in m.blocks if isinstance(b, ToolCall)]
    if not used:
        return anthropic.omit, anthropic.omit
    names = dict.fromkeys(tool_name(name) for name in used)
    tools = [{"name": n, "description": NO_LONGER, "input_schema": {"type": "object"}} for n in names]
    return tools, {"type": "none"}


def _refused(error: "anthropic.APIStatusError") -> Refused:
    headers = error.response.headers
    kind = _kind(error.body)
    # An error event in mid-stream carries the 200 of its response.
    status = error.status_code if error.status_code >= 400 else MID_STREAM.get(kind or "", 500)
    html = "html" in headers.get("content-type", "") and 400 <= status < 500
    return Refused(status, after=headers.get("retry-after", ""), code=kind, html=html)


def _kind(body: object) -> str | None:
    found = body.get("error") if isinstance(body, dict) else None
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else None


class _Answer:
    """An answer as it grows."""

    def __init__(self, model: str) -> None:
        self.ended = False
        self._model = model
        self._id = ""
        self._stop = ""
        self._usage = Usage()
        self._blocks: dict[int, dict[str, str]] = {}

    def take(self, event: "RawMessageStreamEvent") -> Iterator[Event]:
        match event.type:
            case "message_start":
                self._id, self._model = event.message.id, event.message.model or self._model
                used = event.message.usage
                self._usage = Usage(
                    used.input_tokens,
                    used.output_tokens,
                    used.cache_read_input_tokens or 0,
                    used.cache_creation_input_tokens or 0,
                )
            case "content_block_start":
                self._blocks[event.index] = {
                    name: value
                    for name in ("type", "id", "name", "data", "text", "thinking", "signature")
                    if isinstance(value := getattr(event.content_block, name, None), str)
                }
            case "content_block_delta":
                yield from self._grow(self._blocks.setdefault(event.index, {}), event.delta)
            case "message_delta":
                self._stop = event.delta.stop_reason or self._stop
                was = self._usage
                self._usage = Usage(was.input, event.usage.output_tokens, was.cache_read, was.cache_write)
            case "message_stop":
                self.ended = True
            case _:
                pass

    @staticmethod
    def _grow(block: dict[str, str], delta: Any) -> Iterator[Event]:  # one of the library's delta classes
        match delta.type:
            case "text_delta":
                block["text"] = block.get("text", "") + delta.text
                yield TextDelta(delta.text)
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta.thinking
                yield ThinkingDelta(delta.thinking)
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta.signature
            case "input_json_delta":
                block["input"] = block.get("input", "") + delta.partial_json

    def done(self) -> Done:
        blocks: list[Block] = []
        for place in sorted(self._blocks):
            part = self._blocks[place]
            match part.get("type"):
                case "text":
                    blocks.append(Text(part.get("text", "")))
                case "thinking":
                    blocks.append(Thinking(part.get("thinking", ""), part.get("signature", "")))
                case "redacted_thinking":
                    blocks.append(Thinking("", part.get("data", ""), redacted=True))
                case "tool_use":
                    blocks.append(
                        ToolCall(part.get("id", ""), part.get("name", ""), part.get("input") or "{}")
                    )
                case _:
                    pass
        return Done(tuple(blocks), self._usage, STOPS.get(self._stop, "stop"), self._model, self._id)


def tool_name(name: str) -> str:
    """A tool's name in the alphabet the provider takes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:128] or "tool"


def messages(history: tuple[ContextMessage, ...]) -> list[dict[str, Any]]:  # JSON
    """A history as the protocol has it: user and assistant in turn."""
    return [
        {"role": message.role, "content": [_block(block) for block in message.blocks]}
        for message in alternating(history)
    ]


def _block(block: Block) -> dict[str, Any]:  # JSON
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(mime, data):
            return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
        case Thinking():
            if block.redacted:
                return {"type": "redacted_thinking", "data": block.signature}
            return {"type": "thinking", "thinking": block.text, "signature": block.signature}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": block.id,
                "name": tool_name(block.name),
                "input": _input(block.arguments),
            }
        case ToolResult():
            content = [_block(part) for part in block.content]
            return {
                "type": "tool_result",
                "tool_use_id": block.call,
                "content": content,
                "is_error": block.is_error,
            }
    return {"type": "text", "text": "(left out)"}


def _input(arguments: str) -> dict[str, Any]:  # JSON
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": arguments}
