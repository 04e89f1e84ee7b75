"""A real service behind a line that breaks on request, and machines of one account."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from atomic_service.embedded.postgres import EmbeddedPostgres
from faults.machines import Account
from faults.proxy import FaultProxy
from faults.victim import Victim
from service.conftest import database, own_service, postgres, start_service
from service.running import RunningService

__all__ = ["database", "own_service", "postgres", "start_service"]


@pytest.fixture(scope="session")
def victim() -> Iterator[Victim]:
    """A process whose children are killed where a test says."""
    with Victim() as found:
        yield found


@pytest.fixture
def proxied(postgres: EmbeddedPostgres, database: str) -> Iterator[tuple[RunningService, FaultProxy]]:
    """A service of the test's own that answers at the proxy's address."""
    folder = Path(tempfile.mkdtemp(prefix="atomic-test-"))
    proxy = FaultProxy()
    service = RunningService(postgres, database, folder, public_url=proxy.url).start()
    proxy.upstream = int(service.url.rsplit(":", 1)[1])
    yield service, proxy
    proxy.close()
    service.stop()
    shutil.rmtree(folder)


@pytest.fixture
def account(tmp_path: Path, proxied: tuple[RunningService, FaultProxy]) -> Iterator[Callable[[int], Account]]:
    """Makes the account with so many machines."""
    made: list[Account] = []

    def make(count: int = 2) -> Account:
        made.append(Account(tmp_path, *proxied, count))
        return made[-1]

    yield make
    for one in made:
        one.close()
