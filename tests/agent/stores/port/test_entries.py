"""Entries of a session: appended, read, walked, moved between."""

import json
import random

import pytest

from agent.stores.port.conftest import Stand
from agent.stores.port.kinds import NOW, needs
from agent.stores.port.said import OTHER, UUID, facts, ids, made, message, raws, turn
from atomic_agent.stores.port import Store, branch
from atomic_sessions import compose, tree
from atomic_sessions.entry import Entry, Node
from atomic_sessions.errors import NotFoundError
from atomic_sessions.formats import pi
from atomic_sessions.ids import SessionKey


def test_a_turn_is_appended(store: Store) -> None:
    """All its lines, in their order and behind what was there; the leaf is its end."""
    key = made(store)
    more = turn(1, "a0.1", lines=4)
    store.append(key, more)
    assert ids(list(store.read(key))) == ["u0", "a0.1", "u1", "a1.1", "a1.2", "a1.3"]
    assert raws(store, key)[2:] == [entry.raw for entry in more]
    assert [entry.pos for entry in store.read(key)] == [0, 1, 2, 3, 4, 5]
    assert store.leaf(key) == "a1.3"
    found = store.get(key)
    assert found is not None
    assert found.messages == 6


def test_appending_again_adds_nothing(store: Store) -> None:
    """A turn that was entered before its writer was killed is not in the session twice."""
    key = made(store)
    for _ in range(2):
        store.append(key, turn(1, "a0.1"))
    store.append(key, [*turn(1, "a0.1"), message("x", "a1.1", "more")])
    assert ids(list(store.read(key))) == ["u0", "a0.1", "u1", "a1.1", "x"]


@needs("many")
def test_no_session_no_turn(store: Store) -> None:
    """A turn never makes a session of its own."""
    key = made(store)
    with pytest.raises(NotFoundError):
        store.append(SessionKey("atomic", OTHER), turn(0, None))
    assert [row.key for row in store.listed()] == [key]


@needs("tree")
def test_branches(store: Store) -> None:
    """Each branch is read from root to leaf; the newest message's one opens; no leaf is no branch."""
    key = made(store, turns=2)
    store.append(key, turn(5, "a0.1"))
    assert store.leaf(key) == "a5.1"
    assert ids(branch(store, key, "a5.1")) == ["u0", "a0.1", "u5", "a5.1"]
    assert ids(branch(store, key, "a1.1")) == ["u0", "a0.1", "u1", "a1.1"]
    assert branch(store, key, None) == branch(store, key, "unknown") == []
    assert ids(list(store.read(key, first=3))) == ["a1.1", "u5", "a5.1"]


@needs("tree")
def test_the_newest_message_decides_not_the_last_line(store: Store) -> None:
    """An older message that comes in later opens nothing."""
    key = made(store, turns=2)
    store.append(key, [message("old", "u0", "older", at=NOW + 1)])
    assert store.leaf(key) == "a1.1"


def test_one_entry(store: Store) -> None:
    """By its id, with its bytes; None for an id nobody has."""
    key = made(store)
    entry = store.entry(key, "u0")
    assert entry is not None
    assert (entry.parent, entry.raw) == (None, turn(0, None)[0].raw)
    assert store.entry(key, "nobody") is None


@needs("tree")
def test_moved(store: Store) -> None:
    """A move holds over names and labels and until a message comes; the other branch stays."""
    key = made(store, turns=2)
    store.move(key, "a0.1")
    assert store.leaf(key) == "a0.1"
    store.append(key, [Entry("n", "a0.1", 0, NOW, compose.session_info("n", "a0.1", NOW, "name"))])
    assert store.leaf(key) == "a0.1"
    store.append(key, turn(7, "a0.1"))
    assert store.leaf(key) == "a7.1"
    assert ids(branch(store, key, "a1.1")) == ["u0", "a0.1", "u1", "a1.1"]


@needs("tree")
def test_moved_to_an_empty_conversation(store: Store) -> None:
    """No leaf is a place too, and the next message there is a root of its own."""
    key = made(store)
    store.move(key, None)
    assert store.leaf(key) is None
    store.append(key, turn(3, None))
    assert ids(branch(store, key, store.leaf(key))) == ["u3", "a3.1"]


@needs("reopened", "tree")
def test_a_move_outlives_its_process(stand: Stand) -> None:
    """Another opening stands where the person went, and where they went last."""
    key = made(stand.store, turns=3)
    stand.store.move(key, "a1.1")
    stand.store.move(key, "a0.1")
    assert stand.again().leaf(key) == "a0.1"
    stand.store.move(key, None)
    assert stand.again().leaf(key) is None


@needs("tree")
def test_nobody_moves_to_an_entry_that_is_not_there(store: Store) -> None:
    """The leaf stays where it was."""
    key = made(store)
    with pytest.raises(NotFoundError):
        store.move(key, "nobody")
    assert store.leaf(key) == "a0.1"


@pytest.mark.parametrize(("target", "opens"), [("a0.1", "a0.1"), (None, None), ("gone", "a1.1")])
@needs("tree")
def test_an_export_says_where_it_opens(store: Store, target: str | None, opens: str | None) -> None:
    """A leaf line at the end of what is brought in holds, if it names an entry; it stays a line."""
    raw = compose.line({"type": "leaf", "leafId": target, "timestamp": "2026-11-30T00:00:00.000Z"})
    row = store.create(
        facts(store), [*turn(0, None), *turn(1, "a0.1"), Entry("l", None, 0, NOW, raw, loose=True)]
    )
    assert store.leaf(row.key) == opens
    assert raws(store, row.key)[-1] == raw


