"""Entries to tree: children, roots, path to the leaf, labels, names. Iterative throughout: a session
may be 100,000 entries deep. Decides nothing about copies (that is merge)."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from atomic_sessions.clock import Order, order, tag
from atomic_sessions.entry import Node


class Tree(Struct, frozen=True):
    """`parents` has every node; a parent that is unknown, itself, or part of a cycle reads as None,
    so that nothing is dropped. `children` are in order of (stamp, id), roots under None."""

    nodes: Mapping[str, Node]
    parents: Mapping[str, str | None]
    children: Mapping[str | None, Sequence[str]]


def build(nodes: Iterable[Node]) -> Tree:
    """A tree of any nodes, however damaged their links are."""
    by_id = {node.id: node for node in nodes}
    parents = _without_cycles(by_id)
    children: dict[str | None, list[str]] = {None: []}
    for node_id in sorted(by_id, key=lambda i: (by_id[i].stamp, i)):
        children.setdefault(parents[node_id], []).append(node_id)
    return Tree(by_id, parents, children)


def _without_cycles(by_id: Mapping[str, Node]) -> dict[str, str | None]:
    """Each node's parent. In a cycle the node with the least id becomes a root."""
    parents: dict[str, str | None] = {
        i: n.parent if n.parent in by_id and n.parent != i else None for i, n in by_id.items()
    }
    state: dict[str, int] = {}
    for start in by_id:
        walk = []
        at: str | None = start
        while at is not None and at not in state:
            state[at] = 1
            walk.append(at)
            at = parents[at]
        if at is not None and state[at] == 1:
            loop = walk[walk.index(at) :]
            parents[min(loop)] = None
        for node_id in walk:
            state[node_id] = 2
    return parents


def path(tree: Tree, leaf: str | None) -> list[Node]:
    """Nodes from the root to the leaf; empty for no leaf or an unknown one."""
    found: list[Node] = []
    at = leaf
    while at is not None and at in tree.nodes:
        found.append(tree.nodes[at])
        at = tree.parents[at]
    found.reverse()
    return found


def newest(nodes: Iterable[Node], received: Mapping[str, int]) -> tuple[Order, str] | None:
    """The newest user or assistant message and its place, None when nobody has spoken (C4).

    `received` maps entry ids to the ms when the service first saw them.
    """
    best: tuple[Order, str] | None = None
    for node in nodes:
        if node.view.decides:
            place = order(node.stamp, tag(node.id), received.get(node.id))
            if best is None or place > best[0]:
                best = (place, node.id)
    return best


def leaf(tree: Tree, received: Mapping[str, int]) -> str | None:
    """The entry that opens: the end of the branch that holds the newest message.

    Below that message the way down goes, at each fork, to the child whose subtree holds the newest
    message, else to the latest child; so every machine with the same entries opens the same leaf.
    """
    top = newest(tree.nodes.values(), received)
    if top is None:
        last = tree.children[None][-1:]
        at = last[0] if last else None
    else:
        at = top[1]
    if at is None:
        return None
    best = _subtree_orders(tree, at, received)
    while below := tree.children.get(at):
        at = max(below, key=lambda i: (best[i], tree.nodes[i].stamp, i))
    return at


def _subtree_orders(tree: Tree, start: str, received: Mapping[str, int]) -> dict[str, Order]:
    """The greatest message order within each subtree under `start`."""
    line: list[str] = [start]
    for node_id in line:
        line.extend(tree.children.get(node_id, ()))
    best: dict[str, Order] = {}
    for node_id in reversed(line):
        node = tree.nodes[node_id]
        own = order(node.stamp, tag(node_id), received.get(node_id)) if node.view.decides else (0, b"")
        best[node_id] = max([own, *(best[child] for child in tree.children.get(node_id, ()))])
    return best


def ends(entries: Mapping[str, tuple[str | None, bool]]) -> int:
    """How many branches end in a user or assistant message: those that none follows. An entry's id tells its
    parent and whether it is such a message."""
    above: set[str] = set()
    said = [identity for identity, (_, decides) in entries.items() if decides]
    for identity in said:
        at = entries[identity][0]
        while at is not None and at not in above and at in entries:
            above.add(at)
            at = entries[at][0]
    return sum(identity not in above for identity in said)


def labels(nodes: Iterable[Node]) -> dict[str, str]:
    """The current label of each labelled entry: the latest stamp wins, an empty one clears it."""
    latest: dict[str, tuple[int, str, str]] = {}
    for node in nodes:
        if node.view.kind == "label" and node.view.target:
            mark = (node.stamp, node.id, node.view.text)
            if mark > latest.get(node.view.target, (-1, "", "")):
                latest[node.view.target] = mark
    return {target: text for target, (_, _, text) in latest.items() if text}


def name(nodes: Iterable[Node]) -> str:
    """The session's name: that of the latest `session_info`, empty when never named or cleared."""
    return max(((n.stamp, n.view.text) for n in nodes if n.view.kind == "session_info"), default=(0, ""))[1]
