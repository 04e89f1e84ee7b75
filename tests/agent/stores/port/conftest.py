"""Each test of the contract runs on each store of the table."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.stores.port.kinds import KINDS, Kind
from atomic_agent.stores.port import Store


class Stand:
    """A store under test, and other openings of the same place."""

    def __init__(self, kind: Kind, place: Path) -> None:
        self.kind, self.place = kind, place
        self._opened: list[Store] = []
        self.store = self.again()

    def again(self) -> Store:
        """The same place opened once more, as another process would."""
        self._opened.append(self.kind.opens(self.place))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        needed: frozenset[str] = getattr(metafunc.function, "needs", frozenset())
        kinds = [kind for kind in KINDS if not needed & kind.exempt]
        metafunc.parametrize("kind", kinds, ids=[kind.name for kind in kinds])


@pytest.fixture
def stand(kind: Kind, tmp_path: Path) -> Iterator[Stand]:
    found = Stand(kind, tmp_path)
    yield found
    found.close()


@pytest.fixture
def store(stand: Stand) -> Store:
    return stand.store
