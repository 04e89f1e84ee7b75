"""A model that answers what its history adds up to, and short ways to say and read things."""

from collections.abc import Iterator, Mapping
from typing import Any

from atomic_agent.sdk import (
    ContextMessage,
    Done,
    Event,
    Request,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)


class Model:
    """Answers "answer N to: PROMPT", N being the user messages it was sent; keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Iterator[Event]:
        self.requests.append(request)
        asked = [said for said in told(request.messages) if said[0] == "user"]
        answer = f"answer {len(asked)} to: {asked[-1][1]}"
        yield TextDelta(answer)
        yield Done((Text(answer),), Usage(3, 2), "stop", request.model, "r")


def told(messages: tuple[ContextMessage, ...]) -> list[tuple[str, str]]:
    """Messages as (role, text): calls as `call ID`, results as `ID=text`."""
    return [(message.role, " ".join(_words(block) for block in message.blocks)) for message in messages]


def _words(block: object) -> str:
    match block:
        case Text(text) | Thinking(text):
            return text
        case ToolCall(call, _, _):
            return f"call {call}"
        case ToolResult(call, _, content):
            return f"{call}={''.join(part.text for part in content if isinstance(part, Text))}"
    return type(block).__name__


def user(text: str) -> Mapping[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, *calls: str, stop: str = "stop") -> Mapping[str, Any]:
    """What a model said, and the calls it made."""
    return {
        "role": "assistant",
        "provider": "anthropic",
        "model": "m",
        "stopReason": stop,
        "content": [
            {"type": "text", "text": text},
            *({"type": "toolCall", "id": call, "name": "bash", "arguments": {}} for call in calls),
        ],
    }


def result(call: str, text: str) -> Mapping[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "bash",
        "content": content,
        "isError": False,
    }
