"""A document to Markdown: the active branch, readable as text and on any forge. Pure.

Says everything the branch says; leaves other branches, signatures and picture bytes out.
"""

import json
import re
from collections.abc import Iterator

from atomic_sessions.document import Document
from atomic_sessions.entry import Block, Image, Node, Shell, Text, Thinking, ToolCall, ToolResult
from atomic_sessions.html.articles import clock, day
from atomic_sessions.html.escaping import clean, line
from atomic_sessions.html.outline import Outline, outline
from atomic_sessions.html.totals import totals

_WHO = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool result",
    "system": "System prompt",
    "bash": "Shell",
    "custom": "Extension",
    "summary": "Summary",
}
_SUMMARIES = {"compaction": "Compaction summary", "branch_summary": "Summary of another branch"}
_QUIET = frozenset({"label", "session_info", "session_summary", "thinking_level_change", "custom"})
_RUN = re.compile(r"`+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")


def render_markdown(document: Document) -> str:
    """The whole text; the same document gives the same text."""
    return "".join(markdown_pieces(document))


def markdown_pieces(document: Document) -> Iterator[str]:
    """The text in pieces to be written one after the other."""
    plan = outline(document)
    yield f"{_header(document)}\n\n# {line(document.title, 300) or 'Untitled session'}"
    if document.summary:
        yield f"\n\n{line(document.summary, 500)}"
    for node in plan.segments[0].nodes:
        body = [piece for piece in _body(node, plan) if piece]
        if body:
            yield "".join(f"\n\n{part}" for part in (_heading(node, document.labels.get(node.id, "")), *body))
    yield "\n"


def _header(document: Document) -> str:
    sums = totals(document.nodes)
    facts: dict[str, object] = {
        "title": line(document.title, 300),
        "agent": document.agent,
        "session": document.id,
        "started": f"{day(document.created_at)}T{clock(document.created_at)}Z",
        "folder": document.cwd,
        "models": list(sums.models),
        "messages": {"user": sums.user, "assistant": sums.assistant, "tool calls": sums.calls},
        "tokens": {"input": sums.usage.input, "output": sums.usage.output} if sums.usage.output else None,
        "cost": round(sums.usage.cost, 4),
    }
    # JSON is YAML, so every value survives whatever is in it.
    rows = [
        f"{name}: {clean(json.dumps(value, ensure_ascii=False))}" for name, value in facts.items() if value
    ]
    return "\n".join(["---", *rows, "---"])


def _heading(node: Node, label: str) -> str:
    view = node.view
    who = _SUMMARIES.get(view.kind) or (
        "Injected" if view.role == "user" and not view.typed else _WHO.get(view.role)
    )
    at = view.at if view.at is not None else node.stamp
    mark = f" · [{line(label, 80)}]" if label else ""
    return f"## {who or line(view.kind.replace('_', ' '), 60) or 'Entry'} · {clock(at)}{mark}"


def _body(node: Node, plan: Outline) -> Iterator[str]:
    view = node.view
    if view.kind in _QUIET:
        return
    if view.text and not view.blocks:
        yield _closed(clean(view.text).strip())
    for index, block in enumerate(view.blocks):
        if isinstance(block, ToolCall):
            yield from _tool(block, plan.answers.get((node.id, index)))
        elif (node.id, index) not in plan.absorbed:
            yield from _block(block)
    if view.error:
        yield f"**Error:** {line(view.error, 2000)}"
    elif view.stop in {"aborted", "cancelled"}:
        yield "**Aborted.**"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            yield _closed(clean(block.text).strip())
        case Thinking():
            if block.text.strip():
                yield "\n".join(
                    f"> {row}".rstrip() for row in ["*Thinking*", "", *clean(block.text).strip().split("\n")]
                )
        case Image():
            yield f"*[image: {line(block.mime, 60)}]*"
        case ToolResult():
            yield f"**{line(block.name, 80) or 'Tool'}** result:"
            yield from _result(block)
        case Shell():
            yield fenced(f"$ {block.command}\n{block.output}", "console")
            if block.cancelled or block.exit_code:
                yield "*cancelled*" if block.cancelled else f"*exit code {block.exit_code}*"
        case _:
            return


def _tool(call: ToolCall, answer: tuple[str, ToolResult] | None) -> Iterator[str]:
    yield f"**Tool call: {line(call.name, 80) or 'tool'}**"
    text, language = _arguments(call.arguments)
    if text:
        yield fenced(text, language)
    if answer is not None:
        yield "Failed:" if answer[1].is_error else "Result:"
        yield from _result(answer[1])


def _arguments(text: str) -> tuple[str, str]:
    """A lone command as itself, everything else as indented JSON."""
    try:
        value = json.loads(text)
        if (
            isinstance(value, dict)
            and isinstance(value.get("command"), str)
            and value.keys() <= {"command", "description"}
        ):
            said = value.get("description")
            return (f"# {line(str(said), 200)}\n" if said else "") + value["command"], "sh"
        return ("" if value == {} else json.dumps(value, ensure_ascii=False, indent=2)), "json"
    except (ValueError, RecursionError):
        return text, ""


def _result(result: ToolResult) -> Iterator[str]:
    if result.diff:
        yield fenced(result.diff, "diff")
    for part in result.content:
        yield fenced(part.text) if isinstance(part, Text) else f"*[image: {line(part.mime, 60)}]*"


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    text = clean(text).strip("\n")
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _closed(text: str) -> str:
    """The text with its last code block closed, so that it cannot swallow what follows."""
    fence = ""
    for row in text.split("\n"):
        mark = _FENCE.match(row)
        if mark is None:
            continue
        if not fence:
            fence = mark[1]
        elif mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text
