"""What the demo provider answers, in the words of each protocol. Opens no socket.

Each `say` yields events of a stream, and None before each chunk of text.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

DIRECTIVE = re.compile(r"\[\[\s*(say|think|slow|hang|cut|status|html)\s*(?::\s*(.*?))?\s*\]\]", re.DOTALL)
CHUNKS = 4
SIGNATURE = "demo-signature"


class Asked:
    """One request as it came: headers in lower case, `counts` of (user, assistant, tool) messages."""

    def __init__(self, number: int, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        self.number = number
        self.path = path
        self.headers = headers
        self.body = body
        self.anthropic = path.endswith("/messages")
        self.counts, self.prompt = self._read()

    def _read(self) -> tuple[tuple[int, int, int], str]:
        user = assistant = tool = 0
        prompt = ""
        for message in self.body.get("messages", []):
            content = message.get("content") or []
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            results = sum(part.get("type") == "tool_result" for part in parts)
            tool += results + (message["role"] == "tool")
            assistant += message["role"] == "assistant"
            texts = [part["text"] for part in parts if part.get("type") == "text"]
            if message["role"] == "user" and (texts or not results):
                user += 1
                prompt = texts[-1] if texts else ""
        return (user, assistant, tool), prompt

    @property
    def directives(self) -> dict[str, str]:
        return dict(DIRECTIVE.findall(self.prompt))

    def answer(self) -> str:
        """What the model says."""
        if said := self.directives.get("say"):
            return said
        user, assistant, tool = self.counts
        plain = " ".join(DIRECTIVE.sub("", self.prompt).split())
        return (
            f"Answer {self.number}: {user} user, {assistant} assistant, {tool} tool; you said: {plain[:200]}"
        )


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // CHUNKS))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(value: dict[str, Any], kind: str = "") -> bytes:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def say_chat(asked: Asked) -> Iterator[bytes | None]:
    """The answer as a stream."""
    frame = {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": asked.body["model"],
    }

    def delta(value: dict[str, Any], finish: str | None = None) -> bytes:
        return _event({**frame, "choices": [{"index": 0, "delta": value, "finish_reason": finish}]})

    yield delta({"role": "assistant", "content": ""})
    if thought := asked.directives.get("think"):
        yield delta({"reasoning_content": thought})
    for piece in _pieces(asked.answer()):
        yield None
        yield delta({"content": piece})
    yield None
    yield delta({}, "stop")
    yield _event({**frame, "choices": [], "usage": _chat_usage(asked)})
    yield b"data: [DONE]\n\n"


def _chat_usage(asked: Asked) -> dict[str, int]:
    return {"prompt_tokens": 100 + asked.number, "completion_tokens": 10, "total_tokens": 110 + asked.number}


def whole_chat(asked: Asked) -> dict[str, Any]:
    """The answer in one piece."""
    message = {"role": "assistant", "content": asked.answer()}
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _chat_usage(asked),
    }


def whole_anthropic(asked: Asked) -> dict[str, Any]:
    """The answer in one piece."""
    thought = asked.directives.get("think")
    blocks = [{"type": "thinking", "thinking": thought, "signature": SIGNATURE}] if thought else []
    return {
        "id": f"msg_{asked.number}",
        "type": "message",
        "role": "assistant",
        "model": asked.body["model"],
        "content": [*blocks, {"type": "text", "text": asked.answer()}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100 + asked.number, "output_tokens": 10},
    }


def say_anthropic(asked: Asked) -> Iterator[bytes | None]:
    """The answer as a stream."""

    def event(kind: str, **fields: object) -> bytes:
        return _event({"type": kind, **fields}, kind)

    whole = whole_anthropic(asked)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "thinking":
            yield event(
                "content_block_start", index=index, content_block={**block, "thinking": "", "signature": ""}
            )
            yield event(
                "content_block_delta",
                index=index,
                delta={"type": "thinking_delta", "thinking": block["thinking"]},
            )
            yield event(
                "content_block_delta", index=index, delta={"type": "signature_delta", "signature": SIGNATURE}
            )
        else:
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for piece in _pieces(block["text"]):
                yield None
                yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
            yield None
        yield event("content_block_stop", index=index)
    yield event(
        "message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=whole["usage"]
    )
    yield event("message_stop")
