"""`/v1/mailbox/{id}`: pairing. Whoever knows the 128-bit id may read it and write the free slots."""

from typing import Any

from litestar import Request, Router
from litestar.params import FromPath

from atomic_service.accounts.callers import find_caller
from atomic_service.accounts.store import lock_account
from atomic_service.bodies import Packed, at_most, empty_delete, empty_post, hexed, packed_get
from atomic_service.mailbox.store import OPENING_SLOT, delete_mailbox, open_mailbox, put_slot, read_mailbox
from atomic_service.replica import Here
from atomic_sessions import wire


@empty_post("/{mailbox:str}")
async def post_slot(
    mailbox: FromPath[str], data: Packed[wire.MailboxPost], replica: Here, request: Request[Any, Any, Any]
) -> None:
    """Write one slot, once. `offer` needs a token and opens the mailbox."""
    replica.open_requests.take()
    key, body = hexed(mailbox, 16, "mailbox"), at_most(data.body, wire.MAX_MAILBOX_BYTES, "slot")
    if data.slot != OPENING_SLOT:
        async with replica.db.transaction() as connection:
            await put_slot(connection, key, data.slot, body, replica.clock())
        return
    caller = await find_caller(request)
    async with replica.db.transaction() as connection:
        await lock_account(connection, caller.account)
        await open_mailbox(connection, key, caller.account, body, replica.clock())


@packed_get("/{mailbox:str}")
async def get_mailbox(mailbox: FromPath[str], replica: Here) -> wire.Mailbox:
    """All slots written so far."""
    replica.open_requests.take()
    async with replica.db.snapshot() as connection:
        return await read_mailbox(connection, hexed(mailbox, 16, "mailbox"), replica.clock())


@empty_delete("/{mailbox:str}")
async def end_mailbox(mailbox: FromPath[str], replica: Here, request: Request[Any, Any, Any]) -> None:
    """Burn a mailbox of one's own account."""
    key, caller = hexed(mailbox, 16, "mailbox"), await find_caller(request)
    async with replica.db.connection() as connection:
        await delete_mailbox(connection, key, caller.account)


mailbox_routes = Router("/v1/mailbox", route_handlers=[post_slot, get_mailbox, end_mailbox], tags=["pairing"])
