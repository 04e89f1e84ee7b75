"""`atomic trust`, and what a launch does about it: read settings, ask once, choose the store (B5, B11).

Until a project is trusted its settings choose nothing, which is said in one line. Only a person at a terminal is
asked, never a script.
"""

import argparse
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from atomic_agent.cli.terminal import age, emit_json, now_ms, safe, say, table
from atomic_agent.config import settings, trust
from atomic_agent.config.errors import SelectionError, SettingsError
from atomic_agent.config.paths import Folders, resolve
from atomic_agent.config.precedence import Flags, Placement, Sources, StorageFile, check, place
from atomic_agent.config.settings import SettingsFile
from atomic_agent.locations import Home, home
from atomic_sessions.clock import iso
from atomic_sessions.errors import UsageError

ACTIONS = ("list", "revoke")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[list | revoke] [PATH]",
        help="trust the project at PATH (this one); list what was answered; take it back",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a project")


def run(options: argparse.Namespace) -> int:
    words: list[str] = list(options.words)
    action = words.pop(0) if words and words[0] in ACTIONS else ""
    if len(words) > (0 if action == "list" else 1):
        raise UsageError("There are too many words.", "See: atomic trust --help")
    if action == "list":
        _list(as_json=options.json)
        return 0
    folder = Path(words[0] if words else os.curdir)
    if not action and not os.path.isdir(folder):  # noqa: PTH112  # says no where Path would raise
        raise UsageError(f"There is no folder {folder}.", "Name the project's folder.")
    root = trust.project_root(folder)
    said = trust.remember(home(), root, trusted=not action, now=now_ms())
    _show(said, as_json=options.json)
    return 0


def _list(*, as_json: bool) -> None:
    found = trust.answers(home())
    if as_json:
        for one in found:
            _show(one, as_json=True)
        return
    now = now_ms()
    table([(_state(one), age(one.at, now), safe(one.folder)) for one in found], flexible=2)
    if not found:
        say("No project was trusted or refused yet.")


def _state(said: trust.Answer) -> str:
    return "trusted" if said.trusted else "refused"


def _show(said: trust.Answer, *, as_json: bool) -> None:
    path = settings.project_path(Path(said.folder), home())
    if as_json:
        emit_json(
            {
                "folder": said.folder,
                "trusted": said.trusted,
                "at": iso(said.at),
                "settings": str(path) if path is not None else None,
            }
        )
    elif said.trusted:
        print(f"{safe(said.folder)} is trusted: its settings ({settings.FOLDER}/{settings.NAME}) hold.")
    else:
        print(
            f"{safe(said.folder)} is not trusted: its settings ({settings.FOLDER}/{settings.NAME}) are ignored."
        )


def store_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that choose a store for one process."""
    add = parser.add_argument
    add("--session-dir", metavar="FOLDER", help="keep sessions as JSONL files in this folder")
    add("--session-store", metavar="FILE", help="keep sessions in this SQLite file")
    add("--session-prefix", metavar="TEXT", help="with --session-store: in front of its tables' names")
    add("--storage", metavar="JSON", help='where sessions and runs go, as in settings: {"path": "FILE"}')
    add("--storage-file", metavar="FILE", help="the same from a file")
    add("--trust", action="store_true", help="let this project's settings choose the store, from now on")


def placement(options: argparse.Namespace, environ: Mapping[str, str], *, ask: bool) -> Placement:
    """Where this launch keeps sessions and runs. With `ask` a person at the terminal is asked once whether
    the project's settings may say so; the answer holds for this launch already."""
    at, cwd = home(), Path.cwd()
    folders = Folders(str(at.root), str(cwd), str(Path.home()))
    flags = _flags(options, folders)
    check(flags)
    everywhere = settings.read(settings.global_path(at, environ, folders))
    project = _project(at, cwd, approve=getattr(options, "trust", False), ask=ask)
    for file in (everywhere, project):
        note = settings.removed(file, folders) if file is not None else None
        if note is not None:
            say(safe(note))
    return place(Sources(folders, flags, environ, project, everywhere))


def _flags(options: argparse.Namespace, folders: Folders) -> Flags:
    named = getattr(options, "storage_file", None)
    file = None if named is None else _storage_file(named, folders)
    return Flags(
        getattr(options, "no_session", False),
        getattr(options, "session_dir", None),
        getattr(options, "session_store", None),
        getattr(options, "session_prefix", None),
        getattr(options, "storage", None),
        file,
    )


def _storage_file(named: str, folders: Folders) -> StorageFile:
    """What --storage-file names. A pipe is read too: that is how a secret gets here without a file."""
    path = Path(resolve(named, folders.working, folders, "--storage-file"))
    try:
        with path.open("rb") as stream:
            lasting = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            raw = stream.read(settings.MAX_BYTES + 1)
    except OSError as error:
        raise SelectionError(
            f"The --storage-file {path} cannot be read: {error.strerror}.", "Name a file that holds JSON."
        ) from None
    if len(raw) > settings.MAX_BYTES:
        raise SelectionError(f"The --storage-file {path} is too large.", "Name a file that holds JSON.")
    try:
        return StorageFile(str(path), raw.decode("utf-8-sig"), lasting)
    except UnicodeDecodeError:
        raise SelectionError(f"The --storage-file {path} is not UTF-8 text.", "Save it as UTF-8.") from None


def _project(at: Home, cwd: Path, *, approve: bool, ask: bool) -> SettingsFile | None:
    """The project's settings when they hold; otherwise None, and one line when they would choose something."""
    root = trust.project_root(cwd)
    path = settings.project_path(root, at)
    if approve:
        trust.remember(at, root, trusted=True, now=now_ms())
    if path is None:
        return None
    said = trust.answer(at, root)
    if said is not None and said.trusted:
        return settings.read(path)
    try:
        file = settings.read(path)
    except SettingsError:
        # Whoever wrote an untrusted file must not be able to stop the program with it.
        say(f"This project's settings ({safe(str(path))}) cannot be read and are ignored; it is not trusted.")
        return None
    chosen = settings.chosen_by(file) if file is not None else ()
    if not chosen:
        return None
    if said is None and ask and _agrees(at, root, path, chosen):
        return file
    say(f"This project's settings ({safe(str(path))}) are ignored until you trust it: atomic trust")
    return None


def _agrees(at: Home, root: Path, path: Path, chosen: tuple[str, ...]) -> bool:
    """Ask whoever sits at the terminal; without one, or without an answer, nothing is remembered."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(
        f"This project's settings ({safe(str(path))}) choose where sessions are kept: {', '.join(chosen)}.\n"
        f"Trust the project {safe(str(root))}? [y/N] "
    )
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        return False
    agreed = line.strip().lower() in {"y", "yes"}
    trust.remember(at, root, trusted=agreed, now=now_ms())
    return agreed
