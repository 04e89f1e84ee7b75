"""One cache for all examples of a property."""

from collections.abc import Iterator

import pytest

from agent.cache.stored import Emptied


@pytest.fixture(scope="module")
def emptied() -> Iterator[Emptied]:
    with Emptied() as found:
        yield found
