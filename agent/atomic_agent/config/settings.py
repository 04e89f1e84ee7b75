"""Settings files: where they lie and what they hold. Reads, never writes; interprets nothing but JSON.

One file for the person, `agent/settings.json` in the Atomic home, and one for the project,
`.atomic/settings.json` at its root. Members that this program does not know stay as they are.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from atomic_agent.config.errors import SettingsError
from atomic_agent.config.paths import Folders, resolve
from atomic_agent.locations import Home

NAME = "settings.json"
FOLDER = ".atomic"
MAX_BYTES = 1 << 20
AGENT_FOLDER = "ATOMIC_CODING_AGENT_DIR"


class SettingsFile(Struct, frozen=True):
    """A settings file's members. They may hold keys of other programs, so they are not shown."""

    path: str
    members: Mapping[str, Any]  # JSON of any shape

    def __repr__(self) -> str:
        return f"SettingsFile({self.path!r}, {len(self.members)} members)"

    def at(self, *names: str) -> tuple[bool, Any]:  # JSON of any shape
        """Whether there is such a member, and its value. SettingsError when a member on the way is no object."""
        found: Any = self.members
        for depth, name in enumerate(names):
            if not isinstance(found, Mapping):
                inner = ".".join(names[:depth])
                raise SettingsError(f'"{inner}" in {self.path} has to be a JSON object.', "Mend the file.")
            if name not in found:
                return False, None
            found = found[name]
        return True, found


def global_path(home: Home, environ: Mapping[str, str], folders: Folders) -> Path:
    """The person's settings; ATOMIC_CODING_AGENT_DIR moves their folder."""
    chosen = environ.get(AGENT_FOLDER, "")
    folder = Path(resolve(chosen, folders.working, folders, AGENT_FOLDER)) if chosen else home.root / "agent"
    return folder / NAME


def project_path(root: Path, home: Home) -> Path | None:
    """The project's settings; None where that would be a file of the Atomic home itself."""
    folder = root / FOLDER
    try:
        if folder.samefile(home.root):
            return None
    except OSError:
        pass  # one of the two is not there, so they are not the same
    return folder / NAME


def read(path: Path) -> SettingsFile | None:
    """The file's members, None when there is no file. SettingsError names the file, the line and the mend."""
    text = _text(path)
    if text is None:
        return None
    if not text.strip():
        return SettingsFile(str(path), {})
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{path} is not valid JSON: line {error.lineno}, column {error.colno}.", "Mend that line."
        ) from None
    except (ValueError, RecursionError):
        raise SettingsError(f"{path} holds JSON beyond all measure.", "Mend it or move it away.") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{path} has to hold a JSON object.", "Begin it with { and end it with }.")
    return SettingsFile(str(path), found)


STORAGE_MEMBERS = (("sessions", "storage"), ("storage",))


def chosen_by(file: SettingsFile) -> tuple[str, ...]:
    """The members with which a file chooses a store, as a person writes them; broken ones too."""
    found = []
    for names in STORAGE_MEMBERS:
        try:
            there, _ = file.at(*names)
        except SettingsError:
            there = True
        if there:
            found.append(".".join(names))
    return tuple(found)


def removed(file: SettingsFile, folders: Folders) -> str | None:
    """What to say of `sessionDir`, which chooses nothing any more: the setting that does. None without it."""
    there, value = file.at("sessionDir")
    if not there:
        return None
    folder = value if isinstance(value, str) and value else "FOLDER"
    if folder != "FOLDER" and not folder.startswith("~"):
        # It counted from the working directory; what takes its place counts from the Atomic home.
        folder = os.path.normpath(os.path.join(folders.working, folder))  # noqa: PTH118  # pathlib keeps `..`
    instead = json.dumps({"storage": {"dir": folder}}, ensure_ascii=False)
    return f'"sessionDir" in {file.path} was removed and is not used. Write instead: "sessions": {instead}'


def _text(path: Path) -> str | None:
    """A small text file whole, without a byte order mark; None when there is none. A pipe or a folder in its
    place is an error, not a wait."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such name"
        raise SettingsError(f"{path} cannot be read: {reason}.", "Check its rights.") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise SettingsError(f"{path} is not a file.", "Move it away.")
    with os.fdopen(handle, "rb") as stream:
        try:
            raw = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}.", "Move it away.") from None
    if len(raw) > MAX_BYTES:
        raise SettingsError(f"{path} is larger than {MAX_BYTES >> 20} MiB.", "Move it away.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.", "Save it as UTF-8.") from None
