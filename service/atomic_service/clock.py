"""The service's clock, an argument wherever time matters. Tests hand in their own."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Whole milliseconds since 1970 UTC."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000
