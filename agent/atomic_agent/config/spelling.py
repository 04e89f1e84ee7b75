"""The JSON that names a store, in settings, flags and variables alike, to a selection. Pure.

`{"path": FILE, "prefix"?: TEXT}` · `{"dir": FOLDER}` · `{"memory": true}` · `{"atom": true | FILE}` ·
`{"driver": NAME, "options"?: {…}}`. What is wrong is named, what it holds is not repeated.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from atomic_agent.config.errors import SelectionError
from atomic_agent.config.paths import Folders, atom_path, cache_path, resolve
from atomic_agent.config.selection import (
    AtomSelection,
    CacheSelection,
    DriverSelection,
    FolderSelection,
    MemorySelection,
    Selection,
    SqliteSelection,
)

_KINDS = {"path": ("prefix",), "dir": (), "memory": (), "atom": (), "driver": ("options",)}
"""What names a store, and which other members go with it."""

_MEND = (
    'Use one of {"path": "FILE"}, {"dir": "FOLDER"}, {"memory": true}, {"atom": true}, {"driver": "NAME"}.'
)
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DRIVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHOWN = 40


def parsed(text: str, where: str) -> Any:  # JSON of any shape
    """The value of JSON text; SelectionError says where it breaks off, never what it says."""
    try:
        return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        what = "is empty" if not text.strip() else "is not valid JSON"
        at = f" (line {error.lineno}, column {error.colno})" if text.strip() else ""
        raise SelectionError(f"{where} {what}{at}.", _MEND) from None
    except _TwiceError as error:
        raise SelectionError(f"{where} names {_quoted(error.name)} twice.", "Keep one.") from None
    except (ValueError, RecursionError):
        raise SelectionError(f"{where} holds JSON beyond all measure.", _MEND) from None


class _TwiceError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # JSON of any shape
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(name)
        found[name] = value
    return found


def named(
    value: object, where: str, base: str, folders: Folders, environ: Mapping[str, str], *, file: str = ""
) -> Selection:
    """The store that a JSON value names; its paths count from `base`."""
    if not isinstance(value, dict):
        raise SelectionError(f"{where} has to be a JSON object.", _MEND)
    kinds = [kind for kind in _KINDS if kind in value]
    if len(kinds) > 1:
        raise SelectionError(f'{where} names both "{kinds[0]}" and "{kinds[1]}".', "Keep one.")
    if not kinds and {"storage", "sessions"} & value.keys():
        raise SelectionError(f"{where} takes the store itself, not settings around it.", _MEND)
    if not kinds:
        raise SelectionError(f"{where} names no store.", _MEND)
    kind = kinds[0]
    for member in value:
        if member not in (kind, *_KINDS[kind]):
            raise SelectionError(f'{where} has {_quoted(member)} beside "{kind}".', "Remove it.")
    return _of_kind(kind, value, where, base, folders, environ, file)


def _of_kind(
    kind: str,
    value: dict[str, Any],  # JSON of any shape
    where: str,
    base: str,
    folders: Folders,
    environ: Mapping[str, str],
    file: str,
) -> Selection:
    given = value[kind]
    inside = f'"{kind}" in {where}'
    if kind == "memory" or (kind == "atom" and given is True):
        if given is not True:
            raise SelectionError(f"{inside} can only be true.", _MEND)
        return MemorySelection() if kind == "memory" else AtomSelection(atom_path(environ, folders))
    if not isinstance(given, str):
        raise SelectionError(f"{inside} has to be text.", _MEND)
    match kind:
        case "path":
            prefix = value.get("prefix", "")
            return sqlite(resolve(given, base, folders, inside), prefix, f'"prefix" in {where}', folders)
        case "dir":
            return FolderSelection(resolve(given, base, folders, inside))
        case "atom":
            return AtomSelection(resolve(given, base, folders, inside))
    if not _DRIVER.fullmatch(given):
        raise SelectionError(f"{inside} is no driver's name.", 'Use a name such as "postgres".')
    options = value.get("options", {})
    if not isinstance(options, dict):
        raise SelectionError(f'"options" in {where} has to be a JSON object.', "See the driver's manual.")
    return DriverSelection(given, options, file)


def sqlite(path: str, prefix: object, where: str, folders: Folders) -> Selection:
    """A SQLite file; the default store when it is that one and has no prefix (B1)."""
    check_prefix(prefix, where)
    assert isinstance(prefix, str)
    if not prefix and path == cache_path(folders):
        return CacheSelection(path, earlier=False)
    return SqliteSelection(path, prefix)


def check_prefix(prefix: object, where: str) -> None:
    """SelectionError unless it can stand in front of a table's name (B12)."""
    if prefix == "":
        return
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise SelectionError(
            f"{where} has to be letters, digits and underscores, no digit first.", "Example: project_"
        )
    if prefix.lower().startswith("sqlite_"):
        raise SelectionError(
            f"{where} begins with sqlite_, which SQLite keeps for itself.", "Choose another."
        )


def _quoted(name: str) -> str:
    """A member's name, cut and on one line."""
    return json.dumps(name[:_SHOWN] + ("…" if len(name) > _SHOWN else ""))
