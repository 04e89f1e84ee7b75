"""Names and labels: entries like any other, which move nothing."""

import pytest

from agent.stores.port.conftest import Stand
from agent.stores.port.kinds import NOW, needs
from agent.stores.port.said import made, turn
from atomic_agent.stores import marks
from atomic_agent.stores.port import Store, branch
from atomic_sessions import tree
from atomic_sessions.entry import Node
from atomic_sessions.errors import NotFoundError
from atomic_sessions.formats import pi
from atomic_sessions.ids import SessionKey


def labels(store: Store, key: SessionKey) -> dict[str, str]:
    return tree.labels(Node(e.id, e.parent, e.stamp, pi.view(e.raw)) for e in store.read(key))


@needs("many")
def test_renamed(store: Store) -> None:
    """The latest name holds, an empty one clears it; neither moves the session in the list."""
    key, other = made(store), made(store, "other", at=NOW + 1000)
    marks.rename(store, key, "  One  ", NOW + 5000)
    marks.rename(store, key, "Two", NOW + 5001)
    assert [(row.key, row.name) for row in store.listed()] == [(other, ""), (key, "Two")]
    marks.rename(store, key, "", NOW + 5002)
    row = store.get(key)
    assert row is not None
    assert (row.name, row.label) == ("", "prompt 0")


def test_a_later_name_holds_though_the_clock_stands(store: Store) -> None:
    """Two names in one millisecond: the second."""
    key = made(store)
    for name in ("a", "c", "b"):
        marks.rename(store, key, name, NOW)
    row = store.get(key)
    assert row is not None
    assert row.name == "b"


@needs("tree")
def test_labelled(store: Store) -> None:
    """A label is on its entry until it is cleared; cleared ones do not show."""
    key = made(store)
    marks.label(store, key, "u0", "start", NOW)
    marks.label(store, key, "a0.1", "end", NOW)
    assert labels(store, key) == {"u0": "start", "a0.1": "end"}
    marks.label(store, key, "u0", "", NOW + 1)
    assert labels(store, key) == {"a0.1": "end"}
    with pytest.raises(NotFoundError):
        marks.label(store, key, "nobody", "x", NOW)


@needs("tree")
def test_the_branch_goes_on_through_marks(store: Store) -> None:
    """They hang at the leaf, and the next turn below them: its branch holds all."""
    key = made(store)
    marks.rename(store, key, "name", NOW)
    marks.label(store, key, "u0", "x", NOW)
    store.append(key, turn(1, store.leaf(key)))
    kinds = [pi.view(entry.raw).kind for entry in branch(store, key, store.leaf(key))]
    assert kinds == ["message", "message", "session_info", "label", "message", "message"]


@needs("reopened", "tree")
def test_renamed_while_another_goes_on(stand: Stand) -> None:
    """A rename beside a running conversation neither cuts nor moves it: its next turn opens."""
    running, picker = stand.store, stand.again()
    key = made(running, turns=2)
    leaf = running.leaf(key)
    marks.rename(picker, key, "renamed", NOW + 9000)
    running.append(key, turn(2, leaf))
    for store in (running, picker):
        assert store.leaf(key) == "a2.1"
        assert [entry.id for entry in branch(store, key, "a2.1")] == [
            "u0",
            "a0.1",
            "u1",
            "a1.1",
            "u2",
            "a2.1",
        ]
        row = store.get(key)
        assert row is not None
        assert (row.name, row.messages) == ("renamed", 6)
