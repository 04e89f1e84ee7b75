"""A default store in a temporary home, with a key made for the test."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.port import Store
from atomic_agent.stores.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open, empty store."""
    home = Home(tmp_path / "home")
    key = LocalKey(secrets.token_bytes(32))
    with Cache.open(home.cache, key, home.keyinfo) as cache:
        yield SqliteStore(cache, syncs=True)
