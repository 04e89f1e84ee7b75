"""A default store in a temporary home, with a key made for the test."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An open, empty store."""
    home = Home(tmp_path / "home")
    key = LocalKey(secrets.token_bytes(32))
    with Journal(home, key, Cache.open(home.cache, key, home.keyinfo), made_key=True) as found:
        yield found
