"""The stores that the contract is held to. A new one joins with a line here and what it is exempt from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from agent.stores import running_postgres
from agent.stores.port.earlier_kinds import beside_others
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.atom import AtomStore
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.memory import MemoryStore
from atomic_agent.stores.port import Store
from atomic_agent.stores.sqlite import open_sqlite

NOW = 1_796_043_907_321
F = TypeVar("F", bound=Callable[..., Any])


class Kind(Struct, frozen=True):
    """A way to keep sessions. `opens` opens what lies at a place, again and again; `exempt` names what
    the contract does not ask of it."""

    name: str
    opens: Callable[[Path], Store]
    exempt: frozenset[str] = frozenset()


KINDS = (
    Kind(
        "sqlite", lambda place: open_sqlite(place / "kept" / "sessions.sqlite", LocalKey(bytes(32)), "mine_")
    ),
    Kind("earlier", beside_others),
    Kind("postgres", running_postgres.opened, frozenset({"flags", "never revived"})),
    Kind(
        "atom",
        lambda place: AtomStore(place / "kept" / "session.json", lambda: NOW),
        frozenset({"many", "tree", "flags", "never revived"}),
    ),
    Kind("jsonl", lambda place: JsonlStore(place / "kept", lambda: NOW), frozenset({"never revived"})),
    Kind(
        "memory",
        lambda _: MemoryStore(),
        frozenset({"reopened", "claimed", "flags", "never revived"}),
    ),
)


def needs(*what: str) -> Callable[[F], F]:
    """Marks a test that only those stores are held to that are not exempt from all of this."""

    def mark(function: F) -> F:
        function.needs = frozenset(what)  # type: ignore[attr-defined]  # read by the conftest
        return function

    return mark
