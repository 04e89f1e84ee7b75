"""A session as a tree: what is added, where it stands, how it is copied. The same in every store."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.sdk.conftest import SELECTIONS, Shelf
from agent.sdk.scripted import answer, told, user
from agent.stores.port.children import living
from atomic_agent.sdk import (
    BusyError,
    Entry,
    Marking,
    NotFoundError,
    SessionExistsError,
    SessionManager,
    Store,
    StoreWriteError,
    UsageError,
    now_ms,
    open_session_store,
)
from atomic_agent.stores.memory import MemoryStore
from atomic_agent.turns import copies
from atomic_sessions import compose


def talked(store: Store, turns: int = 2, **given: Any) -> SessionManager:
    """A session of some turns: user, assistant, user, assistant…"""
    found = SessionManager.create(store, **given)
    for number in range(turns):
        found.append_message(user(f"question {number}"))
        found.append_message(answer(f"reply {number}"))
    return found


def ids(manager: SessionManager) -> list[str]:
    return [entry.id for entry in manager.path()]


def member(manager: SessionManager, entry_id: str, name: str) -> Any:
    """What an entry says under a name, as its line has it."""
    entry = manager.entry(entry_id)
    assert entry is not None
    return json.loads(entry.raw)[name]


# Coming to be.


def test_a_session_comes_to_be_with_its_first_entry(shelf: Shelf) -> None:
    """Before that the store knows nothing of it; its name waits too."""
    with SessionManager.create(shelf.store) as manager:
        assert (manager.saved, manager.row, manager.leaf, list(manager.entries())) == (False, None, None, [])
        manager.talk.rename("plans", 1)
        assert list(shelf.store.listed()) == []
        first = manager.append_message(user("hello"))
        assert (manager.saved, manager.name, manager.leaf) == (True, "plans", first)
    assert [row.name for row in shelf.again().listed()] == ["plans"]


def test_each_entry_is_the_next_ones_parent(shelf: Shelf) -> None:
    """Labels, names, summaries and what extensions keep are nodes of the tree too, and nothing moves in it later."""
    manager = SessionManager.create(shelf.store)
    first = manager.append_message(user("hello"))
    added = [
        first,
        manager.append_model_change("anthropic", "m"),
        manager.append_thinking_level_change("high"),
        manager.append_active_tools_change(["read"]),
        manager.append_label(first, "start"),
        manager.set_name("plans"),
        manager.append_session_summary("greets", first),
        manager.append_custom("ext", {"n": 1}),
        manager.append_custom_message("ext", "note"),
        manager.append_compaction("[User]: hello", first, 10),
        manager.append("context_window_change", contextWindow=1000),
        manager.append("not_known_yet", anything=[1, None]),
    ]
    assert ids(manager) == added
    manager.close()
    again = SessionManager.open(shelf.again(), manager.id)
    assert ids(again) == added
    assert [entry.raw for entry in again.entries() if not entry.loose] == [e.raw for e in again.path()]


def test_a_custom_id_is_checked_and_open_exact_opens_or_makes(shelf: Shelf) -> None:
    """`open_exact` goes by --session-id's rule, never by a prefix; an id that no flag takes is refused."""
    with pytest.raises(UsageError):
        SessionManager.create(shelf.store, session_id="a/b")
    made = SessionManager.open_exact(shelf.store, "nightly")
    made.append_message(user("hello"))
    assert SessionManager.open_exact(shelf.store, "nightly").leaf == made.leaf
    with pytest.raises(NotFoundError):
        SessionManager.open(shelf.store, "night")


def test_continue_recent_is_the_newest_of_the_folder(shelf: Shelf, tmp_path: Path) -> None:
    """Newest by what was said, not by renames; other folders and workflow stages do not count."""
    now = now_ms()
    old = talked(shelf.store, 1, clock=lambda: now - 9000)
    new = talked(shelf.store, 1, clock=lambda: now - 6000)
    talked(shelf.store, 1, cwd=tmp_path)
    talked(shelf.store, 1, stage=Marking("r", "s", "stage"))
    old.set_name("renamed last")
    assert SessionManager.continue_recent(shelf.again()).id == new.id


