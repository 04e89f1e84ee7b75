"""`atomic trust`, and how a command asks whether a project's settings count (B5).

Only a person at a terminal is asked, never a script.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from atomic_agent.cli.terminal import age, emit_json, now_ms, safe, say, table
from atomic_agent.config import launch, settings, trust
from atomic_agent.config.precedence import Flags, Placement
from atomic_agent.locations import home
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


def flags_of(options: argparse.Namespace) -> Flags:
    """The store flags of a command line. What --storage-file names is read here, once: it may be a pipe."""
    named = getattr(options, "storage_file", None)
    folders = launch.folders_of(home(), Path.cwd())
    return Flags(
        getattr(options, "no_session", False),
        getattr(options, "session_dir", None),
        getattr(options, "session_store", None),
        getattr(options, "session_prefix", None),
        getattr(options, "storage", None),
        None if named is None else launch.read_storage_file(named, folders),
    )


def placement(
    flags: Flags,
    environ: Mapping[str, str],
    *,
    ask: bool,
    approve: bool = False,
    tell: Callable[[str], None] = say,
) -> Placement:
    """Where this launch keeps sessions and runs. With `ask` a person at the terminal is asked once whether the
    project's settings may say so, `approve` is that yes; it holds for this launch already. `tell` is what is said
    through."""
    at = home()
    return launch.placement(
        at,
        launch.folders_of(at, Path.cwd()),
        flags,
        environ,
        now=now_ms(),
        approve=approve,
        agrees=_agrees if ask else None,
        tell=lambda text: tell(safe(text)),
    )


def _agrees(root: Path, path: Path, chosen: tuple[str, ...]) -> bool | None:
    """Ask whoever sits at the terminal; None without one, or without an answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(
        f"This project's settings ({safe(str(path))}) choose where sessions are kept: {', '.join(chosen)}.\n"
        f"Trust the project {safe(str(root))}? [y/N] "
    )
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.strip().lower() in {"y", "yes"} if line else None
