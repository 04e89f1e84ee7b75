"""Makes invites from the command line, over a connection of its own. A code is shown once and stored as a hash."""

import secrets
from typing import TYPE_CHECKING, cast

import asyncpg

from atomic_service.accounts.rules import INVITE_BYTES, invite_code
from atomic_service.accounts.store import add_invite, any_account
from atomic_service.clock import now_ms

if TYPE_CHECKING:
    from atomic_service.db import Connection

DEFAULT_SECONDS = 7 * 24 * 3600


async def make_invite(database_url: str, seconds: int = DEFAULT_SECONDS) -> str:
    """A new invite, good for one account."""
    code = invite_code(secrets.token_bytes(INVITE_BYTES))
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        await add_invite(cast("Connection", connection), code, now_ms() + seconds * 1000)
    finally:
        await connection.close()
    return code


async def no_account_yet(database_url: str) -> bool:
    connection = await asyncpg.connect(database_url, timeout=10)
    try:
        return not await any_account(cast("Connection", connection))
    finally:
        await connection.close()
