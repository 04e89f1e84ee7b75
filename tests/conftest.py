"""What a run says of itself first, and the order of its tests."""

import pytest

from s3.server import header

LONG = (
    "system/test_watch.py",
    "faults/test_everything_at_once.py",
    "faults/test_replicas.py",
    "faults/test_i21_large.py",
)
"""Files whose single tests wait or work for tens of seconds: begun first, so that no worker is left alone with them."""


def pytest_report_header() -> str:
    """Which S3 server the tests talk to."""
    return header()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.removeprefix("tests/").startswith(LONG))
