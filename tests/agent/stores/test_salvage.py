"""A damaged cache gives up all that can be read, and nothing that was not in it."""

import random
from pathlib import Path

import pytest

from agent.stores.damage import (
    DEAD,
    LINES,
    PAGE,
    SESSIONS,
    TOMBSTONE,
    Hurt,
    Original,
    assert_sound,
    session_id,
)
from atomic_agent.cache import outbox, sessions, turns
from atomic_agent.stores import salvage
from atomic_agent.stores.repair import Repaired
from atomic_agent.sync.pulling import CURSOR, SEEN
from atomic_sessions.errors import CacheRefusedError
from atomic_sessions.ids import SessionKey

ROWS_IN_REACH = 40
"""More entries than one page of the test's cache holds."""


@pytest.mark.parametrize("seed", range(30))
def test_random_damage(original: Original, seed: int) -> None:
    """Flipped bits, blank pages and cut ends: what is kept is as it was, and what no broken page held is kept."""
    chance = random.Random(seed)
    hurt = original.copy()
    pages = hurt.pages
    kind = ("flip", "blank", "cut")[seed % 3]
    untouched = {0, *original.schema, original.roots["session_entries"], original.roots["session_sessions"]}
    if kind == "cut":
        hit = set(range(chance.randrange(max(original.roots.values()) + 1, pages), pages))
        hurt.cut(min(hit))
    else:
        hit = set(chance.sample(sorted(set(range(pages)) - untouched), chance.randrange(1, 6)))
        for page in hit:
            hurt.flip(page, chance.randrange(PAGE)) if kind == "flip" else hurt.blank(page)
    before = hurt.home.cache.read_bytes()
    done = hurt.repair()
    if done.healthy:  # only pages that nothing lies in
        assert hurt.lines() == original.lines
        return
    assert done.readable
    assert Path(done.kept_aside).read_bytes() == before
    kept = assert_sound(hurt, done, original)
    lost = len(original.lines) - len(kept)
    assert lost <= ROWS_IN_REACH * len(hit)
    assert done.salvaged.entries_lost in {lost, None}
    assert hurt.repair().healthy


def test_one_page_of_entries(original: Original) -> None:
    """A few entries are lost and counted, four fifths and more are kept, and all is offered again."""
    hurt, done = _first_loss(original)
    kept = assert_sound(hurt, done, original)
    assert len(kept) >= 0.8 * len(original.lines)
    assert done.salvaged.entries_lost == len(original.lines) - len(kept) > 0
    assert done.salvaged.broken_pages == 1
    assert not done.salvaged.certain
    assert done.salvaged.sessions == SESSIONS


def _first_loss(original: Original) -> tuple[Hurt, Repaired]:
    for page in range(max(original.roots.values()) + 1, 200):
        hurt = original.copy()
        hurt.flip(page)
        done = hurt.repair()
        if not done.healthy and done.salvaged.entries_lost:
            return hurt, done
    raise AssertionError("no page holds entries")


def test_several_broken_pages_with_whole_ones_between(original: Original) -> None:
    """Every third page of the cache is broken: entries of the pages between them are found."""
    hurt = original.copy()
    inner = {0, *original.schema, *original.roots.values()}
    for page in set(range(0, hurt.pages, 3)) - inner:
        hurt.flip(page)
    kept = assert_sound(hurt, hurt.repair(), original)
    assert len(kept) > 0.4 * len(original.lines)


@pytest.mark.parametrize("table", ["session_search_data", "session_search_docsize", "session_by_time"])
def test_what_follows_from_entries_is_made_anew(original: Original, table: str) -> None:
    """Damage to the search or an index alone loses nothing: the place in the log stays, the writer is new."""
    hurt = original.copy()
    hurt.flip(original.roots[table])
    done = hurt.repair()
    assert assert_sound(hurt, done, original) == original.lines
    assert done.salvaged.certain
    assert done.salvaged.entries_lost == 0
    with hurt.open() as cache:
        assert cache.get("cursor") == b"here"


