"""A path of entries to what a model is sent: boundary, roles, and a result for every call. Pure.

Derived only: the history itself is never changed. Knows no provider's JSON and sends nothing.
Facts: formats/atomic-sessions.md section 7.3, formats/native-agents.md section 1.4.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from atomic_sessions.entry import Block, Image, Node, Shell, Text, Thinking, ToolCall, ToolResult

COMPACTION_PREFACE = "The conversation so far, with parts left out:"
BRANCH_PREFACE = "A summary of work on another branch of this conversation:"
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


class Settings(Struct, frozen=True):
    """The model and effort a path ends with; empty where it says nothing."""

    provider: str = ""
    model: str = ""
    effort: str = ""


def settings(path: Iterable[Node]) -> Settings:
    """The last model change or answering model, and the last thinking level, in path order."""
    provider = model = effort = ""
    for node in path:
        view = node.view
        if (
            view.model
            and (view.kind == "model_change" or view.role == "assistant")
            and view.model != "<synthetic>"
        ):
            provider, model = view.provider, view.model
        elif view.kind == "thinking_level_change":
            effort = view.text
    return Settings(provider, model, effort)


def boundary(path: Sequence[Node]) -> int:
    """Where the context starts: the place of the last compaction that holds, 0 without one."""
    for place in range(len(path) - 1, -1, -1):
        if is_boundary(path[place]):
            return place
    return 0


def is_boundary(node: Node) -> bool:
    """A verbatim compaction of ours, or the record after which Claude Code starts over."""
    view = node.view
    return view.kind == "system/compact_boundary" or (view.kind == "compaction" and view.in_context)


def build(
    path: Sequence[Node], beside: Sequence[Node], prompt: str, *, provider: str
) -> list[ContextMessage]:
    """The history of a path, ending with the new prompt.

    `beside` holds nodes off the path that may belong to it: further records of one answer and the
    results of parallel calls. `provider` is who will read it: only Anthropic gets its own signed
    thinking back.
    """
    start = boundary(path)
    said: list[ContextMessage] = []
    if start < len(path) and path[start].view.kind == "compaction" and is_boundary(path[start]):
        said.append(_compaction(path, start))
        start += 1
    for node in gather(path[start:], beside):
        message = _message(node, provider)
        if message is not None:
            said.append(message)
    said.append(ContextMessage("user", (Text(prompt),)))
    return paired(said)


def gather(path: Sequence[Node], beside: Sequence[Node]) -> list[Node]:
    """The path with each answer in one piece: records that share a `group` become one node at the
    place of the first, followed by those results to its calls that hang off the path."""
    members: dict[str, list[Node]] = {}
    on_path = {node.id for node in path}
    aside = [node for node in beside if node.id not in on_path]
    wanted = {node.view.group for node in path if node.view.group}
    for node in [*path, *aside]:
        if node.view.group in wanted and node.view.group:
            members.setdefault(node.view.group, []).append(node)
    results = [node for node in aside if node.view.role == "tool"]
    found: list[Node] = []
    for node in path:
        group = node.view.group
        if not group:
            found.append(node)
        elif group in members:
            whole = _joined(sorted(members.pop(group), key=lambda n: n.stamp))
            found.append(whole)
            calls = {block.id for block in whole.view.blocks if isinstance(block, ToolCall)}
            found.extend(
                n
                for n in results
                if any(isinstance(b, ToolResult) and b.call in calls for b in n.view.blocks)
            )
    return found


def _joined(parts: Sequence[Node]) -> Node:
    """One node that says what all records of an answer say; its place and times are the first's."""
    replace = msgspec.structs.replace
    first, last = parts[0], parts[-1]
    blocks = tuple(block for part in parts if part.view.in_context for block in part.view.blocks)
    stop = next((part.view.stop for part in reversed(parts) if part.view.stop), "")
    view = replace(first.view, blocks=blocks, stop=stop, usage=last.view.usage or first.view.usage, error="")
    return replace(first, view=replace(view, in_context=any(part.view.in_context for part in parts)))


def _message(node: Node, provider: str) -> ContextMessage | None:
    view = node.view
    if not view.in_context or view.side:
        return None
    match view.role:
        case "assistant":
            blocks = tuple(b for b in view.blocks if _sayable(b, provider, view.provider))
            return ContextMessage("assistant", blocks)
        case "tool":
            return ContextMessage("tool", view.blocks)
        case "user" | "custom":
            return _as_user(view.blocks)
        case "bash":
            return _as_user(tuple(Text(_shell(b)) for b in view.blocks if isinstance(b, Shell)))
        case "summary":
            text = "\n".join(b.text for b in view.blocks if isinstance(b, Text))
            if view.kind == "compaction" or not text.strip():
                return None
            # Claude Code's summary explains itself; a branch summary does not.
            wrapped = text if view.cwd else f"{BRANCH_PREFACE}\n\n<summary>\n{text}\n</summary>"
            return _as_user((Text(wrapped),))
    return None


def _sayable(block: Block, reader: str, writer: str) -> bool:
    match block:
        case Text(text):
            return bool(text.strip())
        case Thinking():
            return reader == writer == "anthropic" and bool(block.signature)
        case ToolCall():
            return True
    return False


def _as_user(blocks: Iterable[Block]) -> ContextMessage | None:
    kept = tuple(b for b in blocks if isinstance(b, Image) or (isinstance(b, Text) and b.text.strip()))
    return ContextMessage("user", kept) if kept else None


def _shell(block: Shell) -> str:
    end = (
        "\n(cancelled)" if block.cancelled else f"\n(exit code {block.exit_code})" if block.exit_code else ""
    )
    return f"I ran this command:\n$ {block.command}\n{block.output}{end}"


def _compaction(path: Sequence[Node], place: int) -> ContextMessage:
    """The summary, and the kept entries before it written out in the same grammar."""
    view = path[place].view
    text = f"{COMPACTION_PREFACE}\n\n{view.text}"
    images: list[Block] = []
    first = next((i for i in range(place) if path[i].id == view.target), None) if view.target else None
    if first is not None:
        kept = path[first:place]
        text += "".join(f"\n\n{part}" for node in kept for part in transcript(node))
        images.extend(b for node in kept if node.view.in_context for b in _images(node.view.blocks))
    return ContextMessage("user", (Text(text), *images))


def _images(blocks: Iterable[Block]) -> Iterable[Image]:
    for block in blocks:
        if isinstance(block, Image):
            yield block
        elif isinstance(block, ToolResult):
            yield from (part for part in block.content if isinstance(part, Image))


def transcript(node: Node) -> list[str]:
    """A node in the role-tagged lines of a compaction's summary (atomic-sessions.md section 9)."""
    view = node.view
    if not view.in_context:
        return []
    parts: list[str] = []
    calls: list[str] = []
    who = "Assistant" if view.role == "assistant" else "User"
    for block in view.blocks:
        match block:
            case Text(text) if text.strip():
                parts.append(f"[{who}]: {text}")
            case Thinking(text) if text.strip():
                parts.append(f"[Assistant thinking]: {text}")
            case ToolCall():
                calls.append(f"{block.name}({block.arguments})")
            case ToolResult():
                said = "\n".join(p.text if isinstance(p, Text) else "[image]" for p in block.content)
                parts.append(f"[Tool result]: {said}")
            case Shell():
                parts.append(f"[User]: {_shell(block)}")
            case Image():
                parts.append(f"[{who}]: [image]")
            case _:
                pass
    if calls:
        parts.append(f"[Assistant tool calls]: {'; '.join(calls)}")
    return parts


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