# What is added.


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("compaction", {"summary": "s", "firstKeptEntryId": "nowhere", "tokensBefore": 1}),
        ("label", {"targetId": "nowhere", "label": "x"}),
        ("label", {"label": "x"}),
        ("session_summary", {"summary": "s", "summarizedThroughId": "nowhere"}),
        ("session_summary", {"summary": "s", "summarizedThroughId": None}),
    ],
)
def test_what_is_spoken_of_must_be_there(kind: str, members: dict[str, Any]) -> None:
    """NotFoundError, and nothing is added."""
    manager = talked(MemoryStore(), 1)
    before = ids(manager)
    with pytest.raises(NotFoundError):
        manager.append(kind, **members)
    assert ids(manager) == before


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("", {}),
        ("session", {}),
        ("leaf", {"leafId": None}),
        ("custom", {"customType": "x", "id": "mine"}),
        ("custom", {"customType": "x", "parentId": None}),
        ("message", {}),
        ("message", {"message": {"content": "no role"}}),
        ("custom", {"customType": "x", "data": float("nan")}),
        ("custom", {"customType": "x", "data": object()}),
        ("custom", {"customType": "x", "data": {1, 2}}),
    ],
)
def test_what_is_no_entry_is_refused(kind: str, members: dict[str, Any], shelf: Shelf) -> None:
    """UsageError, and nothing is added, in memory or in the store."""
    manager = talked(shelf.store, 1)
    before = [entry.raw for entry in manager.entries()]
    with pytest.raises(UsageError):
        manager.append(kind, **members)
    assert [entry.raw for entry in manager.entries()] == before
    assert manager.append_message(user("goes on")) == manager.leaf


def test_members_may_have_any_name() -> None:
    """No member collides with a parameter."""
    manager = SessionManager.create(MemoryStore())
    made = manager.append("custom", kind=1, identity=2, parent=3, at=4)
    assert member(manager, made, "kind") == 1
    assert member(manager, made, "parent") == 3


def test_a_summary_is_one_line_of_160_characters(shelf: Shelf) -> None:
    """White space collapses, what is too long ends in an ellipsis, and lists show it."""
    manager = talked(shelf.store, 1)
    short = manager.append_session_summary("  two\n lines ", manager.path()[0].id)
    assert member(manager, short, "summary") == "two lines"
    long = manager.append_session_summary("word " * 100, manager.path()[0].id)
    said = member(manager, long, "summary")
    assert len(said) <= 160
    assert said.endswith("word…")
    assert [row.summary for row in shelf.store.listed()] == [said]


def test_labels_and_names_are_set_and_taken_away(shelf: Shelf) -> None:
    """The latest wins, an empty one clears, blanks around are no part of it."""
    manager = talked(shelf.store, 1)
    first, second = ids(manager)
    manager.append_label(first, " a ")
    manager.append_label(second, "b")
    manager.append_label(first, "c")
    manager.append_label(second, "  ")
    assert manager.labels() == {first: "c"}
    manager.set_name("  plans ")
    assert manager.name == "plans"
    manager.set_name("")
    assert manager.name == ""
    assert SessionManager.open(shelf.again(), manager.id).labels() == {first: "c"}


class _Full(MemoryStore):
    """A disk that refuses while `full`."""

    full = False

    def append(self, *given: Any, **more: Any) -> None:
        if self.full:
            raise StoreWriteError("The disk is full.")
        super().append(*given, **more)


