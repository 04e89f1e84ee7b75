"""`GET /v1/live`: server-sent events that say "there is more" and nothing else.

No await in the generator's `finally` (a disconnect cancels it), and the subscription is made inside
the generator: one that never starts never runs its `finally`.
"""

from collections.abc import AsyncIterator

import msgspec
from litestar import Router, get
from litestar.di import Provide
from litestar.response import Stream

from atomic_service.accounts.callers import Asking, caller_of, require_device
from atomic_service.accounts.rules import Caller
from atomic_service.log.reading import read_head
from atomic_service.problems import UNREACHABLE
from atomic_service.replica import Here, Replica
from atomic_sessions.wire import Poke

COMMENT_SECONDS = 20.0
COMMENT = b": still here\n\n"


@get("/v1/live", media_type="text/event-stream")
async def live(caller: Asking, replica: Here) -> Stream:
    """A `poke` event at once and on every change of the log, until the token expires."""
    replica.streams.check(caller.account)
    async with replica.db.connection() as connection:
        await read_head(connection, caller.account)
    return Stream(_pokes(caller, replica), headers={"cache-control": "no-store", "x-accel-buffering": "no"})


async def _pokes(caller: Caller, replica: Replica) -> AsyncIterator[bytes]:
    hub, account = replica.hub, caller.account
    stream = hub.subscribe(account)
    replica.streams.add(account)
    replica.metrics.live.inc()
    try:
        async with replica.db.connection() as connection:
            stream.offer(await read_head(connection, account))
        while not hub.closed and replica.clock() < caller.expires_at:
            head = await stream.next(COMMENT_SECONDS)
            if hub.closed:
                return
            yield COMMENT if head is None else _event(head)
    except UNREACHABLE:
        return  # the agent connects again, and is told then
    finally:
        replica.metrics.live.dec()
        replica.streams.remove(account)
        hub.unsubscribe(account, stream)


def _event(head: int) -> bytes:
    return b"event: poke\ndata: " + msgspec.json.encode(Poke(head)) + b"\n\n"


live_routes = Router(
    "/",
    route_handlers=[live],
    guards=[require_device],
    dependencies={"caller": Provide(caller_of)},
    tags=["sync"],
)