def test_the_root_of_the_entries(original: Original) -> None:
    """All entries are out of reach and counted by their index; sessions and unfinished turns stay."""
    hurt = original.copy()
    hurt.flip(original.roots["session_entries"])
    done = hurt.repair()
    assert assert_sound(hurt, done, original) == {}
    assert done.salvaged.entries_lost == len(original.lines) == SESSIONS * LINES
    assert done.salvaged.turns == 1
    with hurt.open() as cache:
        (turn,) = turns.pending(cache)
        assert turn.begun.prompt == "a prompt"


def test_a_session_whose_row_is_gone(original: Original) -> None:
    """Its name comes from the index, its entries stay together, and one without entries is not invented."""
    hurt = original.copy()
    hurt.flip(original.roots["session_sessions"])
    done = hurt.repair()
    kept = assert_sound(hurt, done, original)
    assert kept == original.lines
    assert done.salvaged.sessions_lost == 1
    with hurt.open() as cache:
        row = sessions.by_key(cache, SessionKey("pi", session_id(0), ""))
        assert row is not None
        assert row.first_message.startswith("word0")
        assert sessions.by_key(cache, SessionKey("pi", DEAD, "")) is None


def test_what_was_deleted_stays_deleted(original: Original) -> None:
    """Tombstones come over and are told again."""
    hurt, _ = _first_loss(original)
    with hurt.open() as cache:
        assert outbox.is_tombstoned(cache, TOMBSTONE)
        assert not outbox.is_tombstoned(cache, TOMBSTONE, in_log=True)
        assert sessions.is_deleted(cache, SessionKey("pi", DEAD, ""))
        assert len(sessions.doomed(cache)) == 1


def test_tables_of_another_program(original: Original) -> None:
    """A program that shares the file finds its rows again."""
    hurt = original.copy()
    with hurt.open() as cache:
        cache.connection.execute("CREATE TABLE theirs (name TEXT, at INTEGER)")
        cache.connection.executemany("INSERT INTO theirs VALUES (?, ?)", [("a", 1), ("b", 2)])
    hurt.flip(original.roots["session_search_data"])
    hurt.repair()
    with hurt.open() as cache:
        assert cache.connection.execute("SELECT * FROM theirs").fetchall() == [("a", 1), ("b", 2)]


def _repaired_with(original: Original, *statements: str) -> tuple[Hurt, Repaired]:
    hurt = original.copy()
    with hurt.open() as cache:
        for one in statements:
            cache.connection.execute(one)
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    hurt.flip(original.roots["session_search_data"])
    return hurt, hurt.repair()


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (
            "CREATE TABLE mine (v TEXT, a INT, b TEXT COLLATE NOCASE, PRIMARY KEY (b, a)) WITHOUT  ROWID",
            "mine",
        ),
        ('CREATE TABLE "their ""own""" (v, a INTEGER, b)', '"their ""own"""'),
        ("CREATE TABLE named (rowid TEXT, a INTEGER PRIMARY KEY, b TEXT)", "named"),
    ],
)
def test_every_kind_of_table(original: Original, made: str, name: str) -> None:
    """One kept by its key, one of a strange name, one whose column is called as the row number is."""
    rows = f"INSERT INTO {name} VALUES ('x', -3, 'y'), ('z', 0, 'B'), ('w', 7, 'a')"
    hurt, done = _repaired_with(original, made, rows)
    assert done.salvaged.left_out == []
    with hurt.open() as cache:
        found = cache.connection.execute(f"SELECT * FROM {name} ORDER BY a").fetchall()
    assert found == [("x", -3, "y"), ("z", 0, "B"), ("w", 7, "a")]


