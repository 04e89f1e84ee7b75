"""Removes the bytes of dropped objects from the blob store. The rows say what is left to do, so a crash loses nothing.

Under the account's lock: an object that is announced again meanwhile waits, and is then uploaded anew.
"""

from atomic_service.accounts.store import lock_account
from atomic_service.blobs.port import Blobs, object_key
from atomic_service.db import Database
from atomic_service.problems import UNREACHABLE
from atomic_service.uploads.store import dropped_objects, forget_objects

BATCH = 50


async def remove_dropped(db: Database, blobs: Blobs, account: bytes) -> None:
    """All dropped objects of one account, in short transactions."""
    while True:
        async with db.transaction() as connection:
            await lock_account(connection, account)
            objects = await dropped_objects(connection, account, BATCH)
            if not objects:
                return
            await blobs.delete([object_key(stored.purpose, account, stored.id) for stored in objects])
            await forget_objects(connection, account, objects)


async def remove_dropped_soon(db: Database, blobs: Blobs, account: bytes) -> None:
    """The same after a request that is done and answered well already; the sweep does what fails here."""
    try:
        await remove_dropped(db, blobs, account)
    except UNREACHABLE:
        return
