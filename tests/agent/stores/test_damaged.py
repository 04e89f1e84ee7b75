"""Reading around broken pages finds every row that lies in a whole one."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.stores.damage import KEY, PAGE
from atomic_agent.cache.cache import Cache
from atomic_agent.stores.damaged import Damaged

ROWS = 200


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A cache with a table of one row a page, and the page before its first row."""
    folder = tmp_path_factory.mktemp("pages")
    noise = random.Random(3)
    with Cache.open(folder / "w" / "db", KEY, folder / "w" / "keyinfo") as cache:
        run = cache.connection.execute
        run("CREATE TABLE wide (key INTEGER PRIMARY KEY, value BLOB)")
        for key in range(1, ROWS + 1):
            run("INSERT INTO wide VALUES (?, ?)", (key * 3, noise.randbytes(3000)))
        run("CREATE INDEX wide_keys ON wide (key)")
        run("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = run("SELECT rootpage FROM sqlite_master WHERE name = 'wide'").fetchone()
    return (folder / "w" / "db").read_bytes(), int(root)


def _read(content: bytes, folder: Path, pages: set[int]) -> Iterator[int]:
    """The keys that can be read when these pages are altered."""
    hurt = bytearray(content)
    for page in pages:
        hurt[page * PAGE + 1000] ^= 1
    path = folder / "w" / "db"
    path.parent.mkdir(mode=0o700, parents=True)
    path.touch(0o600)
    path.write_bytes(hurt)
    old = Damaged(path, KEY, folder / "none", len(content) // PAGE)
    try:
        assert old.broken_pages() == (len(pages), True)
        for row in old.by_row("wide", "key", ["value"], "wide_keys"):
            if row is not None:
                assert isinstance(row[0], int)
                yield row[0]
    finally:
        old.close()


@pytest.mark.parametrize("seed", range(6))
def test_every_row_in_a_whole_page(whole: tuple[bytes, int], tmp_path: Path, seed: int) -> None:
    """From one broken page to nine of ten: all other rows are read, each once, whatever lies between."""
    content, root = whole
    chance = random.Random(seed)
    leaves = [root + n for n in range(ROWS)]
    broken = set(chance.sample(leaves, chance.choice([1, 5, 40, 100, 180])))
    found = list(_read(content, tmp_path, broken))
    assert len(found) == len(set(found)) == ROWS - len(broken)


def test_both_ends_broken(whole: tuple[bytes, int], tmp_path: Path) -> None:
    """The first and the last rows are gone; the middle is read."""
    content, root = whole
    broken = {root + n for n in (*range(40), *range(ROWS - 40, ROWS))}
    assert len(list(_read(content, tmp_path, broken))) == ROWS - 80


def test_the_root_broken(whole: tuple[bytes, int], tmp_path: Path) -> None:
    """Nothing can be read, and the search for it ends."""
    content, root = whole
    assert list(_read(content, tmp_path, {root - 1})) == []
