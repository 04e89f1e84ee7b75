"""What an open session says so far: the path to its leaf, read from its store. Writes nothing.

The walk ends at the last compaction that holds, so a long session costs what is still in use.
"""

from collections.abc import Callable

from msgspec import Struct

from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_sessions.context import Settings, is_boundary, settings
from atomic_sessions.entry import Entry, Node, ToolResult, View
from atomic_sessions.formats import pi
from atomic_sessions.formats.agents import viewer

LOOK_BACK = 500
"""How far beyond a compaction an effort or a set of tools is looked for, in entries: most sessions name none."""


class History(Struct, frozen=True):
    """`path` runs from where the context starts to the leaf, `lines` are its entries (if they were asked for);
    `beside` holds records that belong to answers on the path without being on it."""

    path: list[Node]
    lines: list[Entry]
    beside: list[Node]
    settings: Settings

    def __repr__(self) -> str:
        return f"<History of {len(self.path)}>"


def reader(agent: str, *, internal: bool = False) -> Callable[[bytes], View]:
    """Lines to views, with the messages that are sent to a model but not drawn."""
    if agent in pi.NAMES:
        return lambda raw: pi.view(raw, hidden=True)
    return viewer(agent, internal=internal)


def load(
    store: Store, row: Row, leaf: str | None = None, *, whole: bool = False, with_lines: bool = True
) -> History:
    """The branch that opens, or the one that ends at `leaf`; `whole` goes on past a compaction."""
    view = reader(row.facts.agent, internal=row.facts.internal)
    path: list[Node] = []
    lines: list[Entry] = []
    first = 1 << 62
    known = Settings()
    until: str | None = None
    stopping = False
    before = 0
    for entry in store.climb(row.key, leaf if leaf is not None else store.leaf(row.key)):
        node = Node(entry.id, entry.parent, entry.stamp, view(entry.raw))
        known = _older(known, settings([node]))
        if not stopping or until is not None:
            path.append(node)
            first = min(first, entry.pos)
            if with_lines:
                lines.append(entry)
        if until == node.id:
            until = None
        if not whole and not stopping and is_boundary(node):
            stopping, until = True, node.view.target or None
        if stopping and until is None:
            before += 1
            named = bool(known.model and known.provider)
            if named and (before > LOOK_BACK or (known.effort and known.tools is not None)):
                break
    path.reverse()
    lines.reverse()
    return History(path, lines, _beside(store, row, path, first, view), known)


def _older(known: Settings, found: Settings) -> Settings:
    """What was found nearer to the leaf holds."""
    model = known if known.model else found
    provider = model.provider
    if not provider and found.provider and found.model in {"", model.model}:
        provider = found.provider  # Codex names it apart from the model
    tools = known.tools if known.tools is not None else found.tools
    return Settings(provider, model.model, known.effort or found.effort, tools)


def _beside(
    store: Store, row: Row, path: list[Node], first: int, view: Callable[[bytes], View]
) -> list[Node]:
    """Records of answers on the path that hang beside it: Claude Code spreads parallel calls over several
    records, and each result hangs on its own, perhaps below progress records."""
    groups = {node.view.group for node in path if node.view.group and node.view.role}
    if not groups:
        return []
    near = {node.id for node in path}
    found: list[Node] = []
    for entry in store.read(row.key, first):
        if entry.loose or entry.id in near or entry.parent not in near:
            continue
        said = view(entry.raw)
        result = any(isinstance(block, ToolResult) for block in said.blocks)
        if said.group in groups or not said.role:
            near.add(entry.id)
        if said.group in groups or result:
            found.append(Node(entry.id, entry.parent, entry.stamp, said))
    return found
