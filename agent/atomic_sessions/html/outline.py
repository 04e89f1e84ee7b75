"""A document in the order a page shows it: the active path, then every other branch; calls with their results.

Knows nothing of HTML. Iterative: a session may be 100,000 entries deep.
"""

from msgspec import Struct

from atomic_sessions import tree
from atomic_sessions.document import Document
from atomic_sessions.entry import Node, ToolCall, ToolResult

Place = tuple[str, int]
"""A block: entry id and position in its blocks."""

# How far back to look when an agent gives the same call id to many calls (local models do).
_CANDIDATES = 64


class Segment(Struct, frozen=True):
    """Nodes one after the other, from a fork (`origin`, None for a root) to a leaf."""

    origin: str | None
    nodes: tuple[Node, ...]


class Outline(Struct, frozen=True):
    """`segments` hold every node once: the active path first (empty without a leaf), then the other branches,
    each after the one it leaves. `answers` maps a call to its result and the entry whose anchor that carries
    ("" for none); `absorbed` are those results."""

    segments: tuple[Segment, ...]
    answers: dict[Place, tuple[str, ToolResult]]
    absorbed: frozenset[Place]


def outline(document: Document) -> Outline:
    """The whole tree as segments, in depth-first order with the active branch first."""
    whole = tree.build(document.nodes)
    segments = _segments(whole, document.leaf)
    answers, absorbed = _match(segments, whole)
    return Outline(tuple(segments), _anchored(answers, absorbed, whole), frozenset(absorbed))


def _segments(whole: tree.Tree, leaf: str | None) -> list[Segment]:
    newest = _newest_below(whole)
    active = tree.path(whole, leaf)
    on_path = {node.id for node in active}
    segments = [Segment(None, tuple(active))]
    waiting: list[str] = []

    def leave(parent: str | None, taken: str | None) -> None:
        others = [i for i in whole.children.get(parent, ()) if i != taken and i not in on_path]
        waiting.extend(reversed(others))

    leave(None, None)
    for node in active:
        leave(node.id, None)
    while waiting:
        at: str | None = waiting.pop()
        origin = whole.parents[at] if at is not None else None
        nodes: list[Node] = []
        while at is not None:
            nodes.append(whole.nodes[at])
            below = whole.children.get(at, ())
            onward = max(below, key=lambda i: (newest[i], i)) if below else None
            leave(at, onward)
            at = onward
        segments.append(Segment(origin, tuple(nodes)))
    return segments


def _newest_below(whole: tree.Tree) -> dict[str, int]:
    """The latest time in each node's subtree."""
    order = list(whole.children[None])
    for node_id in order:
        order.extend(whole.children.get(node_id, ()))
    newest = {node_id: whole.nodes[node_id].stamp for node_id in order}
    for node_id in reversed(order):
        parent = whole.parents[node_id]
        if parent is not None and newest[parent] < newest[node_id]:
            newest[parent] = newest[node_id]
    return newest


def _match(
    segments: list[Segment], whole: tree.Tree
) -> tuple[dict[Place, tuple[str, ToolResult]], set[Place]]:
    """Each result goes to the nearest call above it with its id, else to any call with its id."""
    calls: dict[str, list[Place]] = {}
    answers: dict[Place, tuple[str, ToolResult]] = {}
    absorbed: set[Place] = set()
    early: list[tuple[Place, ToolResult]] = []
    spans: dict[str, tuple[int, int]] = {}
    for segment in segments:
        for node in segment.nodes:
            for index, block in enumerate(node.view.blocks):
                if isinstance(block, ToolCall):
                    calls.setdefault(block.id, []).append((node.id, index))
                elif isinstance(block, ToolResult):
                    free = [c for c in calls.get(block.call, ())[-_CANDIDATES:] if c not in answers]
                    if len(free) > 1:
                        spans = spans or _spans(segments, whole)
                        at = spans[node.id][0]
                        free = [c for c in free if spans[c[0]][0] <= at < spans[c[0]][1]]
                    if free:
                        answers[free[-1]] = (node.id, block)
                        absorbed.add((node.id, index))
                    else:
                        early.append(((node.id, index), block))
    for place, block in early:
        call = next((c for c in calls.get(block.call, ())[:_CANDIDATES] if c not in answers), None)
        if call is not None:
            answers[call] = (place[0], block)
            absorbed.add(place)
    return answers, absorbed


def _anchored(
    answers: dict[Place, tuple[str, ToolResult]], absorbed: set[Place], whole: tree.Tree
) -> dict[Place, tuple[str, ToolResult]]:
    """Each entry gets one anchor: its own piece of the page, or, when its calls show all of it, the first of them."""
    done: set[str] = set()
    anchored = {}
    for call, (node_id, result) in answers.items():
        blocks = len(whole.nodes[node_id].view.blocks)
        whole_entry = node_id not in done and all((node_id, i) in absorbed for i in range(blocks))
        anchored[call] = (node_id if whole_entry else "", result)
        done.add(node_id)
    return anchored


def _spans(segments: list[Segment], whole: tree.Tree) -> dict[str, tuple[int, int]]:
    """Places in depth-first order: `a` is above `b` when a's span holds b's start."""
    order = [node.id for segment in segments for node in segment.nodes]
    start = {node_id: place for place, node_id in enumerate(order)}
    end = {node_id: place + 1 for place, node_id in enumerate(order)}
    for node_id in reversed(order):
        parent = whole.parents[node_id]
        if parent is not None and end[parent] < end[node_id]:
            end[parent] = end[node_id]
    return {node_id: (start[node_id], end[node_id]) for node_id in order}
