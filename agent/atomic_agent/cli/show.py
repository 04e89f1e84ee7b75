"""`atomic show`: a session's conversation as text, or its entries as JSON lines. Changes nothing."""

import argparse
import json
from collections.abc import Iterator, Sequence

import msgspec

from atomic_agent.capture import forks
from atomic_agent.cli.storage import launched
from atomic_agent.cli.terminal import clip, emit_json, here, one_line, safe, say
from atomic_agent.cli.trust import store_arguments
from atomic_agent.projects import display
from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_agent.turns.history import History, load
from atomic_sessions.clock import iso
from atomic_sessions.context import gather
from atomic_sessions.entry import Block, Image, Node, Shell, Text, Thinking, ToolCall, ToolResult
from atomic_sessions.errors import NotFoundError
from atomic_sessions.formats import codex_log
from atomic_sessions.formats.lines import plain

TOOL_COLUMNS = 100
RESULT_LINES = 3
NAMES = {
    "user": "You",
    "assistant": "Assistant",
    "custom": "Note",
    "summary": "Summary",
    "bash": "Shell",
    "system": "System",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session; the first eight characters do")
    parser.add_argument("--branch", type=plain, metavar="ENTRY", help="the branch that ends at this entry")
    parser.add_argument("--json", action="store_true", help="one JSON object an entry")
    store_arguments(parser)


def run(options: argparse.Namespace) -> int:
    with launched(options) as launch:
        store = launch.store
        row = store.find(options.id, store.project_of(here()))
        if options.branch is not None and store.entry(row.key, options.branch) is None:
            raise NotFoundError(
                f"There is no entry '{options.branch[:64]}' in this session.", "See: atomic show --json ID"
            )
        history = load(store, row, options.branch, whole=True, with_lines=False)
        others = store.ends(row.key) - 1
        lacking = _lacking(store, row)
    if options.json:
        for node in history.path:
            emit_json(_as_json(node))
        return 0
    facts = row.facts
    print(f"{one_line(row.label)}")
    place = one_line(display(facts.project))
    print(f"{facts.id} · {facts.agent} · {place} · {row.messages} messages · {iso(facts.created_at)}")
    for line in transcript(history):
        print(line)
    if lacking is not None:
        say(f"What was said before is in session {one_line(lacking.thread)}, which is not here.")
    if others > 0:
        more = "1 more branch ends" if others == 1 else f"{others} more branches end"
        say(f"{more} elsewhere in this session; see all: atomic export ID FILE.html")
    return 0


def _lacking(store: Store, row: Row) -> codex_log.History | None:
    """What a Codex session points to and does not have; only the cache holds such sessions."""
    from atomic_agent.stores.sqlite import SqliteStore

    if row.facts.agent != forks.AGENT or not isinstance(store, SqliteStore):
        return None
    return forks.lacks(store.cache, store.number(row.key))


def transcript(history: History) -> Iterator[str]:
    """The conversation as lines that cannot drive a terminal."""
    nodes = gather(history.path, history.beside)
    for node in nodes:
        view = node.view
        if view.role == "tool":
            yield from _blocks(view.blocks)
        elif view.role and (view.blocks or view.error):
            at = view.at if view.at is not None else node.stamp
            who = NAMES.get(view.role, view.role)
            model = f" ({one_line(view.model)})" if view.role == "assistant" and view.model else ""
            yield ""
            yield f"── {who}{model} · {iso(at)[:16].replace('T', ' ')}"
            yield from _beginning(view.blocks) if view.role == "system" else _blocks(view.blocks)
            if view.error:
                yield f"  ! {one_line(view.error)}"
        elif view.kind == "model_change":
            yield f"   model: {one_line(view.provider)}/{one_line(view.model)}"
        elif view.kind in {"session_info", "label"} and view.text:
            yield f"   {'name' if view.kind == 'session_info' else 'label'}: {one_line(view.text)}"


def _beginning(blocks: Sequence[Block]) -> Iterator[str]:
    """The first lines of a system prompt, which may be pages long."""
    yield from _short("\n".join(block.text for block in blocks if isinstance(block, Text)), "    ")


def _blocks(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text):
                yield safe(text).rstrip()
            case Thinking(text):
                if text.strip():
                    yield f"  (thinking) {clip(one_line(text), TOOL_COLUMNS)}"
            case ToolCall():
                yield f"  > {one_line(block.name)} {clip(one_line(block.arguments), TOOL_COLUMNS)}"
            case ToolResult():
                yield from _result(block)
            case Image():
                yield f"  [image: {one_line(block.mime)}]"
            case Shell():
                yield f"  $ {safe(block.command)}"
                yield from _short(block.output, "    ")


def _result(block: ToolResult) -> Iterator[str]:
    mark = "  ! " if block.is_error else "  < "
    text = "\n".join(part.text if isinstance(part, Text) else "[image]" for part in block.content)
    yield from _short(text, mark)


def _short(text: str, mark: str) -> Iterator[str]:
    lines = [line for line in safe(text).split("\n") if line.strip()]
    for line in lines[:RESULT_LINES]:
        yield mark + clip(line.expandtabs(4), TOOL_COLUMNS)
        mark = "    "
    if len(lines) > RESULT_LINES:
        yield f"    … {len(lines) - RESULT_LINES} more lines"


def _as_json(node: Node) -> dict[str, object]:
    view = node.view
    found: dict[str, object] = {
        "id": node.id,
        "parent": node.parent,
        "kind": view.kind,
        "role": view.role,
        "at": iso(view.at if view.at is not None else node.stamp),
        "text": view.spoken() or view.text,
        "blocks": [_block(block) for block in view.blocks],
    }
    for name in ("model", "provider", "stop", "error"):
        if value := getattr(view, name):
            found[name] = value
    if view.usage is not None:
        found["usage"] = view.usage
    return found


def _block(block: Block) -> object:
    """A block as JSON has it; arguments as the object they are, signatures left out."""
    plain = msgspec.to_builtins(block)
    plain["type"] = type(block).__name__.lower()
    plain.pop("signature", None)
    if isinstance(block, ToolCall):
        try:
            plain["arguments"] = json.loads(block.arguments)
        except (ValueError, RecursionError):
            pass
    return plain
