"""`/v1/shares`: publish, list and revoke. What the public sees is in public.py."""

import asyncio

from litestar import Router
from litestar.di import Provide
from litestar.params import FromPath

from atomic_service.accounts.callers import Asking, caller_of, require_device
from atomic_service.blobs.port import object_key
from atomic_service.bodies import Packed, empty_delete, hexed, packed_get, packed_post
from atomic_service.problems import Refused
from atomic_service.replica import Here
from atomic_service.shares.published import MAX_PUBLIC_BYTES, as_html
from atomic_service.shares.rules import as_seen_by_owner, check_request
from atomic_service.shares.store import list_shares, publish, revoke
from atomic_service.uploads.removal import remove_dropped_soon
from atomic_sessions import wire


@packed_post("/v1/shares")
async def post_share(data: Packed[wire.ShareRequest], caller: Asking, replica: Here) -> wire.Share:
    """Publish an uploaded object, or a new revision of one's own share."""
    now = replica.clock()
    check_request(data, now)
    key = object_key("share", caller.account, data.object)
    if not await replica.blobs.holds(key, data.size):
        raise Refused(wire.ErrorCode.NOT_FOUND, "Upload the object first.")
    if data.kind == "public":
        if data.size > MAX_PUBLIC_BYTES:
            raise Refused(
                wire.ErrorCode.TOO_LARGE, "The session is too large for a public page; share it sealed."
            )
        # Nobody must meet a public link that cannot be shown.
        raw = await replica.blobs.get(key)
        async with replica.rendering:
            await asyncio.to_thread(as_html, raw)
    async with replica.db.transaction() as connection:
        row = await publish(connection, caller.account, data, now)
    await remove_dropped_soon(replica.db, replica.blobs, caller.account)
    return as_seen_by_owner(row, now)


@packed_get("/v1/shares")
async def get_shares(caller: Asking, replica: Here) -> wire.Shares:
    """All shares of the account, newest first, over ones included."""
    now = replica.clock()
    async with replica.db.connection() as connection:
        return wire.Shares(
            [as_seen_by_owner(row, now) for row in await list_shares(connection, caller.account)]
        )


@empty_delete("/v1/shares/{share:str}")
async def delete_share(share: FromPath[str], caller: Asking, replica: Here) -> None:
    """Revoke a share (its id in hex): its link answers 410 from now on and its object is removed."""
    share_id = hexed(share, 16, "share id")
    async with replica.db.transaction() as connection:
        await revoke(connection, caller.account, share_id, replica.clock())
    await remove_dropped_soon(replica.db, replica.blobs, caller.account)


share_routes = Router(
    "/",
    route_handlers=[post_share, get_shares, delete_share],
    guards=[require_device],
    dependencies={"caller": Provide(caller_of)},
    tags=["shares"],
)
