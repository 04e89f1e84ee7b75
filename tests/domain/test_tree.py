"""Trees and the leaf that opens."""

import time

from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.clock import MAX_SKEW_MS, order, tag
from atomic_sessions.entry import Entry, Node, View
from atomic_sessions.formats.pi import view
from atomic_sessions.tree import build, labels, leaf, name, newest, path
from strategies import forests, node


def _nodes(entries: list[Entry]) -> list[Node]:
    return [Node(e.id, e.parent, e.stamp, view(e.raw)) for e in entries]


@given(forests(), st.randoms(use_true_random=False))
def test_the_leaf_does_not_depend_on_the_order_entries_came_in(
    entries: list[Entry], random: st.DataObject
) -> None:
    """Any order of delivery gives the same tree and the same leaf (I10)."""
    nodes = _nodes(entries)
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's random
    assert leaf(build(nodes), {}) == leaf(build(shuffled), {})
    assert build(nodes).children == build(shuffled).children


@given(forests())
def test_the_leaf_is_on_the_branch_of_the_newest_message(entries: list[Entry]) -> None:
    """Row C4: the newest user or assistant message is on the path that opens."""
    nodes = _nodes(entries)
    tree = build(nodes)
    top = newest(nodes, {})
    if top is not None:
        assert top[1] in {n.id for n in path(tree, leaf(tree, {}))}


def test_a_later_branch_decides_and_the_other_stays() -> None:
    """Two continuations of one leaf: the newer message opens, the older branch is in the tree."""
    nodes = [node("a", None, 1), node("b", "a", 2, "assistant"), node("old", "b", 3), node("new", "b", 4)]
    tree = build(nodes)
    assert leaf(tree, {}) == "new"
    assert list(tree.children["b"]) == ["old", "new"]


def test_labels_and_names_never_move_the_leaf() -> None:
    """Only user and assistant messages decide."""
    label = Node("l", "a", 99, View(kind="label", target="a", text="mark"))
    nodes = [node("a", None, 1), node("b", "a", 2), label]
    assert leaf(build(nodes), {}) == "b"
    assert labels(nodes) == {"a": "mark"}


def test_a_clock_far_ahead_wins_for_five_minutes_at_most() -> None:
    """Row C4: a message from a clock one year ahead counts as received plus five minutes."""
    year = 365 * 86_400_000
    nodes = [node("a", None, 1), node("ahead", "a", 1000 + year), node("right", "a", 1000 + MAX_SKEW_MS + 2)]
    received = {"ahead": 1000, "right": 1000 + MAX_SKEW_MS + 1}
    assert leaf(build(nodes), received) == "right"
    assert order(1000 + year, tag("ahead"), 1000)[0] == 1000 + MAX_SKEW_MS


def test_damaged_links_drop_nothing() -> None:
    """Unknown parents, self-parents and cycles become roots."""
    nodes = [node("orphan", "gone", 1), node("self", "self", 2), node("x", "y", 3), node("y", "x", 4)]
    tree = build(nodes)
    reached: set[str] = set()
    line: list[str | None] = [None]
    for at in line:
        below = tree.children.get(at, [])
        reached.update(below)
        line.extend(below)
    assert reached == {"orphan", "self", "x", "y"}


def test_a_session_100_000_deep_is_walked_iteratively() -> None:
    """No recursion: the deepest real sessions open."""
    nodes = [node(f"{n:06d}", f"{n - 1:06d}" if n else None, n + 1) for n in range(100_000)]
    started = time.perf_counter()
    tree = build(nodes)
    assert leaf(tree, {}) == "099999"
    assert len(path(tree, "099999")) == 100_000
    assert time.perf_counter() - started < 20


def test_the_latest_name_wins_and_can_be_cleared() -> None:
    """Names go by stamp; an empty one clears."""

    def named(entry: str, at: int, text: str) -> Node:
        return Node(entry, None, at, View(kind="session_info", text=text))

    assert name([named("b", 2, "second"), named("a", 1, "first")]) == "second"
    assert name([named("a", 1, "first"), named("b", 2, "")]) == ""
