"""What does not fit in memory: a session of 500 MB, and 100,000 sessions. Whole processes."""

import itertools
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import repeatable, transaction
from atomic_agent.stores.sqlite import SqliteStore
from bench.generate import Writer
from bench.stage import Figure, Machine, Service, figure, median_of, open_cache, timed

SESSION = "33333333-3333-4333-8333-333333333333"
MESSAGES = 151_000
COUNT = 100_000
SHOWN = 200


def large(root: Path) -> Iterator[Figure]:
    """Seconds and peak memory of taking in and sending the one, seconds to the first page of the other."""
    path = root / f"{SESSION}.jsonl"
    Writer(9).session(path, "/home/dev/large", MESSAGES, datetime(2026, 11, 1, 8, tzinfo=UTC), scale=3)
    machine = Machine(root, "large")
    begun = time.perf_counter()
    memory = machine.peak("capture", "--from", str(path))
    yield figure("capture_500mb", time.perf_counter() - begun, "s")
    yield figure("capture_500mb_rss", memory, "MB")
    service = Service(root / "large-service")
    try:
        begun = time.perf_counter()
        memory = machine.peak("login", service.url, "--invite", "-", stdin=service.invite)
        yield figure("push_500mb", time.perf_counter() - begun, "s")
        yield figure("push_500mb_rss", memory, "MB")
    finally:
        service.stop()
    yield figure("export_500mb_rss", machine.peak("export", SESSION, "-", "--as", "jsonl"), "MB")
    with open_cache(machine) as cache:
        yield from _opened(SqliteStore(cache))
    many = Machine(root, "many")
    many.run("sessions")
    with open_cache(many) as cache:
        _fill(cache)
    yield figure("list_100k", many.seconds("sessions", "--all", "--limit", "50"), "s")
    yield figure("list_100k_rss", many.peak("sessions", "--all"), "MB")


def _opened(store: SqliteStore) -> Iterator[Figure]:
    """The row, the leaf and what a screen shows above it."""

    def look() -> None:
        row = store.find(SESSION, "")
        assert len(list(itertools.islice(store.climb(row.key, store.leaf(row.key)), SHOWN))) == SHOWN

    yield figure("open_500mb", median_of(5, lambda: timed(look)), "s")


def _fill(cache: Cache) -> None:
    rows = (
        (
            f"{os.urandom(4).hex()}-1111-7111-8111-{n:012d}",
            f"git:h/p{n % 50}",
            n,
            f"prompt {n}",
            1_700_000_000_000 + n,
        )
        for n in range(COUNT)
    )
    with repeatable(cache.connection), transaction(cache.connection):
        cache.connection.executemany(
            "INSERT INTO session_sessions (agent, id, scope, cwd, project, created_at, parent, internal, header,"
            " first_message, messages, newest_at, newest_tag, newest_id)"
            " VALUES ('pi', ?, '', '/p', ?, ?, '', 0, x'', ?, 2, ?, x'00', 'e')",
            rows,
        )
