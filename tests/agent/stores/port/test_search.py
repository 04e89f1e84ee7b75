"""Words in sessions: the same answers from every store."""

import pytest

from agent.stores.port.kinds import NOW, needs
from agent.stores.port.said import OTHER, UUID, facts, made, message
from atomic_agent.stores import marks
from atomic_agent.stores.port import Store

SAID = (
    "The Quick brown fox",
    "jumps over the lazy dog",
    "naïve Café über_alles snake_case path/to/file.py",
    "42 times",
    "日本語のテキスト and more",
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("quick", [0]),
        ("QUICK fox", [0]),
        ("fox quick", [0]),
        ("quick dog", []),
        ("qui", [0]),
        ("qui fox", []),
        ('"quick brown"', [0]),
        ('"brown quick"', []),
        ('"quick bro"', []),
        ('the "quick brown" fo', [0]),
        ("the", [1, 0]),
        ("cafe naive", [2]),
        ("CAFÉ", [2]),
        ("file.py", [2]),
        ("snake_case", [2]),
        ("case", [2]),
        ("42", [3]),
        ("日本", [4]),
        ("", []),
        ("   ", []),
        ('""', []),
        ("*", []),
        ("fox OR dog", []),
        ("(fox", [0]),
        ("fox\x00", [0]),
        ("a\ud800b", []),
    ],
)
@needs("many")
def test_words(store: Store, query: str, found: list[int]) -> None:
    """Every word must occur, the last may be a beginning, quotes make a phrase, no sign is an operator."""
    for number, text in enumerate(SAID):
        store.create(facts(store, f"s{number}", at=NOW + number), [message("m", None, text, at=NOW + number)])
    assert [int(hit.row.facts.id[1:]) for hit in store.search(query)] == found


@needs("many")
def test_a_hit_shows_where(store: Store) -> None:
    """The first entry that matches, and the text around the word, once a session, newest session first."""
    made(store, at=NOW + 90_000)
    text = "before " * 30 + "needle" + " after" * 30
    key = made(store, OTHER)
    store.append(key, [message("one", "a0.1", text, at=NOW + 5), message("two", "one", "needle", at=NOW + 6)])
    (hit,) = store.search("needle")
    assert (hit.row.key, hit.entry) == (key, "one")
    assert "before needle after" in hit.snippet
    assert len(hit.snippet) < 250
    assert [hit.row.facts.id for hit in store.search("prompt")] == [UUID, OTHER]
    assert [hit.row.facts.id for hit in store.search("prompt", limit=1)] == [UUID]


@needs("many")
def test_names_and_later_turns_are_found_and_deleted_ones_not(store: Store) -> None:
    """What comes in is searched at once, what goes is found no more."""
    key = made(store)
    marks.rename(store, key, "Refactor auth", NOW)
    store.append(key, [message("late", store.leaf(key), "zebra")])
    assert [hit.row.key for hit in store.search("refactor")] == [key]
    assert [hit.entry for hit in store.search("zebra")] == ["late"]
    store.delete(key)
    assert list(store.search("zebra")) == []
