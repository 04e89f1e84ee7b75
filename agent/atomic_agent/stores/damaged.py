"""Reading what can still be read of a damaged cache: around broken pages, row by row where it must be.

A page whose code does not fit ends a statement, and SQLCipher then answers nothing more on that
connection: each broken statement costs a new one (1 ms). Changes nothing it reads, and judges no row.
"""

# ruff: noqa: S608  # statements are put together from names of tables and columns; values are parameters

import heapq
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import sqlcipher3.dbapi2 as sqlite

from atomic_agent.cache.open import connect
from atomic_agent.keys.local_key import LocalKey

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_BARREN = 2000
"""Looks into one hole that find nothing, one after the other: more than an inner page's rows make sense of."""
HIGHEST = 1 << 62
MIN_ROW_BYTES = 16
PAGE_BYTES = 4096

_ALTERED = re.compile(r"HMAC verification failed for page (\d+)$")

Row = tuple[object, ...]


class BrokenError(Exception):
    """A statement met a page that cannot be read."""


class Damaged:
    """A cache of which some pages are broken; its first one and its schema are not. `pages`: how many it
    had before a file that was cut was given blank ones."""

    def __init__(self, path: Path, key: LocalKey, keyinfo: Path, pages: int) -> None:
        self._whole = pages
        self._open: Callable[[], Connection] = lambda: connect(path, key, keyinfo, create=False, alone=True)
        self._connection = self._open()
        self._pages = path.stat().st_size // PAGE_BYTES + 1

    def close(self) -> None:
        self._connection.close()

    def ask(self, statement: str, values: Sequence[object] = ()) -> Iterator[Row]:
        """The rows of a statement; BrokenError after the last one that could be read."""
        try:
            yield from self._connection.execute(statement, tuple(values))
        except sqlite.DatabaseError:
            self._connection.close()
            self._connection = self._open()
            raise BrokenError from None

    def columns(self, table: str) -> list[str]:
        """The columns of a table, none when there is no such table."""
        return [str(row[1]) for row in self.ask(f"PRAGMA table_info({quoted(table)})")]

    def keys(self, table: str) -> list[str]:
        """The columns of a table's primary key, in its order."""
        what = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
        return [str(row[0]) for row in self.ask(what, (table,))]

    def broken_pages(self) -> tuple[int, bool]:
        """How many pages were altered, and whether that is all there is: nothing was cut off."""
        try:
            said = [str(row[0]) for row in self.ask("PRAGMA cipher_integrity_check")]
        except BrokenError:
            return 0, False
        numbers = [int(found[1]) for line in said if (found := _ALTERED.match(line))]
        inside = sum(number <= self._whole for number in numbers)
        return inside, inside == len(said)

    def by_row(self, table: str, key: str, columns: Sequence[str], index: str = "") -> Iterator[Row | None]:
        """The rows of a table with an integer key, the key first; None where some could not be read.

        `index`: one of the table's that holds all its rows, to tell where a table ends whose end is broken.
        """
        what = f'SELECT "{key}", {listed(columns)} FROM {quoted(table)} NOT INDEXED WHERE "{key}"'
        low = 0
        while (last := (yield from self._run(what, key, low, HIGHEST))) is not None:
            yield None
            behind = self._behind(what, key, last)
            end = behind if behind is not None else self._top(table, key, index, last) + 1
            yield from self._inside(what, key, last, end)
            if behind is None:
                return
            low = behind - 1

    def _top(self, table: str, key: str, index: str, last: int) -> int:
        """The highest key there can be."""
        try:
            if index:
                found = next(self.ask(f'SELECT max("{key}") FROM {quoted(table)} INDEXED BY "{index}"'))
                return found[0] if isinstance(found[0], int) else last
        except BrokenError:
            pass
        return last + self._pages * (PAGE_BYTES // MIN_ROW_BYTES)

    def _behind(self, what: str, key: str, last: int) -> int | None:
        """A place behind the hole that begins after `last`; None when the hole has no other side."""
        limit = self._pages * (PAGE_BYTES // MIN_ROW_BYTES)
        step = 1
        while step <= limit:
            try:
                next(self.ask(f'{what} >= ? ORDER BY "{key}" LIMIT 1', (last + 1 + step,)), None)
                return last + 1 + step
            except BrokenError:
                step *= 2
        return None

    def _inside(self, what: str, key: str, low: int, high: int) -> Iterator[Row]:
        """Rows strictly between two keys, from whole pages among broken ones; the widest hole is looked
        into first, so that what is given up is small."""
        holes: list[tuple[int, int, int]] = []
        bottom = yield from self._run(what, key, low, high, down=True)
        if bottom is not None:
            heapq.heappush(holes, (low - bottom, low, bottom))
        barren = 0
        while holes and barren < MAX_BARREN:
            _, low, high = heapq.heappop(holes)
            if high - low <= 1:
                continue
            middle = (low + high) // 2
            top = yield from self._run(what, key, middle - 1, high)
            bottom = yield from self._run(what, key, low, middle, down=True)
            barren = barren + 1 if (top, bottom) == (middle - 1, middle) else 0
            if top is not None:
                top = max(top, middle)
                heapq.heappush(holes, (top - high, top, high))
            if bottom is not None:
                heapq.heappush(holes, (low - bottom, low, bottom))

    def _run(
        self, what: str, key: str, low: int, high: int, *, down: bool = False
    ) -> Generator[Row, None, int | None]:
        """Rows strictly between two keys, from `low` upwards or from `high` downwards; the key to which it
        went when the rest of them is broken, None when nothing is."""
        statement = f'{what} > ? AND "{key}" < ? ORDER BY "{key}" {"DESC" if down else "ASC"}'
        at = high if down else low
        # The module steps one row ahead: what stands right before a broken page it has read and does not give.
        for limit in ("", " LIMIT 1"):
            bounds = (low, at) if down else (at, high)
            try:
                for row in self.ask(statement + limit, bounds):
                    at = _number(row)
                    yield row
                if not limit:
                    return None
            except BrokenError:
                continue
        return at

    def in_order(self, table: str, keys: Sequence[str], columns: Sequence[str]) -> Iterator[Row | None]:
        """The rows of a table without row numbers: from its start, and when that breaks from its end; None
        where some could not be read."""
        what = f"SELECT {listed(columns)} FROM {quoted(table)}"
        places = [columns.index(key) for key in keys]
        last: Row | None = None
        order = f" ORDER BY {listed(keys)}"
        after = f" WHERE ({listed(keys)}) > ({','.join('?' * len(keys))})"
        for limit in ("", " LIMIT 1"):
            try:
                for row in self.ask(f"{what}{after if last else ''}{order}{limit}", last or ()):
                    last = tuple(row[place] for place in places)
                    yield row
                if not limit:
                    return
            except BrokenError:
                continue
        yield None
        back = " ORDER BY " + ", ".join(f'"{key}" DESC' for key in keys)
        try:
            yield from self.ask(f"{what}{after if last else ''}{back}", last or ())
        except BrokenError:
            return


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Names of columns, put behind one another."""
    return ", ".join(map(quoted, names))


def _number(row: Row) -> int:
    assert isinstance(row[0], int)
    return row[0]
