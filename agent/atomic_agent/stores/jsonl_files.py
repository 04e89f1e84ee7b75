"""The files of a JSONL folder: which there are, what they are called, how one goes. Reads no line of them.

Ours lie flat in the folder; one level of subfolders is read too, as older programs made one a project. What
belongs to no session lies in a side folder, under names that older programs pass over.
"""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from atomic_sessions.clock import iso
from atomic_sessions.errors import StoreUnavailableError, StoreWriteError
from atomic_sessions.ids import CUSTOM_ID, digest

ENDING = ".jsonl"
SIDE = ".atomic"
TRASH_SECONDS = 30
MAX_NAMED = 100


def session_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files that may be sessions, each once, links followed. StoreUnavailableError when the folder
    itself cannot be read; one that is not there is empty."""
    try:
        found = _entries(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnavailableError(
            f"The folder {folder} cannot be read: {error.strerror}.", "Name another one with --session-dir."
        ) from error
    seen: set[tuple[int, int]] = set()
    for one in (*found, *(inner for entry in found for inner in _inside(entry))):
        if one.name.endswith(ENDING) and (there := _regular(one)) is not None:
            identity = (there.st_dev, there.st_ino)
            if identity not in seen:
                seen.add(identity)
                yield Path(one.path), there


def _entries(folder: "Path | os.DirEntry[str]") -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as found:
        return sorted((one for one in found if not one.name.startswith(".")), key=lambda one: one.name)


def _inside(entry: "os.DirEntry[str]") -> list["os.DirEntry[str]"]:
    try:
        return _entries(entry) if entry.is_dir() else []
    except OSError:
        return []


def _regular(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        found = entry.stat()
    except OSError:
        return None  # a loop of links, or gone meanwhile
    return found if stat.S_ISREG(found.st_mode) else None


def open_for(path: Path, flags: int) -> int:
    """A handle on bytes as they are, on every system."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0))


def opened(path: Path) -> BinaryIO:
    """A regular file for reading; OSError for anything else that stands in its place."""
    # Without O_NONBLOCK a FIFO would keep us until somebody writes to it.
    stream = os.fdopen(open_for(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError(f"{path.name} is not a file")
    return stream


def new_path(folder: Path, session: str, created_at: int) -> Path:
    """A name for a new session's file that no other has (formats/atomic-sessions.md section 1.3)."""
    named = session if not session or (CUSTOM_ID.fullmatch(session) and len(session) <= MAX_NAMED) else ""
    if session and not named:
        named = "id-" + digest(session.encode("utf-8", "surrogatepass")).hex()
    start = f"{re.sub('[:.]', '-', iso(created_at))}_{named}"
    path, more = folder / (start + ENDING), 2
    while os.path.lexists(path):
        path = folder / f"{start}~{more}{ENDING}"
        more += 1
    return path


def side_path(folder: Path, name: str, ending: str) -> Path:
    """Where something beside the sessions lies; `name` may be any text."""
    return folder / SIDE / (digest(name.encode("utf-8", "surrogatepass")).hex() + ending)


def read_side(path: Path) -> bytes:
    """What lies at a side path, OSError when that is nothing. Its rights are the folder's: a copy of the folder
    that lost them must not lose a turn."""
    with opened(path) as stream:
        return stream.read()


def discard(path: Path) -> None:
    """Put a file into the trash where the person has a `trash` command that works, else remove it."""
    program = shutil.which("trash")
    if program is not None:
        try:
            subprocess.run(
                [program, str(path.absolute())],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=TRASH_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            pass
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreWriteError(
            f"{path} cannot be deleted: {error.strerror}.", "Check the folder's rights."
        ) from error
