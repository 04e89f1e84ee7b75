"""Database drivers that a person installed: found by the entry points of the group `atomic_sessions.stores`. Knows no
database, and never opens another store in the place of one that fails.

A driver is one callable, `open(options, flags) -> Store`, under the name that a selection gives:

    [project.entry-points."atomic_sessions.stores"]
    mine = "my_package.sessions:open_mine"

`options` are those of the selection, every `{"env": NAME}` in them replaced by what the variable holds; `flags` is
what the store has to answer as its `flags`. The callable opens and makes what it needs, or raises
StoreUnavailableError, SelectionError for options it cannot use; its module is imported only when it is chosen. It
keeps the whole of `stores.port.Store`, never syncs, and puts no option's value into a message.
"""

import importlib.metadata
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

from atomic_agent.config import way_back
from atomic_agent.config.errors import SelectionError
from atomic_agent.config.selection import DriverSelection
from atomic_agent.stores.port import Store
from atomic_sessions.errors import AtomicError, StoreUnavailableError

GROUP = "atomic_sessions.stores"
Driver = Callable[[Mapping[str, Any], tuple[str, ...]], Store]  # JSON of any shape, the driver's own

_EXTRAS = {"postgres": "pip install 'atomic-sessions[postgres]'"}
"""What brings the drivers of our own."""


def open_driver(selection: DriverSelection, environ: Mapping[str, str]) -> Store:
    """The store that a driver opens. SelectionError for a driver or a variable that is not there,
    StoreUnavailableError for one that does not start."""
    name = selection.name
    driver = _loaded(name, _entry_point(name))
    flags = way_back.flags(selection) or ()
    options = {member: resolved(value, environ, f'"{member}"') for member, value in selection.options.items()}
    try:
        store = driver(options, flags)
    except AtomicError:
        raise
    except Exception as error:  # noqa: BLE001  # another's code: what it says may hold an option's value
        raise StoreUnavailableError(
            f"The driver '{name}' failed with {type(error).__name__}.", "See the driver's manual."
        ) from None
    if not _keeps_to_the_port(store, flags):
        raise StoreUnavailableError(
            f"The driver '{name}' does not keep to what a store has to do.", "Ask its author for a newer one."
        )
    return store


def _keeps_to_the_port(store: Any, flags: tuple[str, ...]) -> bool:  # another's code may return anything
    """What can be told without using it; a store that does not is closed, if it can be."""
    if getattr(store, "syncs", True) or getattr(store, "flags", None) != flags:
        close = getattr(store, "close", None)
        if callable(close):
            close()
        return False
    return True


def installed() -> list[str]:
    """The names of all drivers there are."""
    return sorted({found.name for found in importlib.metadata.entry_points(group=GROUP)})


def resolved(value: Any, environ: Mapping[str, str], where: str) -> Any:  # JSON of any shape
    """JSON with each `{"env": NAME}` replaced by what the variable holds; SelectionError names one that is not set."""
    if isinstance(value, list):
        return [resolved(inner, environ, where) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"env"}:
        return {member: resolved(inner, environ, where) for member, inner in value.items()}
    variable = value["env"]
    if not isinstance(variable, str):
        raise SelectionError(f"{where} names no variable.", 'Write {"env": "NAME"}.')
    found = environ.get(variable, "")
    if not found:
        raise SelectionError(
            f"The variable {variable}, which {where} of the driver's options names, is not set.",
            f"Set it: export {variable}=…",
        )
    return found


def _entry_point(name: str) -> EntryPoint:
    found = list(importlib.metadata.entry_points(group=GROUP, name=name))
    if not found:
        others = ", ".join(installed()) or "none"
        raise SelectionError(
            f"There is no driver '{name}'; installed: {others}.",
            f"Install it: {_EXTRAS[name]}" if name in _EXTRAS else "Install the package that brings it.",
        )
    if len({point.value for point in found}) > 1:
        packages = sorted({point.dist.name for point in found if point.dist is not None})
        raise SelectionError(
            f"Several packages bring a driver '{name}': {', '.join(packages)}.", "Uninstall all but one."
        )
    return found[0]


def _loaded(name: str, point: EntryPoint) -> Driver:
    try:
        driver: Driver = point.load()
    except (ImportError, AttributeError) as error:
        missing = f": {error.name} is missing" if isinstance(error, ImportError) and error.name else ""
        raise StoreUnavailableError(
            f"The driver '{name}' cannot be loaded{missing}.",
            f"Install what it needs: {_EXTRAS[name]}" if name in _EXTRAS else "Reinstall its package.",
        ) from None
    return driver