def test_what_the_disk_refuses_is_not_added() -> None:
    """After StoreWriteError the session stands where it stood, and the next entry hangs there."""
    store = _Full()
    manager = talked(store, 1)
    before = ids(manager)
    store.full = True
    with pytest.raises(StoreWriteError):
        manager.append_message(user("lost"))
    with pytest.raises(StoreWriteError):
        manager.branch_with_summary(before[0], "left")
    said = manager.talk.settings
    with pytest.raises(StoreWriteError):
        manager.append_model_change("other", "model")
    assert (manager.leaf, ids(manager)) == (before[-1], before)
    assert (manager.talk.settings, manager.talk.owes) == (said, False)
    store.full = False
    assert ids(manager) == before
    added = manager.append_message(user("kept"))
    manager.close()
    assert [e.id for e in SessionManager.open(store, manager.id).entries()] == [*before, added]


# Where it stands.


def test_select_a_user_message_stands_before_it_and_gives_its_text(shelf: Shelf) -> None:
    """Its images do not come along; the first message's parent is the empty conversation (section 10.2)."""
    manager = talked(shelf.store, 1)
    two = [{"type": "text", "text": "look "}, {"type": "image", "data": "eA==", "mimeType": "image/png"}]
    above = manager.leaf
    asked = manager.append_message({"role": "user", "content": [*two, {"type": "text", "text": "here"}]})
    manager.append_message(answer("seen"))
    assert manager.select(asked) == "look here"
    assert manager.leaf == above
    assert manager.select(manager.path()[0].id) == "question 0"
    assert (manager.leaf, manager.context().messages) == (None, ())
    manager.close()
    again = SessionManager.open(shelf.again(), manager.id)
    assert again.leaf is None
    assert len([e for e in again.entries() if not e.loose]) == 4


def test_select_other_entries(shelf: Shelf) -> None:
    """A custom message like a person's; every other entry is stood at; the leaf itself changes nothing."""
    manager = talked(shelf.store, 1)
    said = manager.leaf
    note = manager.append_custom_message("ext", "a note")
    kept = manager.append_custom("ext", {})
    last = manager.append_message(user("more"))
    assert (manager.select(last), manager.leaf) == (None, last)  # already at this point
    assert (manager.select(kept), manager.leaf) == (None, kept)
    assert (manager.select(note), manager.leaf) == ("a note", said)
    assert said is not None
    assert (manager.select(said), manager.leaf) == (None, said)
    with pytest.raises(NotFoundError):
        manager.select("nowhere")
    assert manager.leaf == said


def test_where_it_stands_is_where_it_opens(shelf: Shelf) -> None:
    """Also when what was added there is no message, which decides nothing by itself."""
    manager = talked(shelf.store, 2)
    first = manager.path()[1].id
    manager.branch(first)
    label = manager.append_label(first, "here")
    manager.close()
    again = SessionManager.open(shelf.again(), manager.id)
    assert (again.leaf, again.tree().parents[label]) == (label, first)
    summary = again.branch_with_summary(first, "what was tried")
    again.close()
    assert SessionManager.open(shelf.again(), manager.id).leaf == summary


def test_a_branch_summary_hangs_where_it_stands(shelf: Shelf) -> None:
    """`fromId` is its own place, "root" before everything (section 10.3); blank ones say nothing to a model."""
    manager = talked(shelf.store, 2)
    first = manager.path()[1].id
    one = manager.branch_with_summary(first, "tried a", details={"readFiles": []})
    assert (member(manager, one, "fromId"), member(manager, one, "parentId")) == (first, first)
    assert "tried a" in told(manager.context().messages)[-1][1]
    top = manager.branch_with_summary(None, "tried b")
    assert (member(manager, top, "fromId"), member(manager, top, "parentId")) == ("root", None)
    manager.branch_with_summary(first, "  ")
    assert told(manager.context().messages) == [("user", "question 0"), ("assistant", "reply 0")]


def test_what_hangs_on_nothing_is_a_root(shelf: Shelf) -> None:
    """Selecting a person's message whose parent is gone stands before everything; a line outside the tree is none of
    its entries."""
    manager = talked(shelf.store, 1)
    raw = compose.message("0rphan", "gone", 9, dict(user("hello")))
    shelf.store.append(manager.key, [Entry("0rphan", "gone", 0, now_ms() + 10, raw)])
    again = SessionManager.open(shelf.store, manager.id)
    again.branch(ids(manager)[1])
    assert again.select("0rphan") == "hello"
    assert again.leaf is None
    for line in again.entries():
        if line.loose:
            with pytest.raises(NotFoundError):
                again.append_label(line.id, "x")


