"""From a selection to the command line that leads back to it, whatever settings and trust say then (B6). Pure.

Nothing secret is printed: a driver's options go into a command only when they hold no text of their own.
"""

import json
import os
import re
from collections.abc import Sequence

from atomic_agent.config.selection import (
    AtomSelection,
    CacheSelection,
    DriverSelection,
    FolderSelection,
    MemorySelection,
    Selection,
    SqliteSelection,
)

_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")


def flags(selection: Selection) -> tuple[str, ...] | None:
    """The store flags that select it again, always there, also for the default store. None when no flag can: a
    store that a program opened itself, or a driver's options that may hold a secret and lie in no file."""
    match selection:
        case CacheSelection(path):
            return "--session-store", path
        case SqliteSelection(path, prefix):
            return ("--session-store", path, *(("--session-prefix", prefix) if prefix else ()))
        case FolderSelection(path):
            return "--session-dir", path
        case MemorySelection():
            return ("--no-session",)
        case AtomSelection(path):
            return "--storage", json.dumps({"atom": path})
        case DriverSelection(_, _, file) if file:
            return "--storage-file", file
        case DriverSelection(name, options) if _speaks_openly(options):
            return "--storage", json.dumps({"driver": name, **({"options": options} if options else {})})
    return None


def _speaks_openly(value: object) -> bool:
    """True for numbers, truth values, a prefix of table names, and `{"env": NAME}`, which names a variable instead of
    what it holds."""
    if isinstance(value, dict):
        if value.keys() == {"env"}:
            return isinstance(value["env"], str)
        return all(
            _speaks_openly(inner) or (name == "prefix" and isinstance(inner, str))
            for name, inner in value.items()
        )
    if isinstance(value, list):
        return all(_speaks_openly(inner) for inner in value)
    return value is None or isinstance(value, bool | int | float)


def resume_arguments(selection: Selection, session: str) -> tuple[str, ...] | None:
    """The arguments after `atomic` that open this session again; None when nothing can: it was not kept, or
    see `flags`."""
    store = flags(selection)
    if store is None or isinstance(selection, MemorySelection):
        return None
    return arguments(store, session)


def arguments(store: Sequence[str], session: str) -> tuple[str, ...]:
    """Store flags, and the one that opens a session of that store."""
    named = (f"--session={session}",) if session.startswith("-") else ("--session", session)
    return (*store, *named)


def command(arguments: Sequence[str]) -> str:
    """The whole command, quoted for the shell."""
    return " ".join(("atomic", *(quoted(argument) for argument in arguments)))


def quoted(text: str) -> str:
    """One word for a POSIX shell. What cannot be shown on a terminal is spelled in bytes for `printf`, which every
    shell has; an empty word is two double quotes."""
    if not text:
        return '""'
    if _PLAIN.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "'\"'\"'") + "'"
    spelled = "".join(
        chr(byte) if _is_spelled_as_it_is(byte) else f"\\{byte:03o}" for byte in os.fsencode(text)
    )
    if text.endswith("\n"):
        # A substitution loses the line ends it ends with; bash, zsh and ksh read this.
        return f"$'{spelled}'"
    return f"\"$(printf '{spelled}')\""


def _is_spelled_as_it_is(byte: int) -> bool:
    return 0x20 <= byte < 0x7F and byte not in b"\\'%"
