"""OpenAI-compatible chat completions through the `openai` library. Imported when a turn starts.

Knows nothing of sessions; retries are `failures.retrying`'s, visible ones.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import openai

from atomic_agent.turns.providers.failures import Refused, retrying
from atomic_agent.turns.providers.port import (
    CONNECT_SECONDS,
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
    from openai.types.chat import ChatCompletionChunk

STOPS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "content_filter": "error",
}
OMITTED_IMAGE = "(The tool's result also held an image, which follows.)"


def stream(request: Request) -> Iterator[Event]:
    """One answer, as it comes."""
    return retrying(request, lambda: _attempt(request))


def _attempt(request: Request) -> Iterator[Event]:
    at = request.endpoint
    client = openai.OpenAI(
        api_key=at.key,
        base_url=at.url,
        max_retries=0,
        timeout=openai.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
    )
    effort: Any = (
        "none" if request.effort == "off" else request.effort or openai.omit
    )  # a Literal of the library
    history: Any = messages(request.messages)  # a union of TypedDicts
    answer = _Answer(request.model)
    try:
        with (
            client,
            client.chat.completions.create(
                model=request.model,
                messages=history,
                reasoning_effort=effort,
                stream=True,
                stream_options={"include_usage": True},
            ) as chunks,
        ):
            html = "html" in chunks.response.headers.get("content-type", "")
            for chunk in chunks:
                yield from answer.take(chunk)
    except openai.APIStatusError as error:
        raise _refused(error) from None
    except (openai.APIError, ValueError) as error:
        # ValueError: what came was no JSON. APIError without a status: broken, or an error in mid-stream.
        raise Refused(0, code=getattr(error, "code", None)) from None
    if not answer.stop:
        raise Refused(200 if html else 0, html=html)
    yield answer.done()


def _refused(error: "openai.APIStatusError") -> Refused:
    headers = error.response.headers
    html = "html" in headers.get("content-type", "")
    code = error.code or error.type
    return Refused(
        error.status_code,
        after=headers.get("retry-after", ""),
        code=code,
        html=html and error.status_code < 500,
    )


class _Answer:
    """An answer as it grows."""

    def __init__(self, model: str) -> None:
        self.stop = ""
        self._model = model
        self._id = ""
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._usage = Usage()

    def take(self, chunk: "ChatCompletionChunk") -> Iterator[Event]:
        self._id = self._id or chunk.id or ""
        self._model = chunk.model or self._model
        if chunk.usage is not None:
            cached = getattr(chunk.usage.prompt_tokens_details, "cached_tokens", None) or 0
            self._usage = Usage(chunk.usage.prompt_tokens - cached, chunk.usage.completion_tokens, cached)
        for choice in chunk.choices or ():
            delta = choice.delta
            # Not in OpenAI's own protocol; compatible servers name it one way or the other.
            thinking = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
            if isinstance(thinking, str) and thinking:
                self._thinking.append(thinking)
                yield ThinkingDelta(thinking)
            if text := delta.content or delta.refusal:
                self._text.append(text)
                yield TextDelta(text)
            for call in delta.tool_calls or ():
                parts = self._calls.setdefault(call.index, ["", "", ""])
                parts[0] = parts[0] or call.id or ""
                if call.function is not None:
                    parts[1] = parts[1] or call.function.name or ""
                    parts[2] += call.function.arguments or ""
            if choice.finish_reason:
                self.stop = STOPS.get(choice.finish_reason, "stop")

    def done(self) -> Done:
        blocks: list[Block] = []
        if self._thinking:
            blocks.append(Thinking("".join(self._thinking)))
        if self._text:
            blocks.append(Text("".join(self._text)))
        blocks.extend(ToolCall(*self._calls[place]) for place in sorted(self._calls))
        return Done(tuple(blocks), self._usage, self.stop, self._model, self._id)


def messages(history: tuple[ContextMessage, ...]) -> list[dict[str, Any]]:  # JSON
    """A history as the protocol has it: results are messages of their own."""
    found: list[dict[str, Any]] = []
    for message in alternating(history):
        if message.role == "assistant":
            found.append(_assistant(message.blocks))
            continue
        rest: list[Block] = []
        for block in message.blocks:
            if isinstance(block, ToolResult):
                images = [part for part in block.content if isinstance(part, Image)]
                text = "\n".join(part.text for part in block.content if isinstance(part, Text))
                if images:
                    text = f"{text}\n{OMITTED_IMAGE}".strip()
                    rest.extend(images)
                found.append({"role": "tool", "tool_call_id": block.call, "content": text})
            else:
                rest.append(block)
        if rest:
            found.append({"role": "user", "content": _content(rest)})
    return found


def _assistant(blocks: tuple[Block, ...]) -> dict[str, Any]:  # JSON
    text = "\n\n".join(block.text for block in blocks if isinstance(block, Text))
    calls = [
        {"id": b.id, "type": "function", "function": {"name": b.name, "arguments": _arguments(b.arguments)}}
        for b in blocks
        if isinstance(b, ToolCall)
    ]
    said: dict[str, Any] = {"role": "assistant", "content": text or None}
    return {**said, "tool_calls": calls} if calls else said


def _arguments(text: str) -> str:
    """JSON the server can parse; a broken stream may have left half of it."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps({"arguments": text})
    return text


def _content(blocks: list[Block]) -> str | list[dict[str, Any]]:  # JSON
    if all(isinstance(block, Text) for block in blocks):
        return "\n\n".join(block.text for block in blocks if isinstance(block, Text))
    found: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, Text):
            found.append({"type": "text", "text": block.text})
        elif isinstance(block, Image):
            url = f"data:{block.mime};base64,{block.data}"
            found.append({"type": "image_url", "image_url": {"url": url}})
    return found
