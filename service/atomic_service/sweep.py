"""Removes what is over: expired shares' objects, tokens, mailboxes, old invites, uploads nobody shared.

Every replica does this now and then, and all of it may run twice at once. Deletes nothing that a live
row still names.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from atomic_service.accounts.store import lock_account
from atomic_service.blobs.port import Blobs
from atomic_service.clock import Clock
from atomic_service.db import Database
from atomic_service.problems import UNREACHABLE
from atomic_service.uploads.removal import remove_dropped
from atomic_service.uploads.store import drop_unshared

if TYPE_CHECKING:
    from atomic_service.db import Connection

EVERY_SECONDS = 600.0
DAY_MS = 24 * 3600 * 1000
BATCH = 1000

_OLD_TOKENS = "DELETE FROM token WHERE expires_at <= $1"
_OLD_MAILBOXES = "DELETE FROM mailbox WHERE expires_at <= $1"
_OLD_INVITES = "DELETE FROM invite WHERE expires_at <= $1"
# Shares that are over and still have their object, and objects that were uploaded a day ago and never shared.
_LEFT_OVER = """
SELECT account, array_agg(id) AS ids FROM (
    SELECT account, id FROM object
    WHERE purpose = 'share' AND dropped_at IS NULL AND created_at <= $2 AND NOT EXISTS (
        SELECT FROM share WHERE share.account = object.account AND share.object = object.id
            AND revoked_at IS NULL AND expires_at > $1 AND views_left IS DISTINCT FROM 0
    ) LIMIT $3
) AS left_over GROUP BY account
"""
_OVER = """
SELECT share.account, array_agg(object) AS ids FROM share JOIN object
    ON object.account = share.account AND object.purpose = 'share' AND object.id = share.object
WHERE dropped_at IS NULL AND (expires_at <= $1 OR views_left = 0 OR revoked_at IS NOT NULL)
GROUP BY share.account LIMIT $2
"""
_WITH_DROPPED = "SELECT DISTINCT account FROM object WHERE dropped_at IS NOT NULL LIMIT $1"


async def sweep(db: Database, blobs: Blobs, now: int) -> None:
    """One round."""
    async with db.connection() as connection:
        await connection.execute(_OLD_TOKENS, now)
        await connection.execute(_OLD_MAILBOXES, now)
        await connection.execute(_OLD_INVITES, now - DAY_MS)
        over = await connection.fetch(_OVER, now, BATCH)
        over += await connection.fetch(_LEFT_OVER, now, now - DAY_MS, BATCH)
    for row in over:
        async with db.transaction() as connection:
            await _drop(connection, row["account"], row["ids"], now)
    async with db.connection() as connection:
        accounts = [row["account"] for row in await connection.fetch(_WITH_DROPPED, BATCH)]
    for account in accounts:
        await remove_dropped(db, blobs, account)


async def _drop(connection: "Connection", account: bytes, ids: list[bytes], now: int) -> None:
    await lock_account(connection, account)
    await drop_unshared(connection, account, ids, now)


@asynccontextmanager
async def sweeping(db: Database, blobs: Blobs, clock: Clock) -> AsyncIterator[None]:
    """Sweep in the background while the block runs; replicas spread out by chance."""

    async def rounds() -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS * (0.5 + random.random()))
            try:
                await sweep(db, blobs, clock())
            except UNREACHABLE:
                continue  # the rows still say what is left to do

    task = asyncio.create_task(rounds())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
