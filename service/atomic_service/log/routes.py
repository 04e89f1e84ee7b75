"""`/v1/push`, `/v1/pull` and the other reads of a log. Holds no SQL and no rule."""

from typing import Annotated

from litestar import Router
from litestar.di import Provide
from litestar.params import FromPath, QueryParameter

from atomic_service.accounts.callers import Asking, caller_of, require_device
from atomic_service.bodies import Packed, hexed, packed_get, packed_post, sized
from atomic_service.log import reading
from atomic_service.log.store import push
from atomic_service.problems import Refused
from atomic_service.replica import Here
from atomic_service.uploads.removal import remove_dropped_soon
from atomic_sessions import wire

MAX_CURSOR_HEX = 64
MAX_SEQ = (1 << 63) - 1


@packed_post("/v1/push")
async def post_push(data: Packed[wire.Push], caller: Asking, replica: Here) -> wire.PushReply:
    """Add sealed events to the log, all or none. What is there already keeps its place."""
    with replica.pushes.enter(caller.account):
        plan = await push(replica.db, caller, data.events, replica.clock())
    metrics = replica.metrics
    if plan.events:
        replica.hub.announce(caller.account, plan.head)
        metrics.events.inc(len(plan.events))
        metrics.event_bytes.inc(sum(len(event.sealed.raw) for event in plan.events))
    metrics.replays.inc(len(plan.results) - len(plan.events))
    if plan.died:
        await remove_dropped_soon(replica.db, replica.blobs, caller.account)
    return wire.PushReply(plan.head, plan.results)


@packed_get("/v1/pull")
async def get_pull(
    caller: Asking, replica: Here, cursor: Annotated[str, QueryParameter(max_length=MAX_CURSOR_HEX)] = ""
) -> wire.Pull:
    """Events after a cursor, in the log's order."""
    place = reading.read_cursor(hexed(cursor, len(cursor) // 2, "cursor"))
    async with replica.db.snapshot() as connection:
        return await reading.pull(connection, caller.account, place)


@packed_get("/v1/snapshot")
async def get_snapshot(caller: Asking, replica: Here) -> wire.Snapshot:
    """Where a new or reset agent begins, and which sessions are dead."""
    async with replica.db.snapshot() as connection:
        return await reading.snapshot(connection, caller.account)


@packed_get("/v1/sessions")
async def get_sessions(caller: Asking, replica: Here) -> wire.Sessions:
    """All sessions with their newest message over all copies."""
    async with replica.db.connection() as connection:
        return wire.Sessions(await reading.sessions(connection, caller.account))


@packed_get("/v1/sessions/{session:str}/records")
async def get_records(
    session: FromPath[str],
    caller: Asking,
    replica: Here,
    after: Annotated[int, QueryParameter(ge=0, le=MAX_SEQ)] = 0,
) -> wire.Records:
    """Events of one session after a place in the log."""
    async with replica.db.snapshot() as connection:
        return await reading.records(connection, caller.account, hexed(session, 16, "session"), after)


@packed_post("/v1/have")
async def post_have(data: Packed[wire.Have], caller: Asking, replica: Here) -> wire.Missing:
    """Which of these events the log has never seen. For repair only."""
    if len(data.ids) > wire.MAX_HAVE_IDS:
        raise Refused(wire.ErrorCode.TOO_LARGE, f"More than {wire.MAX_HAVE_IDS} ids.")
    ids = [sized(event_id, 32, "event id") for event_id in data.ids]
    async with replica.db.connection() as connection:
        return wire.Missing(await reading.missing(connection, caller.account, ids))


log_routes = Router(
    "/",
    route_handlers=[post_push, get_pull, get_snapshot, get_sessions, get_records, post_have],
    guards=[require_device],
    dependencies={"caller": Provide(caller_of)},
    tags=["sync"],
)
