"""One entry to its piece of the page: an article for what somebody said, a small line for everything else.

Writes text only through `escaping`, `markdown`, `tools` and `pictures`.
"""

from datetime import UTC, datetime

from msgspec import Struct

from atomic_sessions.entry import Block, Image, Node, Shell, Text, Thinking, ToolCall, ToolResult, View
from atomic_sessions.html.escaping import anchor, escape, line, reference
from atomic_sessions.html.markdown import to_html
from atomic_sessions.html.outline import Outline
from atomic_sessions.html.pictures import picture
from atomic_sessions.html.tools import folded, returned, tool

_WHO = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool result",
    "system": "System prompt",
    "bash": "Shell",
    "custom": "Extension",
    "summary": "Summary",
    "": "Message",
}
_SUMMARIES = {
    "compaction": "Compaction summary",
    "compact_boundary": "Compaction",
    "context_compaction": "Context compaction",
    "branch_summary": "Summary of another branch",
}
_PLAIN_STOPS = frozenset({"", "stop", "toolUse", "tool_use", "end_turn", "stop_sequence", "deferred"})
_FOLDED_ROLES = frozenset({"system", "custom", "summary"})


class Drawn(Struct, frozen=True):
    """`html` of one entry; `quiet` when it is a list item for the folded events between messages."""

    html: str
    quiet: bool = False
    spoken: bool = False
    speaker: str = ""


_NOTHING = Drawn("")


def draw(node: Node, plan: Outline, label: str, before: str) -> Drawn:
    """One entry. `label` is its bookmark, `before` who spoke in the article above it.

    Empty when the entry is a result that its call already shows.
    """
    view = node.view
    if view.kind in _SUMMARIES or (view.role == "summary" and view.kind != "session_summary"):
        return Drawn(_summary(node, label), spoken=False, speaker="summary")
    if view.kind == "model_change":
        name = escape(line(view.text or view.model, 120)) or "unknown"
        return Drawn(f'<p class=ev id="{anchor(node.id)}">Model: <b>{name}</b>{_label(label)}</p>')
    if view.kind != "message" and not view.blocks:
        return Drawn(_event(node, label), quiet=True)
    body = _body(node, plan)
    if not body and view.blocks and all((node.id, i) in plan.absorbed for i in range(len(view.blocks))):
        return _NOTHING
    return _article(node, "".join(body), label, before)


def _article(node: Node, body: str, label: str, before: str) -> Drawn:
    view = node.view
    speaker = {"tool": "result", "": "other"}.get(view.role, view.role)
    if view.role == "user" and not view.typed:
        speaker = "custom"
    who = "Injected" if speaker == "custom" and not view.text else _WHO[view.role]
    if view.role == "assistant" and speaker == before and not label:
        head = _time(node)
        again = " again"
    else:
        kind = f" <small>{escape(line(view.text, 80))}</small>" if speaker == "custom" and view.text else ""
        head = f"<header><b>{who}</b>{kind}{_label(label)}{_time(node)}</header>"
        again = ""
    ends = _ending(view)
    if not body and not ends:
        body = "<p class=no>(no content)</p>"
    if speaker in _FOLDED_ROLES and len(body) > 1200:
        body = f"<details class=more><summary>Show all</summary>{body}</details>"
    attribute = f'"{speaker}{again}"' if again else speaker
    spoken = speaker in {"user", "assistant", "bash"}
    return Drawn(
        f'<article class={attribute} id="{anchor(node.id)}">{head}{body}{ends}</article>',
        spoken=spoken,
        speaker=speaker,
    )


def _body(node: Node, plan: Outline) -> list[str]:
    out: list[str] = []
    if node.view.error and node.view.error == node.view.spoken():
        return out
    for index, block in enumerate(node.view.blocks):
        if isinstance(block, ToolCall):
            out.append(tool(block, plan.answers.get((node.id, index))))
        elif (node.id, index) not in plan.absorbed:
            out.append(_block(block))
    return [piece for piece in out if piece]


def _block(block: Block) -> str:
    match block:
        case Text():
            return _text(block.text)
        case Thinking():
            return _thinking(block)
        case Image():
            return picture(block)
        case ToolResult():
            status = "bad" if block.is_error else "ok"
            name = escape(line(block.name, 120)) or "Tool"
            head = f"<p class=th><b>{name}</b> <span>result</span></p>"
            return f'<div class="tool {status}">{head}{returned(block)}</div>'
        case Shell():
            return _shell(block)
        case _:
            return ""


def _text(text: str) -> str:
    body = to_html(text)
    return f"<div class=md>{body}</div>" if body else ""


def _thinking(block: Thinking) -> str:
    if not block.text.strip():
        return "<p class='think no'>Thinking was not recorded.</p>"
    return f"<div class=think>{folded(block.text, 8)}</div>"


def _shell(block: Shell) -> str:
    state = "cancelled" if block.cancelled else f"exit code {block.exit_code}" if block.exit_code else ""
    status = "bad" if state else "ok"
    output = folded(block.output) if block.output.strip() else ""
    tail = f"<p class=no>{state}</p>" if state else ""
    return f"<div class='tool {status}'>{folded(block.command, 12, 'cmd')}{output}{tail}</div>"


def _ending(view: View) -> str:
    if view.error:
        return f"<p class=err>Error: {escape(view.error)}</p>"
    if view.stop in {"aborted", "cancelled"}:
        return "<p class=err>Aborted.</p>"
    if view.stop in {"length", "max_tokens"}:
        return "<p class=err>Cut off: the answer reached its length limit.</p>"
    if view.stop not in _PLAIN_STOPS:
        return f"<p class=err>Stopped: {escape(line(view.stop, 80))}</p>"
    return ""


def _summary(node: Node, label: str) -> str:
    view = node.view
    title = _SUMMARIES.get(view.kind, "Summary")
    spoken = "\n\n".join(b.text for b in view.blocks if isinstance(b, Text))
    text = (spoken or view.text).strip()
    head = f"<b>{title}</b>{_label(label)}{_time(node)}"
    if not text:
        return f'<p class=ev id="{anchor(node.id)}">{head}</p>'
    return f'<details class=sum id="{anchor(node.id)}"><summary>{head}</summary>{_text(text)}</details>'


def _event(node: Node, label: str) -> str:
    """Anything that is no message, unknown kinds too, as one list item."""
    view = node.view
    kind = "damaged line" if view.damaged else (view.kind or "unknown").replace("_", " ")
    name = escape(line(kind, 80))
    text = escape(view.text)
    if view.kind == "label":
        link = f'<a href="{reference(view.target)}">entry</a>'
        return (
            f'<li id="{anchor(node.id)}" class=k-label>label of {link}: <bdi>{text or "(cleared)"}</bdi></li>'
        )
    body = f": <bdi>{text}</bdi>" if text else ""
    return f'<li id="{anchor(node.id)}">{name}{body}{_label(label)}</li>'


def _label(label: str) -> str:
    return f" <mark>{escape(label)}</mark>" if label else ""


def _time(node: Node) -> str:
    at = node.view.at if node.view.at is not None else node.stamp
    return f'<a class=at href="{reference(node.id)}">{clock(at)}</a>'


def clock(at: int) -> str:
    """Hours, minutes and seconds in UTC of a time in ms."""
    seconds = at // 1000 % 86400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def day(at: int) -> str:
    """`2026-11-30` of a time in ms, empty for times no calendar has."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return ""
