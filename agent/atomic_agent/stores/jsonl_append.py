"""Lines at the end of a session file, and a file written anew: whole and on the disk, or as it was (A4).

Only for the holder of the folder's lock. Other programs may append to the same file at any time: what they
wrote is never cut off.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atomic_agent import private_files
from atomic_agent.locks import LockedError, exclusive
from atomic_agent.stores import jsonl_intent
from atomic_agent.stores.jsonl_files import SIDE, open_for, side_path
from atomic_agent.stores.jsonl_index import Index, is_sound, signature
from atomic_agent.stores.jsonl_intent import is_begun, pread
from atomic_sessions.errors import BusyError, StoreWriteError
from atomic_sessions.formats.upgrade import members, upgrade

LOCK_SECONDS = 15.0
STEP = 64 * 1024
TRIES = 20


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only one of ours that writes in a folder; make it when it is not there."""
    private_files.make_folder(folder)
    private_files.make_folder(folder / SIDE)
    try:
        with exclusive(folder / SIDE / "lock", LOCK_SECONDS):
            yield
    except LockedError:
        raise BusyError("Another process is writing in that folder.", "Try again in a moment.") from None
    except OSError as error:
        raise refused(folder, error) from error


def refused(path: Path, error: OSError) -> StoreWriteError:
    """What the disk said, as a sentence with a mend."""
    return StoreWriteError(
        f"{path} cannot be written: {error.strerror}.", "Free some space or check the folder's rights."
    )


def append(folder: Path, path: Path, lines: bytes) -> None:
    """Write whole lines behind those that are there, in one write. Raises StoreWriteError with the file at its
    former length."""
    settle(folder, path)
    handle = open_for(path, os.O_RDWR | os.O_APPEND)
    try:
        lines = _mended(folder, path, handle) + lines
        at = os.fstat(handle).st_size
        jsonl_intent.note(folder, path, at, lines)
        try:
            _write(handle, lines)
            os.fsync(handle)
        except OSError as error:
            _roll_back(folder, path, handle, error)
        jsonl_intent.forget(folder, path)
    finally:
        os.close(handle)


def _write(handle: int, lines: bytes) -> None:
    left = memoryview(lines)
    while left:
        left = left[os.write(handle, left) :]


def _roll_back(folder: Path, path: Path, handle: int, error: OSError) -> None:
    """Raise the refusal, with what was written of the lines taken away again."""
    intent = jsonl_intent.load(folder, path)
    try:
        if intent is not None:
            # All of it may be there and only the disk have refused to promise it: not promised is not there.
            _undo(handle, jsonl_intent.Intent(intent.name, intent.at, intent.lines + b"\n"))
        jsonl_intent.forget(folder, path)
    except OSError as second:
        raise StoreWriteError(
            f"{path} cannot be written: {error.strerror}; what was written of the turn could not be taken"
            f" back: {second.strerror}.",
            "It is taken back when the session is next written. Check the disk.",
        ) from error
    raise refused(path, error) from error


def _undo(handle: int, intent: jsonl_intent.Intent) -> None:
    if is_begun(handle, intent):
        os.ftruncate(handle, intent.at)
        os.fsync(handle)


def settle(folder: Path, path: Path) -> None:
    """Take away the beginning of lines that a kill interrupted; whole ones stay."""
    intent = jsonl_intent.load(folder, path)
    if intent is None:
        return
    handle = open_for(path, os.O_RDWR)
    try:
        _undo(handle, intent)
    finally:
        os.close(handle)
    jsonl_intent.forget(folder, path)


def _mended(folder: Path, path: Path, handle: int) -> bytes:
    """What must stand before the next line. Half a line at the end that holds nothing sound is kept aside
    and cut off: glued to the next one it would take that with it."""
    end = os.fstat(handle).st_size
    start = _last_line(handle, end)
    if start == end:
        return b""
    raw = pread(handle, start, end)
    if not raw.strip():
        return b""
    if is_sound(raw):
        return b"\n"
    keep_aside(folder, path, start, raw)
    os.ftruncate(handle, start)
    return b""


def keep_aside(folder: Path, path: Path, at: int, raw: bytes) -> None:
    """Keep bytes that cannot stay in a session file."""
    aside, more = side_path(folder, f"{path.name}/{at}", ".torn"), 2
    while os.path.lexists(aside):
        aside = side_path(folder, f"{path.name}/{at}/{more}", ".torn")
        more += 1
    private_files.write(aside, raw)


def _last_line(handle: int, end: int) -> int:
    """Where the last line starts; the end itself after a line's end."""
    if pread(handle, end - 1, end) == b"\n":
        return end
    at = end
    while at > 0:
        start = max(0, at - STEP)
        found = pread(handle, start, at).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def rewrite(folder: Path, index: Index) -> None:
    """Put a file into format 4 by replacing it whole: temp file, fsync, rename. Its mode stays; a link to it
    stays one. BusyError when another program writes to it all the while."""
    settle(folder, index.path)
    path = index.path.resolve()
    for _ in range(TRIES):
        # As it is now: what another of ours has upgraded meanwhile must not be upgraded from its old format again.
        index = index.refreshed()
        before = path.stat()
        if index.is_current:
            return
        if signature(before) != index.signature:
            continue
        temp = path.with_name(f".{path.name}.upgraded")
        private_files.write_pieces(temp, _upgraded(folder, index), mode=before.st_mode & 0o777)
        temp.chmod(before.st_mode & 0o777)
        if signature(path.stat()) == signature(before):
            temp.replace(path)
            _on_disk(path.parent)
            return
        temp.unlink()
    raise BusyError("Another program is writing to this session's file.", "End it and try again.")


def _upgraded(folder: Path, index: Index) -> Iterator[bytes]:
    yield index.header.raw + b"\n"
    with index.path.open("rb") as stream:
        stream.seek(index.first.end)

        last = b""

        def lines() -> Iterator[bytes]:
            nonlocal last
            for line in stream:
                last = line.removesuffix(b"\n")
                if not line.endswith(b"\n") and last.strip() and not is_sound(last):
                    keep_aside(folder, index.path, len(last), last)
                elif last.strip():
                    yield last

        for raw in upgrade(index.header, lines()):
            if raw is not last and members(last) is None:
                keep_aside(folder, index.path, len(last), last)
            yield raw + b"\n"


def _on_disk(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
