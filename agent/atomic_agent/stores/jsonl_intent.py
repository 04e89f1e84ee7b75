"""What an append is about to write, noted before it is written: so that half a turn is never read as a turn.

An append that did not return never happened: who reads meanwhile, or after a kill, stops before it, and the
next writer takes its beginning away. A turn that was complete is kept aside as one in flight all the same.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.stores.jsonl_files import read_side, side_path
from atomic_sessions.unreadable import UNREADABLE

ENDING = ".append"
TRIES = 100


class Intent(Struct, frozen=True):
    """`lines` are to stand in the file of that name, at that offset."""

    name: str
    at: int
    lines: bytes


def _place(folder: Path, path: Path) -> Path:
    return side_path(folder, path.relative_to(folder).as_posix(), ENDING)


def note(folder: Path, path: Path, at: int, lines: bytes) -> None:
    """On the disk when it returns."""
    private_files.write(_place(folder, path), msgspec.msgpack.encode(Intent(path.name, at, lines)))


def forget(folder: Path, path: Path) -> None:
    """What comes back after a power cut is seen to be done."""
    _place(folder, path).unlink(missing_ok=True)


def load(folder: Path, path: Path) -> Intent | None:
    """What was noted of a file."""
    try:
        return msgspec.msgpack.decode(read_side(_place(folder, path)), type=Intent)
    except (OSError, *UNREADABLE):
        return None


def is_begun(handle: int, intent: Intent) -> bool:
    """True when the file ends in the beginning of what was to be written, and in nothing else."""
    size = os.fstat(handle).st_size
    if size >= intent.at + len(intent.lines) or size < intent.at:
        return False
    return intent.lines.startswith(pread(handle, intent.at, size))


def visible_end(folder: Path, path: Path, handle: int) -> int:
    """How far a file may be read: its size, less an append that is under way or was interrupted."""
    for _ in range(TRIES):
        before = load(folder, path)
        size = os.fstat(handle).st_size
        if before == load(folder, path):
            break
    else:
        before, size = None, os.fstat(handle).st_size
    return before.at if before is not None and is_begun(handle, before) else size


def pread(handle: int, start: int, end: int) -> bytes:
    """Bytes of a file by their places; fewer when it was cut meanwhile."""
    if hasattr(os, "pread"):
        return os.pread(handle, max(0, end - start), start)
    os.lseek(handle, start, os.SEEK_SET)
    return os.read(handle, max(0, end - start))
