"""What one process lets in at a time: token buckets and gates. Limits per address are the proxy's."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from atomic_service.clock import Clock
from atomic_service.problems import Refused
from atomic_sessions.wire import ErrorCode


def refill(level: float, since: int, now: int, rate: float, burst: float) -> float:
    """A token bucket's level now, given its level at `since`."""
    return min(burst, level + max(0, now - since) / 1000 * rate)


class Throttle:
    """At most `rate` a second with bursts of `burst`, over all callers of this process."""

    def __init__(self, clock: Clock, rate: float, burst: float) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._since = clock()

    def take(self) -> None:
        """Count one request or refuse it."""
        now = self._clock()
        self._level, self._since = refill(self._level, self._since, now, self._rate, self._burst), now
        if self._level < 1:
            raise Refused(ErrorCode.SLOW_DOWN, retry_after=round((1 - self._level) / self._rate, 3))
        self._level -= 1


class Gate:
    """Refuses early instead of queueing: so many at once in all, so many of one account."""

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._inside: Counter[bytes] = Counter()
        self._count = 0

    def check(self, account: bytes) -> None:
        """Refuse when there is no room; `add` and `remove` count who is inside."""
        if self._count >= self._total or self._inside[account] >= self._each:
            raise Refused(ErrorCode.SLOW_DOWN, "Too many of these are under way.", retry_after=0.5)

    def add(self, account: bytes) -> None:
        self._inside[account] += 1
        self._count += 1

    def remove(self, account: bytes) -> None:
        self._inside[account] -= 1
        self._count -= 1
        if self._inside[account] == 0:
            del self._inside[account]

    @contextmanager
    def enter(self, account: bytes) -> Iterator[None]:
        """Inside for as long as the block runs."""
        self.check(account)
        self.add(account)
        try:
            yield
        finally:
            self.remove(account)