# Copies.


def test_a_clone_holds_the_open_branch_and_its_labels(shelf: Shelf) -> None:
    """A new session with its parent recorded, entry ids kept; what is off the branch does not come along."""
    manager = talked(shelf.store, 2)
    first, second, third, _ = ids(manager)
    manager.append_label(third, "off the branch")
    manager.append_label(second, "kept")
    manager.branch(second)
    copy = manager.clone()
    assert ids(copy)[:2] == [first, second]
    assert copy.labels() == {second: "kept"}
    assert (copy.entry(third), json.loads(copy.header)["parentSession"]) == (None, manager.id)
    assert copy.context() == manager.context()
    context = copy.context()
    assert SessionManager.open(shelf.again(), copy.id).context() == context


def test_a_fork_before_a_message(shelf: Shelf) -> None:
    """Its text is given back; before the first one the new session is empty; other entries are refused."""
    manager = talked(shelf.store, 2)
    first, second, third, fourth = ids(manager)
    fork, text = manager.fork_before(third)
    assert (ids(fork), text) == ([first, second], "question 1")
    empty, text = manager.fork_before(first)
    assert (ids(empty), text, empty.saved) == ([], "question 0", True)
    with pytest.raises(UsageError):
        manager.fork_before(fourth)
    with pytest.raises(NotFoundError):
        manager.fork_before("nowhere")
    assert ids(manager) == [first, second, third, fourth]


def test_a_fork_holds_all_branches_and_stands_at_the_same_place(shelf: Shelf) -> None:
    """It is there at once; an id that is taken is refused and nothing replaced."""
    manager = talked(shelf.store, 2)
    manager.select(ids(manager)[2])
    fork = SessionManager.fork(shelf.store, manager.id, session_id="copy")
    assert [e.raw for e in fork.entries() if not e.loose] == [e.raw for e in manager.entries() if not e.loose]
    assert (fork.leaf, fork.id) == (manager.leaf, "copy")
    assert SessionManager.open(shelf.again(), "copy").leaf == manager.leaf
    row = copies.whole(shelf.store, manager.key, now_ms())
    assert shelf.store.leaf(row.key) == manager.leaf
    with pytest.raises(SessionExistsError):
        SessionManager.fork(shelf.store, manager.id, session_id="copy")
    with pytest.raises(UsageError):
        SessionManager.create(shelf.store).clone()


def test_copies_of_a_stage_stay_internal(shelf: Shelf) -> None:
    """Marked sessions are in no list unless asked for, open by their id, and their copies are marked (B22)."""
    manager = talked(shelf.store, 1, stage=Marking("run", "one", "First"))
    copy = manager.clone()
    assert list(shelf.store.listed()) == []
    assert {row.facts.id for row in shelf.again().listed(internal=True)} == {manager.id, copy.id}
    again = SessionManager.open(shelf.store, copy.id)
    assert json.loads(again.header)["workflow"] == {
        "runId": "run",
        "stageId": "one",
        "stageName": "First",
    }


# What else a person and a program need.


def test_listing_searching_renaming_deleting(shelf: Shelf) -> None:
    """The store does these."""
    one, two = talked(shelf.store, 1), talked(shelf.store, 1)
    two.append_message(user("about zebras"))
    one.set_name("plans")
    store = shelf.again()
    assert [row.label for row in store.listed(limit=1)] == ["question 0"]
    assert {row.name for row in store.listed()} == {"plans", ""}
    assert [hit.row.facts.id for hit in store.search("zebras")] == [two.id]
    store.delete(one.key)
    assert [row.facts.id for row in store.listed()] == [two.id]
    with pytest.raises(NotFoundError):
        SessionManager.open(store, one.id)


