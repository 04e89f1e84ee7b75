"""Search finds what was said, named and titled, takes every character as text, and forgets what was deleted."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.cache.stored import UUID, Emptied, ensure, facts, put, said
from atomic_agent.cache import sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.cache.search import CONTEXT_CHARS, match_expression, search, snippet
from atomic_sessions.entry import Entry

TEXT = "The brown pelican dives for fish; don't feed it. naïve café 日本語 C++ a-b foo_bar"


@pytest.fixture
def found(cache: Cache) -> Cache:
    """Two sessions that share a word."""
    one = ensure(cache)
    put(cache, one, [said("a", None, TEXT, pos=0, stamp=10)])
    two = ensure(cache, facts("notes", scope="git:h/p"))
    put(cache, two, [said("b", None, "another pelican", pos=0, stamp=20, role="assistant")])
    return cache


def _ids(cache: Cache, query: str) -> list[str]:
    return [hit.session.id for hit in search(cache, query)]


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ("pelican", 2),
        ("PELICAN", 2),
        ("pel", 2),
        ("brown pelican", 1),
        ("pelican brown", 1),
        ('"brown pelican"', 1),
        ('"pelican brown"', 0),
        ('"brown pel"', 0),
        ('"brown pel', 1),
        ("bro pelican", 0),
        ("cafe", 1),
        ("naive caf", 1),
        ("日本語", 1),
        ("don't", 1),
        ("C++", 2 - 1),
        ("foo_bar", 1),
        ("penguin", 0),
        ("", 0),
        ("   ", 0),
        ('"', 0),
        ('""', 0),
    ],
)
def test_words_phrases_and_beginnings(found: Cache, query: str, hits: int) -> None:
    """Every word must occur in any order, the last may be a beginning, quotes make a phrase."""
    assert len(_ids(found, query)) == hits


@pytest.mark.parametrize(
    "query",
    [
        "pelican OR penguin",
        "NOT pelican",
        "pelican AND fish",
        "NEAR(brown pelican)",
        "text: pelican",
        "-pelican",
        "pel* (",
        "^pelican penguin",
    ],
)
def test_operators_are_text(found: Cache, query: str) -> None:
    """FTS5's own operators are words like any other: what has none of them is not found."""
    assert _ids(found, query) == ([] if query != "-pelican" else _ids(found, "pelican"))


@settings(max_examples=150, deadline=None)
@given(query=st.text(max_size=30) | st.text(alphabet='"*()^:-+ {}\x00ab\ud83d', max_size=12))
@example(query="\x00")
@example(query='a\x00b "c')
@example(query="\ud83d")
@example(query="a" * 100_000)
def test_no_query_fails(emptied: Emptied, query: str) -> None:
    """Whatever a person types or pastes is an answer, perhaps none."""
    cache = emptied.fresh()
    put(cache, ensure(cache), [said("a", None, TEXT, pos=0, stamp=10)])
    for hit in search(cache, query):
        assert hit.entry == "a"
    assert isinstance(snippet(TEXT, query), str)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=20))
def test_what_was_said_is_found(emptied: Emptied, text: str) -> None:
    """Any word of letters and digits finds the message it is the whole of."""
    cache = emptied.fresh()
    put(cache, ensure(cache), [said("a", None, text, pos=0, stamp=10)])
    assert [hit.entry for hit in search(cache, f'"{text}"')] == ["a"]


def test_newest_session_first_one_hit_each(found: Cache) -> None:
    """A session shows once, by the time of its newest message, with the entry that matches."""
    put(found, 1, [said("a2", "a", "a third pelican", pos=1, stamp=5)])
    assert [(h.session.id, h.entry) for h in search(found, "pelican")] == [("notes", "b"), (UUID, "a")]
    assert len(list(search(found, "pelican", limit=1))) == 1


def _line(entry_id: str, **members: object) -> Entry:
    return Entry(entry_id, None, 0, 1, json.dumps({"id": entry_id, **members}).encode())


@pytest.mark.parametrize(
    ("agent", "entry", "word", "hit"),
    [
        ("pi", _line("n", type="session_info", name="Mend the quokka"), "quokka", True),
        ("pi", _line("s", type="session_summary", summary="About the quokka"), "quokka", True),
        ("pi", _line("b", type="branch_summary", summary="Left the quokka"), "quokka", True),
        ("pi", _line("c", type="custom_message", content="a quokka note", customType="x"), "quokka", True),
        ("claude-code", _line("t", type="custom-title", customTitle="A quokka"), "quokka", True),
        ("claude-code", _line("u", type="ai-title", aiTitle="A quokka"), "quokka", True),
        ("claude-code", _line("v", type="summary", summary="A quokka", leafUuid="x"), "quokka", True),
        (
            "pi",
            _line("r", type="message", message={"role": "toolResult", "content": "quokka"}),
            "quokka",
            False,
        ),
        ("pi", _line("y", type="message", message={"role": "system", "content": "quokka"}), "quokka", False),
    ],
)
def test_what_is_searched(cache: Cache, agent: str, entry: Entry, word: str, *, hit: bool) -> None:
    """Messages, names, titles and summaries are found; tool output and system prompts are not."""
    put(cache, ensure(cache, facts(agent=agent)), [entry], agent=agent)
    assert bool(list(search(cache, word))) is hit


def test_thinking_is_not_searched(cache: Cache) -> None:
    """Only what was said aloud is found."""
    content = [{"type": "thinking", "thinking": "secretly"}, {"type": "text", "text": "aloud"}]
    put(cache, ensure(cache), [_line("a", type="message", message={"role": "assistant", "content": content})])
    assert list(search(cache, "aloud"))
    assert not list(search(cache, "secretly"))


def test_after_deletion_nothing_is_found(found: Cache) -> None:
    """A deleted session has no hits, the others keep theirs."""
    with transaction(found.connection):
        sessions.mark_deleted(found, 1)
    assert _ids(found, "pelican") == ["notes"]
    assert _ids(found, "brown") == []
    rows = found.connection.execute("SELECT count(*) FROM session_search WHERE session_search MATCH 'brown'")
    assert rows.fetchone() == (0,)


def test_a_line_that_lost_its_id_is_still_found(cache: Cache) -> None:
    """When two lines carry one id both are found, under the ids they have now."""
    session = ensure(cache)
    put(cache, session, [said("x", None, "first walrus", pos=0, stamp=1)])
    put(cache, session, [said("x", None, "second narwhal", pos=0, stamp=1)])
    hits = {word: [h.entry for h in search(cache, word)] for word in ("walrus", "narwhal")}
    assert sorted(len(h[0]) for h in hits.values()) == [1, 18]


def test_the_snippet_shows_the_word() -> None:
    """Some text around the first word found, on one line, marked where it is cut."""
    text = "x " * 300 + "the\npelican  dives" + " y" * 300
    shown = snippet(text, "zebra pelican")
    assert "the pelican dives" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 3 * CONTEXT_CHARS + 2
    assert snippet("short", "nothing") == "short"
    assert snippet("", "x") == ""


@given(st.text(max_size=40))
def test_every_part_of_an_expression_is_quoted(query: str) -> None:
    """An expression is quoted words with at most one star at its end."""
    expression = match_expression(query)
    outside = "".join(expression.split('"')[::2])
    assert set(outside) <= {" ", "*"}
    assert outside.count("*") <= 1