def test_what_stands_on_tables(original: Original) -> None:
    """Rows that name rows of a later table, row numbers below one, an index, a view and a trigger come over."""
    hurt, done = _repaired_with(
        original,
        "PRAGMA foreign_keys = OFF",
        "CREATE TABLE child (p REFERENCES parent (k))",
        "CREATE TABLE parent (k INTEGER PRIMARY KEY)",
        "CREATE UNIQUE INDEX only ON child (p)",
        "CREATE VIEW both AS SELECT * FROM child JOIN parent ON p = k",
        "CREATE TRIGGER grow AFTER INSERT ON parent BEGIN INSERT INTO child VALUES (new.k); END",
        "INSERT INTO parent VALUES (-1)",
    )
    assert done.salvaged.left_out == []
    with hurt.open() as cache:
        run = cache.connection.execute
        assert run("SELECT * FROM both").fetchall() == [(-1, -1)]
        run("INSERT INTO parent VALUES (2)")
        assert run("SELECT count(*) FROM child").fetchone() == (2,)


def test_a_virtual_table_is_left_out_and_named(original: Original) -> None:
    """With the tables it is kept in; a table that is only called so comes over."""
    hurt, done = _repaired_with(
        original,
        "CREATE VIRTUAL TABLE ft USING fts5(t)",
        "INSERT INTO ft VALUES ('x')",
        "CREATE TABLE ft_notes (n)",
    )
    assert done.salvaged.left_out == ["ft"]
    assert done.salvaged.certain
    with hurt.open() as cache:
        names = cache.connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'ft%'").fetchall()
    assert names == [("ft_notes",)]


def test_a_table_of_another_program_that_is_broken(original: Original) -> None:
    """Rows of it that cannot be read are told."""
    hurt = original.copy()
    with hurt.open() as cache:
        cache.connection.execute("CREATE TABLE theirs (name TEXT)")
        cache.connection.execute("INSERT INTO theirs VALUES ('a')")
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = cache.connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'theirs'"
        ).fetchone()
    hurt.flip(root - 1)
    done = hurt.repair()
    assert done.salvaged.left_out == ["theirs"]
    assert hurt.lines() == original.lines


def test_lines_that_do_not_unpack(original: Original) -> None:
    """An entry whose stored bytes are none is left out and counted."""
    hurt = original.copy()
    with hurt.open() as cache:
        cache.connection.execute("UPDATE session_entries SET raw = X'00', codec = 1 WHERE row = 17")
        cache.connection.execute("UPDATE session_turns SET raw = X'00'")
    hurt.flip(original.roots["session_search_data"])
    done = hurt.repair()
    kept = assert_sound(hurt, done, original)
    assert (done.salvaged.entries_lost, len(original.lines) - len(kept), done.salvaged.turns) == (1, 1, 0)


def test_a_log_that_is_lost(original: Original) -> None:
    """A database whose write-ahead log vanished half taken in: sound again, and it asks the log anew."""
    hurt = original.copy()
    grown = original.copy()
    with grown.open() as cache:
        cache.connection.execute("DELETE FROM session_entries WHERE row % 3 = 0")
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    late = grown.home.cache.read_bytes()
    with hurt.home.cache.open("r+b") as stream:
        for page in range(40, hurt.pages, 2):
            stream.seek(page * PAGE)
            stream.write(late[page * PAGE : (page + 1) * PAGE])
    done = hurt.repair()
    assert not done.healthy
    assert not done.salvaged.certain
    assert_sound(hurt, done, original)


def test_a_newer_cache_is_not_touched(original: Original) -> None:
    """A damaged cache of a newer version is left to the newer version."""
    hurt = original.copy()
    with hurt.open() as cache:
        cache.put("schema", (9).to_bytes(2, "big"))
    hurt.flip(original.roots["session_search_data"])
    before = hurt.content()
    with pytest.raises(CacheRefusedError, match="newer version"):
        hurt.repair()
    assert hurt.content() == before


def test_the_names_are_those_of_the_sync() -> None:
    """What is reset is what the sync reads."""
    assert salvage.LOG_PLACES == (CURSOR, SEEN)
