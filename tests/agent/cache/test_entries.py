"""The cache is the domain's union: whatever comes in whatever order, the same session is there."""

import json
import random
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.cache import stored
from agent.cache.stored import NOW, Emptied, acknowledge, digests, ensure, put, read, said
from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_sessions import merge, tree
from atomic_sessions.clock import MAX_SKEW_MS
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats.pi import view
from strategies import forests

PROPERTY = settings(max_examples=60, deadline=None)


@st.composite
def lines(draw: st.DrawFn) -> list[Entry]:
    """Sightings of a few lines: same id with other bytes, other places, other times, names and titles."""
    pool: list[Entry] = []
    for index in range(4):
        for variant in range(3):
            body: dict[str, object] = {"type": "message", "id": f"e{index}", "v": variant}
            kind = draw(st.sampled_from(["user", "assistant", "toolResult", "name", "summary"]))
            if kind == "name":
                body |= {"type": "session_info", "name": f"name {variant}"}
            elif kind == "summary":
                body |= {"type": "session_summary", "summary": f"summary {variant}"}
            else:
                body |= {"message": {"role": kind, "content": f"text {index} {variant}"}}
            pool.append(Entry(f"e{index}", None, 0, 0, json.dumps(body).encode()))
    seen = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=12))
    placed = [
        msgspec.structs.replace(e, pos=draw(st.integers(0, 9)), stamp=draw(st.integers(1, 99))) for e in seen
    ]
    # Another machine's cache may have settled a clash already.
    settled = [merge.clashing_id(e.id, e.raw) for e in placed]
    return [
        msgspec.structs.replace(e, id=i) if draw(st.integers(0, 4)) == 0 else e
        for e, i in zip(placed, settled, strict=True)
    ]


def _union(batches: list[list[Entry]]) -> dict[str, Entry]:
    copy: dict[str, Entry] = {}
    for batch in batches:
        for entry in batch:
            merge.add(copy, entry)
    return copy


@PROPERTY
@given(sightings=lines(), cuts=st.lists(st.integers(0, 12), max_size=4), seed=st.integers(0, 999))
def test_inserting_is_the_union(emptied: Emptied, sightings: list[Entry], cuts: list[int], seed: int) -> None:
    """Any split, order and repetition of entries gives exactly `merge.union`, in canonical order."""
    cache = emptied.fresh()
    session = ensure(cache)
    random.Random(seed).shuffle(sightings)
    edges = sorted({0, len(sightings), *(c for c in cuts if c < len(sightings))})
    batches = [sightings[a:b] for a, b in pairwise(edges)]
    for batch in [*batches, batches[0]]:
        put(cache, session, batch)
    wanted = merge.canonical(_union([[e] for e in sightings]).values())
    assert read(cache, session) == wanted


@PROPERTY
@given(
    sightings=lines(),
    size=st.integers(1, 12),
    received=st.lists(st.none() | st.integers(0, 200), min_size=12, max_size=12),
)
def test_a_list_depends_on_the_set_alone(
    emptied: Emptied, sightings: list[Entry], size: int, received: list[int | None]
) -> None:
    """A session's row, folded entry by entry, is what it would be if made anew from all entries."""
    cache = emptied.fresh()
    session = ensure(cache)
    for at in range(0, len(sightings), size):
        put(cache, session, sightings[at : at + size], received=received[at])
        before, after = digests(cache, session)
        assert before == after


@PROPERTY
@given(sightings=lines(), seed=st.integers(0, 999))
def test_two_machines_list_the_same(emptied: Emptied, sightings: list[Entry], seed: int) -> None:
    """Two copies that got the same entries in different orders have equal rows and equal entries."""
    found = []
    for one in (sightings, random.Random(seed).sample(sightings, len(sightings))):
        cache = emptied.fresh()
        session = ensure(cache)
        for entry in one:
            put(cache, session, [entry])
        found.append((digests(cache, session)[0], read(cache, session)))
    assert found[0] == found[1]


@PROPERTY
@given(
    forest=forests(size=14),
    received=st.lists(st.none() | st.integers(0, 2 * 10**12), min_size=14, max_size=14),
)
def test_the_leaf_is_the_trees(emptied: Emptied, forest: list[Entry], received: list[int | None]) -> None:
    """The entry that opens, found in the tail alone, is `tree.leaf` over the whole session."""
    cache = emptied.fresh()
    session = ensure(cache)
    put(cache, session, forest)
    for entry, at in zip(forest, received, strict=False):
        if at is not None:
            acknowledge(cache, session, [entry.id], at)
    whole = list(entries.read(cache, session))
    nodes = entries.nodes(whole, [view(e.entry.raw) for e in whole])
    times = {e.entry.id: e.received for e in whole if e.received is not None}
    assert leaf.newest_leaf(cache, session) == tree.leaf(tree.build(nodes), times)
    before, after = digests(cache, session)
    assert before == after


