"""Text a person wrote as a path to an absolute path. Pure: looks at no file, follows no link.

As in earlier versions a path is made absolute by its text alone: `~` at its beginning, then the folder it counts
from, then `.` and `..`.
"""

import os
from collections.abc import Mapping

from msgspec import Struct

from atomic_agent.config.errors import SelectionError

ATOM_HOME = "ATOM_HOME"


class Folders(Struct, frozen=True):
    """What paths count from: the Atomic home, the working directory, the person's home."""

    home: str
    working: str
    person: str


def resolve(text: str, base: str, folders: Folders, where: str) -> str:
    """The absolute path; SelectionError for text that can be none."""
    if not text:
        raise SelectionError(f"{where} is empty.", "Name a path.")
    if "\x00" in text or not _encodes(text):
        raise SelectionError(f"{where} holds a character that no path can have.", "Name another path.")
    if text == "~" or text.startswith(("~/", f"~{os.sep}")):
        text = folders.person + text[1:]
    elif text.startswith("~"):
        raise SelectionError(
            f"{where} names another person's home.", "Write the whole path, or ./~ for a folder of that name."
        )
    return os.path.normpath(os.path.join(base, text))  # noqa: PTH118  # pathlib keeps `..`


def _encodes(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def cache_path(folders: Folders) -> str:
    """The default store, as `locations.Home` names it."""
    return os.path.normpath(os.path.join(folders.home, "workflows", "journal.sqlite"))  # noqa: PTH118


def atom_path(environ: Mapping[str, str], folders: Folders) -> str:
    """The usual Atom file: `.atom/session.json` in the person's home, which ATOM_HOME overrides (A2)."""
    given = environ.get(ATOM_HOME, "")
    base = resolve(given, folders.working, folders, ATOM_HOME) if given else folders.person
    return os.path.normpath(os.path.join(base, ".atom", "session.json"))  # noqa: PTH118
