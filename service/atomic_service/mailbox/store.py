"""SQL of mailboxes: where two devices that pair leave sealed notes. Reads none of them."""

from typing import TYPE_CHECKING

import asyncpg

from atomic_service.problems import Refused
from atomic_sessions.wire import MAILBOX_SECONDS, ErrorCode, Mailbox

if TYPE_CHECKING:
    from atomic_service.db import Connection

MAX_OPEN = 4
"""Mailboxes an account may have open at once."""
OPENING_SLOT = "offer"

_CLEAR = "DELETE FROM mailbox WHERE expires_at <= $1"
_COUNT = "SELECT count(*) FROM mailbox WHERE account = $1"
_OPEN = """
INSERT INTO mailbox (mailbox, account, expires_at) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT mailbox_pkey DO NOTHING RETURNING 1
"""


async def open_mailbox(
    connection: "Connection", mailbox: bytes, account: bytes, offer: bytes, now: int
) -> None:
    """A new mailbox with its first slot. Run under the account's lock, so that the count is right."""
    await connection.execute(_CLEAR, now)
    if await _known(connection, mailbox, now):
        await put_slot(connection, mailbox, OPENING_SLOT, offer, now)
        return
    if await connection.fetchval(_COUNT, account) >= MAX_OPEN:
        raise Refused(ErrorCode.SLOW_DOWN, "Too many mailboxes are open.", retry_after=60)
    if await connection.fetchval(_OPEN, mailbox, account, now + MAILBOX_SECONDS * 1000) is None:
        raise Refused(ErrorCode.SLOT_TAKEN)
    await put_slot(connection, mailbox, OPENING_SLOT, offer, now)


_KNOWN = "SELECT expires_at FROM mailbox WHERE mailbox = $1 AND expires_at > $2"


async def _known(connection: "Connection", mailbox: bytes, now: int) -> bool:
    return await connection.fetchval(_KNOWN, mailbox, now) is not None


_PUT = """
INSERT INTO mailbox_slot (mailbox, slot, body) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT mailbox_slot_pkey DO NOTHING RETURNING 1
"""
_SAME = "SELECT body = $3 FROM mailbox_slot WHERE mailbox = $1 AND slot = $2"


async def put_slot(connection: "Connection", mailbox: bytes, slot: str, body: bytes, now: int) -> None:
    """Write a slot once. The same bytes again are a retry whose reply was lost."""
    if not await _known(connection, mailbox, now):
        raise Refused(ErrorCode.NOT_FOUND, "The pairing is over or was never begun.")
    try:
        written = await connection.fetchval(_PUT, mailbox, slot, body)
    except asyncpg.ForeignKeyViolationError as error:  # burned since the line above
        raise Refused(ErrorCode.NOT_FOUND, "The pairing is over or was never begun.") from error
    if written is not None:
        return
    if not await connection.fetchval(_SAME, mailbox, slot, body):
        raise Refused(ErrorCode.SLOT_TAKEN)


_SLOTS = "SELECT slot, body FROM mailbox_slot WHERE mailbox = $1"


async def read_mailbox(connection: "Connection", mailbox: bytes, now: int) -> Mailbox:
    expires_at = await connection.fetchval(_KNOWN, mailbox, now)
    if expires_at is None:
        raise Refused(ErrorCode.NOT_FOUND, "The pairing is over or was never begun.")
    return Mailbox({row["slot"]: row["body"] for row in await connection.fetch(_SLOTS, mailbox)}, expires_at)


_DELETE = "DELETE FROM mailbox WHERE mailbox = $1 AND account = $2"


async def delete_mailbox(connection: "Connection", mailbox: bytes, account: bytes) -> None:
    await connection.execute(_DELETE, mailbox, account)
