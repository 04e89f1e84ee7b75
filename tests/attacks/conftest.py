"""One real service, one lying one before it, and one account for all attacks on the wire."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from attacks.stage import Account, Liar
from browser.conftest import watch  # noqa: F401  # a fixture
from chromium import launched
from system.conftest import desktop, laptop, machine, model, own_service, service  # noqa: F401  # fixtures
from system.machines import Machine, RunningService


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser for one test: others of its module run event loops of their own."""
    with launched() as found:
        yield found


@pytest.fixture(scope="session")
def liar(service: RunningService) -> Iterator[Liar]:  # noqa: F811  # the fixture of that name
    found = Liar(service.url)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def staged(service: RunningService, liar: Liar) -> Iterator[Account]:  # noqa: F811  # the fixture of that name
    """The account; made once, and only read from then on."""
    with tempfile.TemporaryDirectory(prefix="atomic-attacks-") as folder:
        yield Account(service, liar, Path(folder))


@pytest.fixture
def account(staged: Account) -> Iterator[Account]:
    """The account, and a service that tells the truth again afterwards."""
    yield staged
    staged.liar.tell()


@pytest.fixture
def victim(account: Account) -> Machine:
    """A machine of the account that has fetched nothing yet."""
    return account.victim()
