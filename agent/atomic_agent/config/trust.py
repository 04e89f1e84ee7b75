"""Which projects may choose where sessions go (B5): asked once per project, remembered in the Atomic home.

One 0600 file per project, so that two processes never lose each other's answer. A project is a repository's root
folder, or without a repository the folder itself; links are followed. The answer for a folder says nothing about
another repository below it: what was cloned or unpacked there has another author.
"""

import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.locations import Home


class Answer(Struct, frozen=True):
    """What a person said about a project, and when (ms)."""

    folder: str
    trusted: bool
    at: int


class _Kept(Struct, frozen=True):
    folder: str
    trusted: bool
    at: int
    version: int = 1


def project_root(folder: Path) -> Path:
    """The canonical folder of the project that this folder is part of: the nearest above it with a `.git`."""
    here = folder.resolve()
    for above in (here, *here.parents):
        if os.path.lexists(above / ".git"):
            return above
    return here


def answer(home: Home, root: Path) -> Answer | None:
    """What was said about this project; None when nobody was asked. CacheRefusedError when others could have
    written the answer."""
    try:
        raw = private_files.read(_place(home, root))
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = _read(raw)
    return found if found is not None and found.folder == _name(root) else None


def remember(home: Home, root: Path, *, trusted: bool, now: int) -> Answer:
    """Write the answer down; it holds from this moment."""
    place = _place(home, root)
    private_files.make_folder(place.parent)
    kept = _Kept(_name(root), trusted, now)
    private_files.write(place, msgspec.json.encode(kept) + b"\n")
    return Answer(kept.folder, trusted, now)


def answers(home: Home) -> list[Answer]:
    """All that was said, by folder; files that say nothing are left out."""
    try:
        places = sorted(_folder(home).glob("*.json"))
    except OSError:
        return []
    found = [_read(private_files.read(place)) for place in places]
    return sorted((one for one in found if one is not None), key=lambda one: one.folder)


def _folder(home: Home) -> Path:
    return home.root / "trust"


def _place(home: Home, root: Path) -> Path:
    return _folder(home) / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"


def _name(root: Path) -> str:
    """The folder as text that JSON can hold; names that are no UTF-8 keep their bytes as escapes."""
    return os.fsencode(root).decode("utf-8", "backslashreplace")


def _read(raw: bytes) -> Answer | None:
    try:
        kept = msgspec.json.decode(raw, type=_Kept)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return Answer(kept.folder, kept.trusted, kept.at) if kept.version == 1 else None