@PROPERTY
@given(forest=forests(size=12), seed=st.integers(0, 999))
def test_the_leaf_survives_copies_with_other_places(emptied: Emptied, forest: list[Entry], seed: int) -> None:
    """Copies whose lines stand in other orders, children never before parents, open the same leaf."""
    cache = emptied.fresh()
    session = ensure(cache)
    chooser = random.Random(seed)
    for _ in range(2):
        waiting, placed = list(forest), set[str]()
        for pos in range(len(forest)):
            ready = [e for e in waiting if e.parent is None or e.parent in placed]
            entry = chooser.choice(ready)
            waiting.remove(entry)
            placed.add(entry.id)
            put(cache, session, [msgspec.structs.replace(entry, pos=pos)])
    whole = read(cache, session)
    nodes = entries.nodes(whole, [view(e.raw) for e in whole])
    assert leaf.newest_leaf(cache, session) == tree.leaf(tree.build(nodes), {})


def test_a_clock_far_ahead_is_bounded_when_the_service_answers(cache: Cache) -> None:
    """A message stamped in the future is the newest until the service says when it saw it."""
    session = ensure(cache)
    put(cache, session, [said("future", None, "from 2090", pos=0, stamp=NOW + 10**12)])
    put(cache, session, [said("now", None, "today", pos=1, stamp=NOW + 3 * MAX_SKEW_MS)])
    assert leaf.leaf(cache, session) == "future"
    acknowledge(cache, session, ["future"], NOW)
    assert leaf.leaf(cache, session) == "now"
    row = sessions.get(cache, session)
    assert row.newest_at == NOW + 3 * MAX_SKEW_MS
    before, after = digests(cache, session)
    assert before == after


def test_the_first_sight_of_the_service_holds(cache: Cache) -> None:
    """A later acknowledgement, or one that comes with the record, never moves an entry's time up."""
    session = ensure(cache)
    entry = said("x", None, "text", pos=0, stamp=NOW)
    put(cache, session, [entry], received=NOW + 5)
    acknowledge(cache, session, ["x"], NOW + 9)
    put(cache, session, [entry], received=NOW + 7, sealed=True)
    assert [e.received for e in entries.read(cache, session)] == [NOW + 5]
    acknowledge(cache, session, ["x"], NOW + 1)
    assert [e.received for e in entries.read(cache, session)] == [NOW + 1]


def test_acknowledging_many_at_once(cache: Cache) -> None:
    """More ids than one statement takes are all marked, unknown ones are passed over."""
    session = ensure(cache)
    many = [said(f"e{n}", None, "x", pos=n, stamp=n + 1) for n in range(1000)]
    put(cache, session, many)
    acknowledge(cache, session, ["nobody", *(e.id for e in many)], 7)
    assert {e.received for e in entries.read(cache, session)} == {7}


def test_a_move_holds_until_a_later_message(cache: Cache) -> None:
    """Where the person stands holds through names and older messages, and ends with a newer message."""
    session = ensure(cache)
    put(
        cache,
        session,
        [said("a", None, "q", pos=0, stamp=10), said("b", "a", "r", pos=1, stamp=20, role="assistant")],
    )
    with transaction(cache.connection):
        leaf.move(cache, session, "a")
    assert leaf.leaf(cache, session) == "a"
    name = Entry("n", "b", 2, 30, b'{"type":"session_info","id":"n","parentId":"b","name":"N"}')
    put(cache, session, [name, said("old", "a", "older", pos=3, stamp=15)])
    assert leaf.leaf(cache, session) == "a"
    put(cache, session, [said("c", "b", "newer", pos=4, stamp=40)])
    assert leaf.leaf(cache, session) == "c"


def test_a_move_to_the_start(cache: Cache) -> None:
    """Standing before the first entry is a place too."""
    session = ensure(cache)
    put(cache, session, [said("a", None, "q", pos=0, stamp=10)])
    with transaction(cache.connection):
        leaf.move(cache, session, None)
    assert leaf.leaf(cache, session) is None
    assert leaf.newest_leaf(cache, session) == "a"


