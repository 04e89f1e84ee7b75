"""Copying a damaged cache off a disk that may not give all of it: what cannot be read comes out as zeros."""

import os
from pathlib import Path

from atomic_agent import private_files
from atomic_agent.cache.held import is_unreadable
from atomic_agent.stores.damaged import PAGE_BYTES

COPY_BYTES = 1 << 20


def copy_cache(path: Path, handle: int, to: Path) -> bool:
    """The database through the locked handle, and its log by name: opening the former again loses the lock.

    False when some of the log could not be read: what was written last may be missing.
    """
    _pour(handle, to)
    log = path.with_name(path.name + "-wal")
    try:
        if not log.stat().st_size:
            return True
    except FileNotFoundError:
        return True
    private_files.check_file(log)
    source = os.open(log, os.O_RDONLY)
    try:
        return not _pour(source, to.with_name(to.name + "-wal"))
    finally:
        os.close(source)


def is_readable(path: Path) -> bool:
    """The disk gives every byte of a cache and its log. For a file that this process has not open."""
    for place in (path, path.with_name(path.name + "-wal")):
        try:
            source = os.open(place, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            at = 0
            while piece := read_at(source, at, COPY_BYTES):
                at += len(piece)
        except OSError as error:
            if is_unreadable(error):
                return False
            raise
        finally:
            os.close(source)
    return True


def _pour(source: int, to: Path) -> int:
    """Copy a file whole; how many of its bytes are zeros in place of what the disk did not give."""
    private_files.create(to)
    at = missing = 0
    with to.open("r+b") as stream:
        while True:
            try:
                piece = read_at(source, at, COPY_BYTES)
            except OSError as error:
                if not is_unreadable(error):
                    raise
                piece, lost = _page_by_page(source, at)
                missing += lost
            if not piece:
                return missing
            at += stream.write(piece)


def _page_by_page(source: int, at: int) -> tuple[bytes, int]:
    """A stretch that holds a page which cannot be read, and how many bytes of it could not be."""
    end = min(at + COPY_BYTES, os.fstat(source).st_size)
    pieces: list[bytes] = []
    lost = 0
    while at < end:
        size = min(PAGE_BYTES - at % PAGE_BYTES, end - at)
        try:
            piece = read_at(source, at, size)
        except OSError as error:
            if not is_unreadable(error):
                raise
            piece = bytes(size)
            lost += size
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces), lost


def read_at(handle: int, at: int, size: int) -> bytes:
    """Bytes of an open file; OSError when the disk does not give them."""
    os.lseek(handle, at, os.SEEK_SET)
    return os.read(handle, size)
