"""SQL of shares. A view is taken in one statement, so that the last one has exactly one winner."""

from typing import TYPE_CHECKING

from atomic_service.accounts.store import lock_account
from atomic_service.problems import Refused
from atomic_service.shares.rules import ShareRow, check_revision, is_same
from atomic_service.uploads.store import drop_unshared, find_object
from atomic_sessions.wire import ErrorCode, ShareRequest

if TYPE_CHECKING:
    from atomic_service.db import Connection

MAX_LISTED = 10_000

_COLUMNS = (
    "share, account, kind, object, size, revision, note, created_at, expires_at, views_left, revoked_at"
)
_FIND = f"SELECT {_COLUMNS} FROM share WHERE share = $1"  # noqa: S608 - constants


async def find_share(connection: "Connection", share: bytes) -> ShareRow | None:
    row = await connection.fetchrow(_FIND, share)
    return ShareRow(**row) if row is not None else None


_ADD = f"""
INSERT INTO share (share, account, kind, object, size, revision, note, created_at, expires_at, views_left)
VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9)
ON CONFLICT ON CONSTRAINT share_pkey DO NOTHING RETURNING {_COLUMNS}
"""  # noqa: S608 - constants
_REVISE = f"""
UPDATE share SET revision = revision + 1, object = $2, size = $3, note = $4, expires_at = $5, views_left = $6
WHERE share = $1 RETURNING {_COLUMNS}
"""  # noqa: S608 - constants


async def publish(connection: "Connection", account: bytes, request: ShareRequest, now: int) -> ShareRow:
    """A new share or the next revision of one, over an object that was uploaded for it."""
    await lock_account(connection, account)
    stored = await find_object(connection, account, "share", request.object)
    if stored is None or stored.size != request.size:
        raise Refused(ErrorCode.NOT_FOUND, "Upload the object first.")
    row = await connection.fetchrow(
        _ADD, request.share, account, request.kind, request.object, request.size, request.note, now,
        request.expires_at, request.views,
    )  # fmt: skip
    if row is not None:
        return ShareRow(**row)
    known = await find_share(connection, request.share)
    assert known is not None  # shares are never deleted
    check_revision(known, request, account)
    if is_same(known, request):
        return known
    row = await connection.fetchrow(
        _REVISE, request.share, request.object, request.size, request.note, request.expires_at, request.views
    )
    assert row is not None
    await drop_unshared(connection, account, [known.object], now)
    return ShareRow(**row)


_LIST = f"SELECT {_COLUMNS} FROM share WHERE account = $1 ORDER BY created_at DESC LIMIT $2"  # noqa: S608 - constants


async def list_shares(connection: "Connection", account: bytes) -> list[ShareRow]:
    return [ShareRow(**row) for row in await connection.fetch(_LIST, account, MAX_LISTED)]


_REVOKE = """
UPDATE share SET revoked_at = coalesce(revoked_at, $3) WHERE share = $1 AND account = $2 RETURNING object
"""


async def revoke(connection: "Connection", account: bytes, share: bytes, now: int) -> None:
    """End a share for ever. Done twice it is done once."""
    await lock_account(connection, account)
    object_id = await connection.fetchval(_REVOKE, share, account, now)
    if object_id is None:
        raise Refused(ErrorCode.NOT_FOUND)
    await drop_unshared(connection, account, [object_id], now)


_CLAIM = f"""
UPDATE share SET views_left = views_left - 1
WHERE share = $1 AND revoked_at IS NULL AND expires_at > $2 AND views_left > 0 RETURNING {_COLUMNS}
"""  # noqa: S608 - constants


async def claim(connection: "Connection", share: bytes, now: int) -> ShareRow | None:
    """Take one view; None when there is none left to take."""
    row = await connection.fetchrow(_CLAIM, share, now)
    return ShareRow(**row) if row is not None else None
