"""Turns in flight of a JSONL folder, each in a file of its own beside the sessions (A1).

A line a part; one that is half written was never promised. Only for the holder of the folder's lock, but for
`pending`.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.jsonl_files import SIDE, open_for, read_side, side_path
from atomic_agent.stores.port import InFlight
from atomic_sessions.ids import SessionKey
from atomic_sessions.unreadable import UNREADABLE

ENDING = ".turn"


class _Begun(Struct):
    turn: str
    source: SessionKey | None
    begun: Begun


_BEGUN = msgspec.json.Decoder(_Begun)
_ANSWERED = msgspec.json.Decoder(Answered)


def begin(folder: Path, turn: str, source: SessionKey | None, begun: Begun) -> None:
    """Keep a prompt on the disk."""
    content = msgspec.json.encode(_Begun(turn, source, begun))
    private_files.write(side_path(folder, turn, ENDING), content + b"\n")


def answer(folder: Path, turn: str, said: Answered) -> None:
    """Keep what a model has completed on the disk; nothing of a turn that was dropped."""
    line = msgspec.json.encode(said) + b"\n"
    try:
        handle = open_for(side_path(folder, turn, ENDING), os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return
    try:
        size = os.fstat(handle).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)


def pending(folder: Path) -> list[InFlight]:
    """All of them, oldest first."""
    found = [_read(path) for path in (folder / SIDE).glob(f"*{ENDING}")]
    return sorted(
        (flight for flight in found if flight is not None), key=lambda flight: (flight.begun.at, flight.turn)
    )


def _read(path: Path) -> InFlight | None:
    try:
        first, *rest = read_side(path).splitlines()
        begun = _BEGUN.decode(first)
    except (OSError, ValueError, *UNREADABLE):
        return None
    answered: list[Answered] = []
    for line in rest:
        try:
            answered.append(_ANSWERED.decode(line))
        except UNREADABLE:
            break
    return InFlight(begun.turn, begun.source, begun.begun, answered)


def drop(folder: Path, turn: str) -> None:
    side_path(folder, turn, ENDING).unlink(missing_ok=True)
