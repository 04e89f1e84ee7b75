"""Sessions copied into new ones (B26): by store port, with labels, names and markings where they belong."""

import json
from typing import Any

import pytest

from atomic_agent.stores.memory import MemoryStore
from atomic_agent.stores.port import branch
from atomic_agent.stores.rows import Row
from atomic_agent.turns import copies, opening
from atomic_sessions import compose
from atomic_sessions.context import history
from atomic_sessions.entry import Entry, Facts, Node, Text
from atomic_sessions.errors import NotFoundError, UsageError
from atomic_sessions.formats import pi
from atomic_sessions.formats.internal import marked
from atomic_sessions.formats.upgrade import Marking

NOW = 1_796_043_907_321


class Written:
    """Entries in the making, each below the one before unless told otherwise."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, raw: bytes, parent: str | None) -> str:
        identity = str(pi.view(raw).id)
        self.entries.append(Entry(identity, parent, 0, 1000 + len(self.entries), raw))
        return identity

    def said(self, identity: str, parent: str | None, role: str, text: str) -> str:
        at = 1000 + len(self.entries)
        body = {"role": role, "content": compose.content([Text(text)]), "timestamp": at}
        return self.add(compose.message(identity, parent, at, body), parent)

    def label(self, identity: str, parent: str, target: str, text: str, at: int) -> str:
        return self.add(compose.label(identity, parent, at, target, text), parent)


def session(store: MemoryStore, *, stage: Marking | None = None) -> Row:
    """u1, a1, a label on u1 in the middle of the path, a name, u2, a2; beside it u3 below a1, labelled too."""
    made = Written()
    made.said("u1", None, "user", "one")
    made.said("a1", "u1", "assistant", "first answer")
    made.label("L1", "a1", "u1", "start here", 5)
    made.add(compose.session_info("N", "L1", 6, "its name"), "L1")
    made.said("u3", "a1", "user", "another way")
    made.said("u2", "N", "user", "two")
    made.said("a2", "u2", "assistant", "second answer")
    made.label("L2", "a2", "u3", "elsewhere", 7)
    made.label("L3", "L2", "a1", "gone", 8)
    made.label("L4", "L3", "a1", "", 9)
    header = compose.header("source", NOW, "/p", project="path:/p")
    if stage is not None:
        header = marked(header, stage)
    facts = Facts("atomic", "source", "", "/p", "path:/p", NOW, internal=stage is not None, header=header)
    return store.create(facts, made.entries)


def parts(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(entry.raw)
    return found


def spoken(store: MemoryStore, row: Row) -> list[str]:
    views = [pi.view(entry.raw) for entry in branch(store, row.key, store.leaf(row.key))]
    return [view.spoken() for view in views if view.decides]


def test_a_clone_is_the_open_branch() -> None:
    """A label in the middle of the path does not cut it: what hung on it hangs on what stands before; it comes back at
    the end with its time, the name goes along, labels elsewhere or taken away do not."""
    store = MemoryStore()
    source = session(store)
    clone = copies.clone(store, source.key, NOW + 1)
    assert spoken(store, clone) == ["one", "first answer", "two", "second answer"]
    path = branch(store, clone.key, "a2")
    assert [(entry.id, entry.parent) for entry in path] == [
        ("u1", None),
        ("a1", "u1"),
        ("N", "a1"),
        ("u2", "N"),
        ("a2", "u2"),
    ]
    labels = [parts(entry) for entry in store.read(clone.key) if parts(entry)["type"] == "label"]
    assert [(one["targetId"], one["label"], one["timestamp"]) for one in labels] == [
        ("u1", "start here", "1970-01-01T00:00:00.005Z")
    ]
    assert (clone.name, clone.facts.parent, clone.facts.cwd) == ("its name", "source", "/p")
    assert clone.facts.id != "source"
    raws = {entry.id: entry.raw for entry in store.read(source.key)}
    assert all(entry.raw == raws[entry.id] for entry in path if entry.id != "N")
    nodes = [Node(entry.id, entry.parent, entry.stamp, pi.view(entry.raw)) for entry in path]
    assert len(history(nodes, [], provider="openai")) == 4


def test_a_fork_is_what_stood_before() -> None:
    """The chosen message's text is given back; before the first message stands nothing."""
    store = MemoryStore()
    source = session(store)
    made, text = copies.before(store, source.key, "u2", NOW + 1)
    assert (text, spoken(store, made)) == ("two", ["one", "first answer"])
    empty, text = copies.before(store, source.key, "u1", NOW + 2)
    assert (text, list(store.read(empty.key)), empty.facts.parent) == ("one", [], "source")
    other, text = copies.before(store, source.key, "u3", NOW + 3)
    assert (text, spoken(store, other)) == ("another way", ["one", "first answer"])
    for wrong, error in (("a1", UsageError), ("L1", UsageError), ("nobody", NotFoundError)):
        with pytest.raises(error):
            copies.before(store, source.key, wrong, NOW)
    assert len(list(store.listed())) == 4


def test_a_whole_copy_has_every_line() -> None:
    """All branches, byte for byte, under another header."""
    store = MemoryStore()
    source = session(store)
    made = copies.whole(store, source.key, NOW + 1)
    assert [entry.raw for entry in store.read(made.key)] == [entry.raw for entry in store.read(source.key)]
    assert (made.facts.parent, made.name) == ("source", "its name")


def test_a_stages_copies_are_of_that_stage() -> None:
    """They are as internal as the session they come from."""
    store = MemoryStore()
    source = session(store, stage=Marking("run", "stage", "a stage"))
    clone = copies.clone(store, source.key, NOW + 1)
    talk = opening.resume(store, source.key, "/p", NOW, fork=True)
    for facts in (clone.facts, talk.facts):
        assert facts.internal
        assert json.loads(facts.header)["workflow"]["runId"] == "run"
    assert list(store.listed()) == []


def test_nothing_to_clone() -> None:
    """An empty session has no branch."""
    store = MemoryStore()
    facts = Facts("atomic", "empty", "", "/p", "path:/p", NOW, header=compose.header("empty", NOW, "/p"))
    row = store.create(facts)
    with pytest.raises(UsageError, match="nothing to clone"):
        copies.clone(store, row.key, NOW)


def test_a_compaction_keeps_what_it_kept() -> None:
    """Though the entry it names first is a label, which is not copied in its place."""
    store = MemoryStore()
    made = Written()
    made.said("u1", None, "user", "one")
    made.label("L", "u1", "u1", "mark", 5)
    made.said("a1", "L", "assistant", "kept answer")
    compaction = compose.entry(
        "compaction",
        "C",
        "a1",
        6,
        summary="so far",
        firstKeptEntryId="L",
        tokensBefore=1,
        details={"strategy": "verbatim-lines"},
    )
    made.add(compaction, "a1")
    made.said("u2", "C", "user", "two")
    header = compose.header("s", NOW, "/p", project="path:/p")
    row = store.create(Facts("atomic", "s", "", "/p", "path:/p", NOW, header=header), made.entries)
    clone = copies.clone(store, row.key, NOW + 1)
    path = branch(store, clone.key, "u2")
    nodes = [Node(entry.id, entry.parent, entry.stamp, pi.view(entry.raw)) for entry in path]
    sent = history(nodes, [], provider="openai")
    assert "kept answer" in str([block.text for block in sent[0].blocks if isinstance(block, Text)])