UNKNOWN = [
    b'{"type":"message","id":"m","parentId":null,"new":[1, 2.50],"message":{"role":"user","x":"\\u00e9"}}',
    b'{"type":"from_the_future","id":"f","parentId":"m","timestamp":7,"payload":{"k":null}}',
    b'{ "type" : "custom", "id":"c", "parentId":"f", "data" : {"z":1,"a":2} }',
    b'{"type":"label","id":"l","parentId":"c","targetId":"m","label":"x"}\r',
    b'{"type":"message","id":"s","parentId":"l","message":{"role":"user","content":"half \\ud83d"}}',
    '{"type":"message","id":"u","parentId":"s","message":{"role":"user","content":"\u2028\u2029 é\x7f"}}'.encode(),
    b'{"type":"message","id":"n","parentId":"u","message":{"role":"user","content":"a\\u0000b"}}',
    b'{"type":"context_compaction","id":"r","parentId":"n","promptVersion":1,"deletedTargets":[]}',
    b'{"type":"message","message":{"role":"user","content":"no id"}}',
    b"not json at all",
    b'{"type":"message","id":"cut',
]


@needs("tree")
def test_unknown_fields_and_types_byte_for_byte(store: Store) -> None:
    """Nothing of a line is lost or written differently, whatever a program put into it."""
    entries = [
        Entry(f"x{n}", None, 0, n, raw, loose=pi.view(raw).id is None) for n, raw in enumerate(UNKNOWN)
    ]
    key = store.create(facts(store), entries).key
    assert raws(store, key) == UNKNOWN


def test_lines_written_twice(store: Store) -> None:
    """A program that wrote its session a second time into one file: each line is there, and counts, once."""
    lines = [*turn(0, None), *turn(1, "a0.1")]
    row = store.create(facts(store), [*lines, *lines])
    assert (row.messages, ids(list(store.read(row.key)))) == (4, ids(lines))
    assert store.leaf(row.key) == "a1.1"


@needs("tree")
def test_two_lines_with_one_id(store: Store) -> None:
    """Both are kept, and which keeps the id is the same whatever came first."""
    one, two = message("same", "u0", "first"), message("same", "u0", "second")
    keys = [made(store), made(store, OTHER)]
    for key, order in zip(keys, ([one, two], [two, one]), strict=True):
        for entry in order:
            store.append(key, [entry])
    found = [{entry.id: entry.raw for entry in store.read(key)} for key in keys]
    assert found[0] == found[1]
    assert sorted(raw for name, raw in found[0].items() if name.startswith("same")) == sorted(
        [one.raw, two.raw]
    )


def test_a_thousand_entries(store: Store) -> None:
    """A deep session made turn by turn reads back whole, and its branch is all of it."""
    key = made(store)
    leaf = "a0.1"
    for number in range(1, 50):
        store.append(key, turn(number, leaf, lines=20))
        leaf = f"a{number}.19"
    store.append(key, turn(99, leaf, lines=18))
    entries = list(store.read(key))
    assert len(entries) == 1000
    assert ids(branch(store, key, store.leaf(key))) == ids(entries)
    row = store.get(key)
    assert row is not None
    assert row.messages == 1000


@needs("tree")
def test_cyclic_and_orphaned_parents(store: Store) -> None:
    """A cycle ends the walk, a parent nobody has makes a root; reading never hangs."""
    entries = [message("a", "b", "1"), message("b", "a", "2", at=NOW + 1), message("o", "lost", "3")]
    key = store.create(facts(store), entries).key
    assert ids(list(store.read(key))) == ["a", "b", "o"]
    assert {entry.id for entry in branch(store, key, "b")} == {"a", "b"}
    assert ids(branch(store, key, "o")) == ["o"]
    assert store.leaf(key) in {"a", "b"}


def test_a_long_line(store: Store) -> None:
    """A line of a megabyte comes back whole, and so does the one behind it."""
    text = "".join(random.Random(1).choices("abcdef \u00e9\n", k=1_000_000))
    key = store.create(facts(store), [message("big", None, text), message("next", "big", "x")]).key
    assert json.loads(raws(store, key)[0])["message"]["content"][0]["text"] == text
    assert store.leaf(key) == "next"


@needs("tree")
def test_the_leaf_is_that_of_the_tree(store: Store) -> None:
    """Whatever a store keeps, what opens is what `tree.leaf` says of its entries."""
    draw = random.Random(7)
    for number in range(20):
        entries: list[Entry] = []
        for index in range(draw.randrange(1, 25)):
            parent = draw.choice(entries).id if entries and draw.random() < 0.9 else None
            role = draw.choice(["user", "assistant", "toolResult"])
            entries.append(
                message(f"e{index}", parent, "x", role=role, at=NOW + draw.randrange(0, 40) * 1000)
            )
        key = store.create(facts(store, f"s{number}"), entries).key
        nodes = [Node(e.id, e.parent, e.stamp, pi.view(e.raw)) for e in store.read(key)]
        assert store.leaf(key) == tree.leaf(tree.build(nodes), {})


@needs("reopened", "tree")
def test_two_openings_see_each_other(stand: Stand) -> None:
    """What one appends the other reads at once, and both branches of two writers stay."""
    one, two = stand.store, stand.again()
    key = made(one)
    assert two.leaf(key) == "a0.1"
    one.append(key, turn(1, "a0.1"))
    two.append(key, turn(2, "a0.1"))
    one.append(key, turn(3, "a1.1"))
    assert one.leaf(key) == two.leaf(key) == "a3.1"
    assert ids(list(one.read(key))) == ids(list(two.read(key)))
    assert len(list(one.read(key))) == 8
    assert list(one.listed()) == list(two.listed())
    assert one.find(UUID, "").messages == 8
