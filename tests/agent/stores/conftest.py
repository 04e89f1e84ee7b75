"""One original for all tests of a module; each hurts a copy."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.stores import running_postgres
from agent.stores.damage import Original


@pytest.fixture(scope="session", autouse=True)
def _postgres_ends() -> Iterator[None]:
    """A server is started by the first test that needs one."""
    yield
    running_postgres.stop()


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("salvage"))


@pytest.fixture
def original(_made: Original, monkeypatch: pytest.MonkeyPatch) -> Original:
    for name in list(os.environ):
        if name.startswith("ATOMIC_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ATOMIC_KEY_FILE", str(Path(_made.key_file)))
    return _made
