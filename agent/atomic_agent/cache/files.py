"""How far each agent's file was read: what capture needs to go on where it stopped."""

import msgspec
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_sessions.formats.scan import ScanState


class FileMark(Struct, frozen=True):
    """A file as it was last read. `offset` is the end of the last whole line taken in; `check_hash`
    covers the `check_size` bytes before it, to tell a grown file from a rewritten one."""

    path: str
    session: int
    size: int
    mtime_ns: int
    inode: int
    offset: int
    check_size: int
    check_hash: bytes
    state: ScanState


def mark(cache: Cache, name: str) -> FileMark | None:
    """The mark of a file, None when it was never read."""
    row = cache.connection.execute(
        cache.sql(
            "SELECT path, session, size, mtime_ns, inode, offset, check_size, check_hash, state"
            " FROM {p}session_files WHERE path = ?"
        ),
        (name,),
    ).fetchone()
    if row is None:
        return None
    path, session, size, mtime_ns, inode, offset, check_size, check_hash, state = row
    scan = msgspec.msgpack.decode(state, type=ScanState)
    return FileMark(path, session, size, mtime_ns, inode, offset, check_size, bytes(check_hash), scan)


def stats(cache: Cache, path: str) -> tuple[int, int, int] | None:
    """(size, mtime_ns, inode) of a file as it was last read, None when it never was."""
    row = cache.connection.execute(
        cache.sql("SELECT size, mtime_ns, inode FROM {p}session_files WHERE path = ?"), (path,)
    ).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def put(cache: Cache, found: FileMark) -> None:
    """Remember a mark; call inside the transaction that stores what was read."""
    cache.connection.execute(
        cache.sql("INSERT OR REPLACE INTO {p}session_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        (
            found.path,
            found.session,
            found.size,
            found.mtime_ns,
            found.inode,
            found.offset,
            found.check_size,
            found.check_hash,
            msgspec.msgpack.encode(found.state),
        ),
    )
