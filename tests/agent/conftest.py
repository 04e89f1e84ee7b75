"""A key and an open cache of their own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey


@pytest.fixture
def key() -> LocalKey:
    return LocalKey(bytes(range(32)))


@pytest.fixture
def cache(tmp_path: Path, key: LocalKey) -> Iterator[Cache]:
    """A cache that nothing was put into yet."""
    folder = tmp_path / "cache"
    with Cache.open(folder / "journal.sqlite", key, folder / "journal.keyinfo") as found:
        yield found