def test_one_writer_at_a_time() -> None:
    """While another living process writes it a write is a BusyError, and reading is not; a claim can be taken over."""
    manager = talked(open_session_store({"dir": "kept"}), 1)
    manager.close()
    with living(lambda: SessionManager.open(open_session_store({"dir": "kept"}), manager.id).claim()):
        mine = SessionManager.open(open_session_store({"dir": "kept"}), manager.id)
        with pytest.raises(BusyError):
            mine.append_message(user("no"))
        assert len(ids(mine)) == 2
        mine.claim(take_over=True)
        mine.append_message(user("yes"))
        assert len(ids(mine)) == 3


def test_nothing_shown_holds_what_was_said(shelf: Shelf) -> None:
    """`repr` names the session and no text of it."""
    manager = talked(shelf.store, 1)
    assert manager.id in repr(manager)
    assert "question" not in repr(manager) + repr(manager.context())


# The law: a session is the tree its calls make, in every store.

CALLS = st.lists(
    st.tuples(
        st.sampled_from(
            ("user", "answer", "custom", "label", "name", "branch", "select", "summary", "reset")
        ),
        st.integers(0, 99),
    ),
    max_size=14,
)


class Book:
    """The same calls on parents in a dict."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.texts: dict[str, str] = {}
        self.leaf: str | None = None

    def add(self, made: str, text: str = "") -> None:
        self.parents[made] = self.leaf
        self.texts[made] = text
        self.leaf = made

    def path(self) -> list[str]:
        found: list[str] = []
        at = self.leaf
        while at is not None:
            found.append(at)
            at = self.parents[at]
        return found[::-1]


def _call(manager: SessionManager, book: Book, call: str, number: int) -> None:
    known = list(book.parents)
    chosen = known[number % len(known)] if known else None
    match call:
        case "user":
            book.add(manager.append_message(user(f"u{number}")), f"u{number}")
        case "answer":
            book.add(manager.append_message(answer(f"a{number}")))
        case "custom":
            book.add(manager.append_custom("ext", number))
        case "name":
            book.add(manager.set_name(f"n{number}"))
        case "reset":
            manager.reset()
            book.leaf = None
        case "summary":
            left = chosen if number % 3 else None
            made = manager.branch_with_summary(left, f"s{number}")
            book.leaf = left
            book.add(made)
        case "label" if chosen is not None:
            book.add(manager.append_label(chosen, f"l{number}"))
        case "branch" if chosen is not None:
            manager.branch(chosen)
            book.leaf = chosen
        case "select" if chosen is not None:
            said = manager.select(chosen)
            if book.leaf == chosen or not book.texts[chosen]:
                assert said is None
                book.leaf = chosen
            else:
                assert said == book.texts[chosen]
                book.leaf = book.parents[chosen]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_a_session_is_the_tree_its_calls_make(tmp_path_factory: pytest.TempPathFactory, calls: Any) -> None:
    """Parents, place and path are those of a dict of parents, and whoever opens it next is told the same."""
    place = tmp_path_factory.mktemp("law")
    for kind, selection in SELECTIONS.items():
        given = {name: place / value if value is not True else value for name, value in selection.items()}
        store, book = open_session_store(given), Book()
        manager = SessionManager.create(store)
        for call, number in calls:
            _call(manager, book, call, number)
            assert (manager.leaf, ids(manager)) == (book.leaf, book.path()), kind
        assert dict(manager.tree().parents) == book.parents, kind
        marks = manager.labels(), manager.name
        manager.close()
        if not manager.saved:
            continue
        if kind != "memory":
            store.close()
            store = open_session_store(given)
        again = SessionManager.open(store, manager.id)
        assert (again.leaf, dict(again.tree().parents)) == (book.leaf, book.parents), kind
        assert (again.labels(), again.name) == marks, kind
        assert again.context() == again.context(again.leaf)
        store.close()
