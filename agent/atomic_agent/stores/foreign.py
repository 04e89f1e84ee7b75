"""What a program that shares the cache's file keeps in it, carried over to the new one as far as it goes."""

# ruff: noqa: S608  # statements are put together from names of tables and columns; values are parameters

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import sqlcipher3.dbapi2 as sqlite

from atomic_agent.cache.open import transaction
from atomic_agent.stores.damaged import HIGHEST, BrokenError, Damaged, Row, listed, quoted

if TYPE_CHECKING:
    from sqlite3 import Connection

ROW_NAMES = ("rowid", "_rowid_", "oid")
SHADOWS = re.compile(r"_(data|idx|content|docsize|config|segments|segdir|stat|node|rowid|parent)$")
"""How the tables are called in which SQLite's own modules keep a virtual table."""
_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\b", re.IGNORECASE)
_OF_THE_DISK = ("disk", "full", "locked", "readonly")
_BY_KEY = re.compile(r"\)[^)]*\bWITHOUT\s+ROWID\b[^)]*$", re.IGNORECASE)

Made = tuple[str, str, str, str]
"""A thing of the schema: type, name, the table it belongs to, the statement that made it."""


def copy_foreign(old: Damaged, new: "Connection") -> list[str]:
    """Copy all that is not ours; the names of what could not be, or not wholly, for one reason or another.

    A virtual table is left out with the tables it is kept in: whoever made it makes it again from its own.
    """
    ours = {str(row[0]) for row in new.execute("SELECT name FROM sqlite_master")}
    theirs = [one for one in _schema(old) if one[1] not in ours and not one[1].startswith("sqlite_")]
    virtual = {name for _, name, _, made in theirs if _VIRTUAL.match(made)}
    shadows = {
        name
        for _, name, _, _ in theirs
        if (found := SHADOWS.search(name)) and name[: found.start()] in virtual
    }
    left = sorted(virtual)
    new.execute("PRAGMA foreign_keys = OFF")  # a table may come before the one that it names
    for kind, name, table, made in theirs:
        if {name, table} & (virtual | shadows):
            continue
        with transaction(new):
            if not (_made(new, made) and (kind != "table" or _filled(old, new, name, made))):
                left.append(name)
    new.execute("PRAGMA foreign_keys = ON")
    return left


def _schema(old: Damaged) -> list[Made]:
    """Tables first, triggers last: they would act on the rows that are copied."""
    return [
        (str(kind), str(name), str(table), str(made))
        for kind, name, table, made in old.ask(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            " ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, rowid"
        )
    ]


def _made(new: "Connection", made: str) -> bool:
    """The new cache took the statement; a trouble of the disk is raised."""
    try:
        new.execute(made)
    except sqlite.DatabaseError as error:
        if any(word in str(error) for word in _OF_THE_DISK):
            raise
        return False
    return True


def _filled(old: Damaged, new: "Connection", name: str, made: str) -> bool:
    """Copy the rows of a table; False when some are missing."""
    try:
        columns = old.columns(name)
        if _BY_KEY.search(made):
            keys = old.keys(name)
            return _put(new, name, columns, old.in_order(name, keys, columns))
        taken = {column.lower() for column in columns}
        row_name = next((one for one in ROW_NAMES if one not in taken), None)
        if row_name is None:
            return False
        what = f"SELECT {row_name}, {listed(columns)} FROM {quoted(name)}"
        outside = old.ask(f"{what} WHERE {row_name} <= 0 OR {row_name} >= {HIGHEST}")
        whole = _put(new, name, [row_name, *columns], old.by_row(name, row_name, columns))
        return _put(new, name, [row_name, *columns], outside) and whole
    except BrokenError:
        return False


def _put(
    new: "Connection", name: str, columns: list[str], rows: Iterator[Row] | Iterator[Row | None]
) -> bool:
    marks = ", ".join("?" * len(columns))
    insert = f"INSERT OR IGNORE INTO {quoted(name)} ({listed(columns)}) VALUES ({marks})"
    whole = True
    for row in rows:
        whole = row is not None and new.execute(insert, row).rowcount == 1 and whole
    return whole
