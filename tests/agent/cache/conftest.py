"""One cache for all examples of a property, and a place for a cache that a test makes itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cache.stored import Emptied, Place


@pytest.fixture(scope="module")
def emptied() -> Iterator[Emptied]:
    with Emptied() as found:
        yield found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
