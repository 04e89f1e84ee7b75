"""What one running replica holds: sockets, clocks and gates, never state that another replica would miss."""

import asyncio
import secrets
from collections.abc import Callable
from typing import TypeAlias

from litestar.datastructures import State
from litestar.di import NamedDependency
from msgspec import Struct

from atomic_service.blobs.port import Blobs
from atomic_service.clock import Clock
from atomic_service.db import Database
from atomic_service.limits import Gate, Throttle
from atomic_service.live.hub import Hub
from atomic_service.metrics import Metrics
from atomic_service.settings import Settings

Randomness = Callable[[int], bytes]

OPEN_RATE, OPEN_BURST = 100.0, 400.0
"""Unauthenticated requests a second that one process answers; per address the proxy counts."""
PUSHES_EACH = 4
LIVE_TOTAL, LIVE_EACH = 15_000, 64
RENDERED_AT_ONCE = 1
"""A long public session fills a core for a second; requests of agents must not wait for it."""


class Replica(Struct, frozen=True):
    """Handed to every route."""

    settings: Settings
    db: Database
    blobs: Blobs
    hub: Hub
    metrics: Metrics
    clock: Clock
    randomness: Randomness
    open_requests: Throttle
    pushes: Gate
    streams: Gate
    rendering: asyncio.Semaphore


def make_replica(
    settings: Settings, db: Database, blobs: Blobs, hub: Hub, metrics: Metrics, clock: Clock
) -> Replica:
    """A replica over opened resources. Pushes leave part of the pool to reads."""
    return Replica(
        settings=settings,
        db=db,
        blobs=blobs,
        hub=hub,
        metrics=metrics,
        clock=clock,
        randomness=secrets.token_bytes,
        open_requests=Throttle(clock, OPEN_RATE, OPEN_BURST),
        pushes=Gate(max(1, settings.pool_size * 3 // 4), PUSHES_EACH),
        streams=Gate(LIVE_TOTAL, LIVE_EACH),
        rendering=asyncio.Semaphore(RENDERED_AT_ONCE),
    )


Here: TypeAlias = NamedDependency[Replica]
"""How a handler asks for the replica it runs in."""


async def replica_of(state: State) -> Replica:
    """The dependency `replica` of every handler."""
    replica: Replica = state.replica
    return replica
