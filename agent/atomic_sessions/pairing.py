"""A history in the order a provider demands: one result for each call, user and assistant in turn. Pure.

Repairs what a kill, a merge or another agent left behind; sends nothing and changes no entry.
Facts: formats/atomic-sessions.md section 7.3, point 7.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from atomic_sessions.entry import Block, Image, Text, ToolCall, ToolResult

MISSING_START = "(The beginning of this conversation is missing.)"
INTERRUPTED = (
    "The execution was interrupted and its result is unknown. Check for side effects before trying again."
)

# Every provider we speak to takes these: OpenAI allows 40 characters, Anthropic this alphabet.
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class ContextMessage(Struct, frozen=True):
    """One message of a history. `tool` messages hold nothing but the results of the calls of the
    assistant message right before them, in the order of the calls."""

    role: Literal["user", "assistant", "tool"]
    blocks: tuple[Block, ...]

    def __repr__(self) -> str:
        return f"<ContextMessage {self.role} of {len(self.blocks)}>"


def paired(said: Sequence[ContextMessage]) -> list[ContextMessage]:
    """The messages with exactly one result for each call, right after it, under ids that are unique.

    The first result of a call counts, wherever it stands after it; orphans and duplicates go; a call
    nobody answered gets an error result. Empty messages are dropped.
    """
    answers = _answers(said)
    used: set[str] = set()
    found: list[ContextMessage] = []
    for place, message in enumerate(said):
        if message.role == "tool":
            continue
        if message.role == "user":
            if message.blocks:
                found.append(message)
            continue
        blocks: list[Block] = []
        results: list[Block] = []
        seen: set[str] = set()
        for block in message.blocks:
            if not isinstance(block, ToolCall):
                blocks.append(block)
            elif block.id not in seen:
                seen.add(block.id)
                call_id = _unique(block.id, used)
                blocks.append(ToolCall(call_id, block.name, block.arguments))
                results.append(_result(answers.get((place, block.id)), call_id, block.name))
        if any(isinstance(b, Text | ToolCall) for b in blocks):
            found.append(ContextMessage("assistant", tuple(blocks)))
        if results:
            found.append(ContextMessage("tool", tuple(results)))
    return found


def _answers(said: Sequence[ContextMessage]) -> dict[tuple[int, str], ToolResult]:
    """For each call (place of its message, id) the first result after it; an id that is announced
    again belongs to the later call from there on."""
    open_calls: dict[str, int] = {}
    answers: dict[tuple[int, str], ToolResult] = {}
    for place, message in enumerate(said):
        for block in message.blocks:
            if isinstance(block, ToolCall):
                open_calls[block.id] = place
            elif isinstance(block, ToolResult) and block.call in open_calls:
                answers[open_calls.pop(block.call), block.call] = block
    return answers


def _result(answer: ToolResult | None, call_id: str, name: str) -> ToolResult:
    if answer is None:
        return ToolResult(call_id, name, (Text(INTERRUPTED),), is_error=True)
    content = tuple(part for part in answer.content if isinstance(part, Image) or part.text.strip())
    return ToolResult(call_id, name, content, answer.is_error)


def _unique(call_id: str, used: set[str]) -> str:
    """The id itself when a provider takes it and nobody has it yet, else one made from it."""
    fitting, attempt = call_id, 0
    while fitting in used or not _CALL_ID.fullmatch(fitting):
        seed = f"{call_id}\x00{attempt}".encode("utf-8", "surrogatepass")
        fitting = "call_" + hashlib.sha256(seed).hexdigest()[:24]
        attempt += 1
    used.add(fitting)
    return fitting


def alternating(said: Sequence[ContextMessage]) -> list[ContextMessage]:
    """User and assistant in turn, a user first, results in the user messages: what strict providers
    and local chat templates demand."""
    found: list[ContextMessage] = []
    for message in said:
        role: Literal["user", "assistant"] = "assistant" if message.role == "assistant" else "user"
        if found and found[-1].role == role:
            found[-1] = ContextMessage(role, found[-1].blocks + message.blocks)
        else:
            found.append(ContextMessage(role, message.blocks))
    if found and found[0].role == "assistant":
        found.insert(0, ContextMessage("user", (Text(MISSING_START),)))
    return found
