"""Turns taken back in Codex stay taken back: on every machine, in a fork too, whatever was captured first."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.capture.files import Record, append, capture, exported, rows, text_of, write
from agent.capture.test_codex_log import FORK, ID, _back, _file, _meta, _open, _turn
from agent.sync.account import Node, account, settle
from agent.sync.memory_log import MemoryLog
from atomic_agent.cache import entries, leaf
from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey

DEEP = "01a22c89-f565-7b90-8cc4-600ad556fddd"
BASE = [_meta(), *_turn(1, "1"), *_turn(2, "2")]
PLAIN = [_meta(), *_turn(1, "1", paginated=False), *_turn(2, "2", paginated=False)]

Tree = dict[str, set[tuple[str, str | None, int]]]
Shared = tuple[list[Node], MemoryLog]

OWN: dict[str, tuple[list[Record], list[str]]] = {
    "into the history": ([*_turn(3, "3"), _back(4, 2), *_turn(5, "5")], ["1", "5"]),
    "at the end": ([*_turn(3, "3"), _back(4, 2)], ["1"]),
    "as its first line": ([_back(4, 1), *_turn(5, "5")], ["1", "5"]),
    "all of its own": ([*_turn(3, "3"), _back(4, 1), *_turn(5, "5")], ["1", "2", "5"]),
    "one after another": (
        [*_turn(3, "3"), _back(4, 2), *_turn(5, "5"), _back(6, 2), *_turn(7, "7"), _back(8, 1)],
        [],
    ),
    "everything there is": ([*_turn(3, "3"), _back(4, 99), *_turn(5, "5")], ["5"]),
}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], Cache]]:
    """Makes caches of machines that have nothing yet."""
    made: list[Cache] = []

    def make() -> Cache:
        folder = tmp_path / f"cache{len(made)}"
        made.append(Cache.open(folder / "journal.sqlite", LocalKey(bytes(32)), folder / "journal.keyinfo"))
        return made[-1]

    yield make
    for cache in made:
        cache.close()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    """Two machines of one account."""
    nodes, log = account(tmp_path / "machines", 2)
    yield nodes, log
    for node in nodes:
        node.close()


def _said(names: list[str]) -> list[str]:
    return [f"{what} {name}" for name in names for what in ("ask", "say")]


def _tree(cache: Cache) -> Tree:
    return {
        name: {(s.entry.id, s.entry.parent, s.entry.pos) for s in entries.read(cache, row.key)}
        for name, row in rows(cache).items()
    }


def _fork(folder: Path, base: list[Record], own: list[Record], session: str = FORK, left: str = ID) -> Path:
    history = {"thread_id": left, "end_ordinal_exclusive": len(base), "end_byte_offset": len(text_of(base))}
    return write(_file(folder, session), _meta(session, 3, forked_from_id=left, history_base=history), *own)


@pytest.mark.parametrize("base", [BASE, PLAIN], ids=["turns marked", "turns not marked"])
@pytest.mark.parametrize(("own", "kept"), OWN.values(), ids=OWN)
def test_a_fork_in_any_order(
    fresh: Callable[[], Cache], tmp_path: Path, base: list[Record], own: list[Record], kept: list[str]
) -> None:
    """Its session first, the fork first, both at once in either order, or line by line as it is written, before or
    after its session: one tree, and the same turns open."""
    parent = write(_file(tmp_path / "a", ID), *base)
    fork = _fork(tmp_path / "b", base, own)
    trees: list[Tree] = []
    for order in ((parent, fork), (fork, parent)):
        apart, together, live = fresh(), fresh(), fresh()
        for path in order:
            capture(apart, path)
        capture(together, *order)
        growing = _file(tmp_path / f"live{len(trees)}", FORK)
        growing.parent.mkdir()
        if order[0] == parent:
            capture(live, parent)
        for line in fork.read_bytes().splitlines(keepends=True):
            append(growing, line)
            capture(live, growing)
        capture(live, parent)
        for cache in (apart, together, live):
            assert _open(cache, FORK) == _said(kept)
            trees.append(_tree(cache))
    assert all(tree == trees[0] for tree in trees)


def test_a_fork_of_a_fork_in_any_order(fresh: Callable[[], Cache], tmp_path: Path) -> None:
    """What the first one took back is not in the second, which takes back some of what the first one kept."""
    paths = [write(_file(tmp_path, ID), *BASE)]
    own = [*_turn(3, "3"), _back(4, 2), *_turn(5, "5")]
    paths.append(_fork(tmp_path, BASE, own))
    told = [*BASE, _meta(FORK, 3), *own]
    paths.append(_fork(tmp_path, told, [*_turn(8, "8"), _back(9, 2), *_turn(10, "10")], DEEP, FORK))
    trees = []
    for order in itertools.permutations(paths):
        cache = fresh()
        for path in order:
            capture(cache, path)
        assert _open(cache, FORK) == _said(["1", "5"])
        assert _open(cache, DEEP) == _said(["1", "10"])
        trees.append(_tree(cache))
    assert all(tree == trees[0] for tree in trees)


@pytest.mark.parametrize("synced", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize(("own", "kept"), OWN.values(), ids=OWN)
def test_machines_that_captured_in_other_orders(
    shared: Shared, tmp_path: Path, own: list[Record], kept: list[str], synced: tuple[bool, ...]
) -> None:
    """One that knew the history and one that did not agree once they exchanged everything, whenever they did."""
    (a, b), log = shared
    parent = write(_file(tmp_path / "x", ID), *BASE)
    fork = _fork(tmp_path / "y", BASE, own)
    steps = ((a, [fork]), (b, [parent, fork]), (a, [fork]))
    for (node, paths), exchange in zip(steps, synced, strict=True):
        capture(node.journal.cache, *paths)
        if exchange:
            settle([a, b], log)
    settle([a, b], log)
    assert a.state() == b.state()
    for node in (a, b):
        assert _open(node.journal.cache, FORK) == _said(kept)


def test_a_place_that_is_known_only_elsewhere(shared: Shared, tmp_path: Path) -> None:
    """A fork's lines from a machine without its history, the history from this one: placed at the next capture."""
    (a, b), log = shared
    own, kept = OWN["into the history"]
    capture(a.journal.cache, _fork(tmp_path / "y", BASE, own))
    assert _open(a.journal.cache, FORK) == _said(["5"])
    settle([a, b], log)
    capture(b.journal.cache, write(_file(tmp_path / "x", ID), *BASE))
    settle([a, b], log)
    assert a.state() == b.state()
    assert _open(a.journal.cache, FORK) == _open(b.journal.cache, FORK) == _said(kept)


