"""SQL of uploaded objects: which exist for whom. The bytes are the blob store's."""

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from atomic_service.accounts.store import lock_account
from atomic_service.problems import Refused
from atomic_sessions.wire import ErrorCode, UploadRequest

if TYPE_CHECKING:
    from asyncpg import Record

    from atomic_service.db import Connection

Purpose = Literal["blob", "share"]


class StoredObject(Struct, frozen=True):
    """A row of `object`."""

    purpose: Purpose
    id: bytes
    session: bytes | None
    size: int


_FIND = """
SELECT purpose, id, session, size FROM object
WHERE account = $1 AND purpose = $2 AND id = $3 AND dropped_at IS NULL
"""


async def find_object(
    connection: "Connection", account: bytes, purpose: Purpose, object_id: bytes
) -> StoredObject | None:
    row = await connection.fetchrow(_FIND, account, purpose, object_id)
    return StoredObject(**row) if row is not None else None


_DEAD = "SELECT dead FROM session WHERE account = $1 AND session = $2"
_SPACE = "SELECT quota - bytes FROM account WHERE account = $1"
# The same bytes can come back after they were dropped: a public share that was revoked and made again.
_ADD = """
INSERT INTO object (account, purpose, id, session, size, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT ON CONSTRAINT object_pkey DO UPDATE SET dropped_at = NULL, created_at = excluded.created_at
"""
_TAKE_SPACE = "UPDATE account SET bytes = bytes + $2 WHERE account = $1"


async def announce_object(connection: "Connection", account: bytes, request: UploadRequest, now: int) -> None:
    """Make room for an object, under the account's lock. Announced twice it counts once."""
    await lock_account(connection, account)
    session = request.session or None
    if session is not None and await connection.fetchval(_DEAD, account, session):
        raise Refused(ErrorCode.SESSION_DEAD, session=session)
    known = await find_object(connection, account, request.purpose, request.id)
    if known is not None:
        if known.size != request.size or known.session != session:
            raise Refused(ErrorCode.BAD_REQUEST, "The object is known with another size or session.")
        return
    if await connection.fetchval(_SPACE, account) < request.size:
        raise Refused(ErrorCode.OVER_QUOTA, "Delete sessions, or ask the operator for more space.")
    await connection.execute(_ADD, account, request.purpose, request.id, session, request.size, now)
    await connection.execute(_TAKE_SPACE, account, request.size)


_DROP_OF_SESSIONS = """
UPDATE object SET dropped_at = $3 WHERE account = $1 AND session = ANY($2) AND dropped_at IS NULL RETURNING size
"""


async def drop_objects_of(connection: "Connection", account: bytes, sessions: list[bytes], now: int) -> None:
    """Take away the objects of dead sessions. Run under the account's lock."""
    await _give_space_back(
        connection, account, await connection.fetch(_DROP_OF_SESSIONS, account, sessions, now)
    )


_DROP_UNSHARED = """
UPDATE object SET dropped_at = $3
WHERE account = $1 AND purpose = 'share' AND id = ANY($2) AND dropped_at IS NULL AND NOT EXISTS (
    SELECT FROM share WHERE share.account = object.account AND share.object = object.id
        AND revoked_at IS NULL AND expires_at > $3 AND views_left IS DISTINCT FROM 0
) RETURNING size
"""


async def drop_unshared(connection: "Connection", account: bytes, ids: list[bytes], now: int) -> None:
    """Take away those of these objects that no live share shows. Run under the account's lock."""
    await _give_space_back(connection, account, await connection.fetch(_DROP_UNSHARED, account, ids, now))


async def _give_space_back(connection: "Connection", account: bytes, rows: "list[Record]") -> None:
    freed = sum(row["size"] for row in rows)
    if freed:
        await connection.execute(_TAKE_SPACE, account, -freed)


_DROPPED = (
    "SELECT purpose, id, session, size FROM object WHERE account = $1 AND dropped_at IS NOT NULL LIMIT $2"
)
_FORGET = "DELETE FROM object WHERE account = $1 AND id = ANY($2) AND dropped_at IS NOT NULL"


async def dropped_objects(connection: "Connection", account: bytes, limit: int) -> list[StoredObject]:
    return [StoredObject(**row) for row in await connection.fetch(_DROPPED, account, limit)]


async def forget_objects(connection: "Connection", account: bytes, objects: list[StoredObject]) -> None:
    await connection.execute(_FORGET, account, [stored.id for stored in objects])