@pytest.mark.parametrize("size", [0, 1, 159, 160, 161, 1_000_000])
@pytest.mark.parametrize("noise", [False, True])
def test_lines_of_any_size_come_back(cache: Cache, size: int, *, noise: bool) -> None:
    """Empty, tiny, compressible, incompressible and large lines are kept byte for byte."""
    session = ensure(cache)
    raw = random.Random(size).randbytes(size) if noise else b"a" * size
    put(cache, session, [Entry("x", None, 0, 1, raw, loose=True)])
    assert read(cache, session)[0].raw == raw
    stored_size = cache.connection.execute("SELECT size, length(raw) FROM session_entries").fetchone()
    assert stored_size[0] == size
    assert stored_size[1] <= size


IDS = ["", "x\x00y", "x", "x\x00", "\ufffd", "'; DROP TABLE", "e~0", "é", "e\u0301", "a" * 5000]


def test_ids_of_any_text(cache: Cache) -> None:
    """Entry ids that are empty, hold NULs or look alike are different entries, found one by one."""
    session = ensure(cache)
    put(cache, session, [Entry(i, None, n, n + 1, f"line {n}".encode()) for n, i in enumerate(IDS)])
    assert [e.id for e in read(cache, session)] == IDS
    for number, entry_id in enumerate(IDS):
        found = entries.one(cache, session, entry_id)
        assert found is not None
        assert found.raw == f"line {number}".encode()
        assert entries.stamp_of(cache, session, entry_id) == number + 1
    assert entries.one(cache, session, "nobody") is None
    assert entries.stamp_of(cache, session, "nobody") == 0


def test_lone_surrogates_in_a_line(cache: Cache) -> None:
    """JSON escapes of half characters are kept byte for byte, found by their other words, and listed."""
    session = ensure(cache)
    raw = rb'{"type":"message","id":"\ud83dx","parentId":null,"message":{"role":"user","content":"half \ud83d emu"}}'
    said_ = view(raw)
    assert said_.id == "\ufffdx"
    put(cache, session, [Entry(said_.id, None, 0, 1, raw)])
    assert read(cache, session)[0].raw == raw
    assert "emu" in sessions.get(cache, session).first_message


def test_a_branch_is_walked_to_its_root(cache: Cache) -> None:
    """From any entry up to its root; an unknown parent ends it, a cycle does not hang it."""
    session = ensure(cache)
    put(
        cache,
        session,
        [
            said("a", None, "1", pos=0, stamp=1),
            said("b", "a", "2", pos=1, stamp=2),
            said("orphan", "gone", "3", pos=2, stamp=3),
            said("c1", "c2", "4", pos=3, stamp=4),
            said("c2", "c1", "5", pos=4, stamp=5),
        ],
    )
    assert [e.id for e in [*entries.climb(cache, session, "b")][::-1]] == ["a", "b"]
    assert [e.id for e in [*entries.climb(cache, session, "orphan")][::-1]] == ["orphan"]
    assert {e.id for e in [*entries.climb(cache, session, "c1")][::-1]} == {"c1", "c2"}
    assert [*entries.climb(cache, session, None)][::-1] == []
    assert [*entries.climb(cache, session, "nobody")][::-1] == []


def test_side_files_are_no_lines(cache: Cache) -> None:
    """A side file travels with the session and shows in none of its derived columns."""
    session = ensure(cache)
    put(cache, session, [said("a", None, "q", pos=0, stamp=10)])
    before = digests(cache, session)[0]
    put(
        cache,
        session,
        [Entry("file:t/1.txt", None, 0, 99, b'{"type":"session_info","name":"no"}', True, "t/1.txt")],
    )
    assert digests(cache, session)[0] == before
    assert leaf.leaf(cache, session) == "a"


def test_nested_transactions_are_one(cache: Cache) -> None:
    """An inner transaction joins the outer one, and a failure takes all of it back."""
    session = ensure(cache)

    def fail() -> None:
        with transaction(cache.connection):
            with transaction(cache.connection):
                stored.put(cache, session, [said("a", None, "q", pos=0, stamp=1)])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert read(cache, session) == []
    assert sessions.get(cache, session).messages == 0


def test_a_session_row_is_made_once(cache: Cache) -> None:
    """A second sighting fills in what was not known and takes the earlier creation time, nothing else."""
    bare = Facts("pi", stored.UUID, "", "", "", NOW)
    one = ensure(cache, bare)
    two = ensure(cache, Facts("pi", stored.UUID, "", "/here", "git:h/p", NOW - 5))
    three = ensure(cache, Facts("pi", stored.UUID, "", "/other", "git:h/q", NOW + 5))
    assert one == two == three
    row = sessions.get(cache, one)
    assert (row.cwd, row.project, row.created_at) == ("/here", "git:h/p", NOW - 5)