def test_a_place_is_found_again_after_the_history_came_by_itself(shared: Shared, tmp_path: Path) -> None:
    """Lines of a fork that is whole here, from a machine on which it is not."""
    (a, b), log = shared
    own, kept = OWN["into the history"]
    capture(b.journal.cache, write(_file(tmp_path / "x", ID), *BASE), _fork(tmp_path / "b", BASE, own[:7]))
    capture(a.journal.cache, _fork(tmp_path / "a", BASE, own))
    settle([a, b], log)
    capture(b.journal.cache, _file(tmp_path / "x", ID))
    settle([a, b], log)
    assert a.state() == b.state()
    assert _open(a.journal.cache, FORK) == _open(b.journal.cache, FORK) == _said(kept)


@pytest.mark.parametrize("turns", [1, 2])
def test_the_end_of_a_session_opens_the_same_everywhere(shared: Shared, tmp_path: Path, turns: int) -> None:
    """A roll-back with nothing after it: no machine opens what was taken back, and all go on from the same place."""
    (a, b), log = shared
    path = write(_file(tmp_path, ID), *BASE, _back(3, turns), _back(4, 0))
    capture(a.journal.cache, path)
    settle([a, b], log)
    kept = ["1", "2"][: 2 - turns]
    for node in (a, b):
        assert _open(node.journal.cache, ID) == _said(kept)
        assert exported(node.journal.cache, ID) == path.read_bytes()
    assert a.state() == b.state()
    append(path, *_turn(5, "5"))
    capture(b.journal.cache, path)
    settle([a, b], log)
    for node in (a, b):
        assert _open(node.journal.cache, ID) == _said([*kept, "5"])
    assert a.state() == b.state()


def test_where_a_person_stands_after_a_roll_back_is_not_stored(
    fresh: Callable[[], Cache], tmp_path: Path
) -> None:
    """It follows from the lines, so that a cache made anew opens the same."""
    cache = fresh()
    capture(cache, write(_file(tmp_path, ID), *BASE, _back(3, 1)))
    key = rows(cache)[ID].key
    moved = cache.connection.execute("SELECT moved_leaf, moved_over FROM session_sessions").fetchone()
    assert moved == (None, None)
    assert leaf.leaf(cache, key) == leaf.newest_leaf(cache, key)
