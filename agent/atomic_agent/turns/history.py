"""What an open session says so far: the path to its leaf, read from the cache. Writes nothing.

The walk ends at the last compaction that holds, so a long session costs what is still in use.
"""

from collections.abc import Callable

from msgspec import Struct

from atomic_agent.cache import entries
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.leaf import leaf as leaf_of
from atomic_agent.cache.sessions import SessionRow
from atomic_sessions.context import Settings, is_boundary, settings
from atomic_sessions.entry import Entry, Node, ToolResult, View
from atomic_sessions.formats import pi
from atomic_sessions.formats.agents import viewer


class History(Struct, frozen=True):
    """`path` runs from where the context starts to the leaf, `lines` are its entries (if they were asked for);
    `beside` holds records that belong to answers on the path without being on it."""

    path: list[Node]
    lines: list[Entry]
    beside: list[Node]
    settings: Settings


def reader(agent: str, *, internal: bool = False) -> Callable[[bytes], View]:
    """Lines to views, with the messages that are sent to a model but not drawn."""
    if agent in pi.NAMES:
        return lambda raw: pi.view(raw, hidden=True)
    return viewer(agent, internal=internal)


def load(
    cache: Cache, row: SessionRow, leaf: str | None = None, *, whole: bool = False, with_lines: bool = True
) -> History:
    """The branch that opens, or the one that ends at `leaf`; `whole` goes on past a compaction."""
    view = reader(row.agent, internal=row.internal)
    at = leaf if leaf is not None else leaf_of(cache, row.key)
    path: list[Node] = []
    lines: list[Entry] = []
    first = 1 << 62
    seen: set[str] = set()
    known = Settings()
    until: str | None = None
    stopping = False
    while at is not None and at not in seen:
        seen.add(at)
        entry = entries.one(cache, row.key, at)
        if entry is None or entry.loose:
            break
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
        if stopping and until is None and known.model and known.provider:
            break
        at = entry.parent
    path.reverse()
    lines.reverse()
    return History(path, lines, _beside(cache, row, path, first, view), known)


def _older(known: Settings, found: Settings) -> Settings:
    """What was found nearer to the leaf holds."""
    model = known if known.model else found
    provider = model.provider
    if not provider and found.provider and found.model in {"", model.model}:
        provider = found.provider  # Codex names it apart from the model
    return Settings(provider, model.model, known.effort or found.effort)


def _beside(
    cache: Cache, row: SessionRow, path: list[Node], first: int, view: Callable[[bytes], View]
) -> list[Node]:
    """Records of answers on the path that hang beside it: Claude Code spreads parallel calls over several
    records, and each result hangs on its own, perhaps below progress records."""
    groups = {node.view.group for node in path if node.view.group and node.view.role}
    if not groups:
        return []
    near = {node.id for node in path}
    found: list[Node] = []
    condition = "session = ? AND file = '' AND loose = 0 AND pos >= ? ORDER BY pos, stamp, id"
    for stored in entries.stored_rows(cache, condition, (row.key, first)):
        entry = stored.entry
        if entry.id in near or entry.parent not in near:
            continue
        said = view(entry.raw)
        result = any(isinstance(block, ToolResult) for block in said.blocks)
        if said.group in groups or not said.role:
            near.add(entry.id)
        if said.group in groups or result:
            found.append(Node(entry.id, entry.parent, entry.stamp, said))
    return found
