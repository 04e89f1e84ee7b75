"""What is known of the files of earlier sessions: their rows, their projects, which are hidden. Opens none of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_sessions.errors import StoreWriteError
from atomic_sessions.formats import pi

_PAGE = 400

Mark = tuple[str, str]
"""(id, place) of a session whose files are hidden."""


class Kept(Struct, frozen=True):
    """What a file said when it had this size, time and inode; `row` and `said` are the store's own packing."""

    path: bytes
    size: int
    mtime_ns: int
    inode: int
    row: bytes
    said: bytes = b""


def kept(cache: Cache) -> Iterator[Kept]:
    """Every file that was read before, without the text it is searched in."""
    for path, size, mtime_ns, inode, row in cache.connection.execute(
        cache.sql("SELECT path, size, mtime_ns, inode, row FROM {p}session_earlier")
    ):
        yield Kept(bytes(path), size, mtime_ns, inode, bytes(row))


def said(cache: Cache, path: bytes, size: int, mtime_ns: int, inode: int) -> bytes | None:
    """The text a file is searched in, None when it was not kept of this state of it."""
    found = cache.connection.execute(
        cache.sql(
            "SELECT said FROM {p}session_earlier WHERE path = ? AND size = ? AND mtime_ns = ? AND inode = ?"
        ),
        (path, size, mtime_ns, inode),
    ).fetchone()
    return None if found is None else bytes(found[0])


def keep(cache: Cache, found: Sequence[Kept], gone: Sequence[bytes] = ()) -> bool:
    """Remember what files said and forget the gone ones; False when the cache cannot be written to just now."""

    def write() -> None:
        cache.connection.executemany(
            cache.sql("INSERT OR REPLACE INTO {p}session_earlier VALUES (?, ?, ?, ?, ?, ?)"),
            [(one.path, one.size, one.mtime_ns, one.inode, one.row, one.said) for one in found],
        )
        cache.connection.executemany(
            cache.sql("DELETE FROM {p}session_earlier WHERE path = ?"), [(path,) for path in gone]
        )

    return _at_once(cache, write)


def projects(cache: Cache) -> dict[str, tuple[str, str]]:
    """By folder: what its project was told from, and the project."""
    rows = cache.connection.execute(
        cache.sql("SELECT cwd, mark, project FROM {p}session_earlier_projects")
    ).fetchall()
    return {cwd: (mark, project) for cwd, mark, project in rows}


def keep_project(cache: Cache, cwd: str, mark: str, project: str) -> bool:
    """Remember a folder's project; False when the cache cannot be written to just now."""
    statement = cache.sql("INSERT OR REPLACE INTO {p}session_earlier_projects VALUES (?, ?, ?)")
    return _at_once(cache, lambda: cache.connection.execute(statement, (cwd, mark, project)))


def _at_once(cache: Cache, write: Callable[[], object]) -> bool:
    """Write what can be made again, without waiting for another process that holds the cache: a list must come
    whether or not it can be kept."""
    connection = cache.connection
    if connection.in_transaction:
        return False  # a failure would take back what somebody else is doing
    (wait,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        with transaction(connection):
            write()
    except StoreWriteError:
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(wait)}")
    return True


def hide(cache: Cache, marks: Iterable[Mark]) -> None:
    """Let files no longer stand for these sessions, for ever; call inside a transaction."""
    cache.connection.executemany(
        cache.sql("INSERT OR IGNORE INTO {p}session_hidden VALUES (?, ?)"), list(marks)
    )


def hidden(cache: Cache) -> set[Mark]:
    found = cache.connection.execute(cache.sql("SELECT id, place FROM {p}session_hidden")).fetchall()
    return {(identity, place) for identity, place in found}


def present(cache: Cache, ids: Sequence[str]) -> set[Mark]:
    """(id, scope) of those that the cache has, whoever brought them, and of deleted ones."""
    found: set[Mark] = set()
    agents = ", ".join(f"'{name}'" for name in pi.NAMES)
    for at in range(0, len(ids), _PAGE):
        page = ids[at : at + _PAGE]
        marks = ",".join("?" * len(page))
        found.update(
            cache.connection.execute(
                cache.sql(
                    f"SELECT id, scope FROM {{p}}session_sessions WHERE agent IN ({agents}) AND id IN ({marks})"
                ),
                page,
            ).fetchall()
        )
    return found


def buried(cache: Cache) -> set[bytes]:
    """The wire ids of sessions that the account knows to be dead, known here or not."""
    return {
        bytes(wire)
        for (wire,) in cache.connection.execute(cache.sql("SELECT wire FROM {p}session_tombstones"))
    }
