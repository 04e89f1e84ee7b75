"""Each test of runs is held to each store of runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.runs import SqliteRuns
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.runs import RunStore
from atomic_agent.stores.runs_folder import FolderRuns
from atomic_agent.stores.runs_memory import MemoryRuns


def cache_at(place: Path, prefix: str = "") -> Cache:
    """The encrypted cache of a place."""
    path = place / "kept" / "journal.sqlite"
    return Cache.open(path, LocalKey(bytes(32)), path.with_suffix(".keyinfo"), prefix=prefix)


class RunKind(Struct, frozen=True):
    """A way to keep runs, opened at a place again and again where they outlive their process."""

    name: str
    opens: Callable[[Path], RunStore]
    stays: bool = True


KINDS = (
    RunKind("sqlite", lambda place: SqliteRuns(cache_at(place, "mine_"))),
    RunKind("folder", lambda place: FolderRuns(place / "kept")),
    RunKind("memory", lambda _: MemoryRuns(), stays=False),
)
STAYING = tuple(kind for kind in KINDS if kind.stays)


class Stand:
    """A store of runs under test, and other openings of its place."""

    def __init__(self, kind: RunKind, place: Path) -> None:
        self.kind, self.place = kind, place
        self._opened: list[RunStore] = []
        self.store = self.again()

    def again(self) -> RunStore:
        self._opened.append(self.kind.opens(self.place))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            if isinstance(store, SqliteRuns):
                store.cache.close()


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    stand = Stand(request.param, tmp_path)
    yield stand.store
    stand.close()


@pytest.fixture(params=STAYING, ids=[kind.name for kind in STAYING])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stand]:
    found = Stand(request.param, tmp_path)
    yield found
    found.close()
