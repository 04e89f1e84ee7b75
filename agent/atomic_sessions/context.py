"""A path of entries to what a model is sent: where it starts, who speaks, what is left out. Pure.

Derived only: the history itself is never changed. Knows no provider's JSON and sends nothing.
Facts: formats/atomic-sessions.md section 7.3, formats/native-agents.md section 1.4.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from atomic_sessions.entry import Block, Image, Node, Shell, Text, Thinking, ToolCall, ToolResult
from atomic_sessions.pairing import ContextMessage, paired

COMPACTION_PREFACE = "The conversation so far, with parts left out:"
_TURN_SETTINGS = frozenset({"session_meta", "turn_context", "event/thread_settings_applied"})
"""Where Codex says which model answers; its answers do not."""

BRANCH_PREFACE = "A summary of work on another branch of this conversation:"


class Settings(Struct, frozen=True):
    """The model, effort and tools a path ends with; empty, and None, where it says nothing."""

    provider: str = ""
    model: str = ""
    effort: str = ""
    tools: tuple[str, ...] | None = None


def settings(path: Iterable[Node]) -> Settings:
    """The last model change or answering model, thinking level and set of tools, in path order."""
    provider = model = effort = ""
    tools: tuple[str, ...] | None = None
    for node in path:
        view = node.view
        if (
            view.model
            and (view.kind == "model_change" or view.role == "assistant")
            and view.model != "<synthetic>"
        ):
            provider, model = view.provider, view.model
        elif view.kind in _TURN_SETTINGS:
            provider, model = view.provider or provider, view.model or model
        elif view.kind == "thinking_level_change":
            effort = view.text
        elif view.kind == "active_tools_change" and not view.damaged:
            tools = tuple(view.text.split("\n")) if view.text else ()
    return Settings(provider, model, effort, tools)


def boundary(path: Sequence[Node]) -> int:
    """Where the context starts: the place of the last compaction that holds, 0 without one."""
    for place in range(len(path) - 1, -1, -1):
        if is_boundary(path[place]):
            return place
    return 0


def is_boundary(node: Node) -> bool:
    """A verbatim compaction of ours, or the record after which Claude Code or Codex starts over."""
    view = node.view
    return view.kind == "system/compact_boundary" or (
        view.kind in {"compaction", "compacted"} and view.in_context
    )


def build(
    path: Sequence[Node], beside: Sequence[Node], prompt: str, *, provider: str
) -> list[ContextMessage]:
    """The history of a path, ending with the new prompt; see `history`."""
    return paired([*_said(path, beside, provider), ContextMessage("user", (Text(prompt),))])


def history(path: Sequence[Node], beside: Sequence[Node], *, provider: str) -> list[ContextMessage]:
    """What a model is sent of a path: from its last compaction on, each call with its result.

    `beside` holds nodes off the path that may belong to it: further records of one answer and the
    results of parallel calls. `provider` is who will read it: only Anthropic gets its own signed
    thinking back.
    """
    return paired(_said(path, beside, provider))


def _said(path: Sequence[Node], beside: Sequence[Node], provider: str) -> list[ContextMessage]:
    start = boundary(path)
    said: list[ContextMessage] = []
    if start < len(path) and path[start].view.kind == "compaction" and is_boundary(path[start]):
        said.append(_compaction(path, start))
        start += 1
    for node in gather(path[start:], beside):
        message = _message(node, provider)
        if message is not None:
            said.append(message)
    return said


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
            # Claude Code's summary explains itself; a branch summary and a history that Codex kept do not.
            if view.kind == "compacted":
                return _as_user((Text(f"{COMPACTION_PREFACE}\n\n{text}"),))
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
