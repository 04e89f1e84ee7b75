"""SQL of accounts, invites, the ledger, wraps and tokens. Decides nothing that rules.py can decide.

The account's row is the lock of everything that belongs to it: whoever changes the ledger or the log
holds it until commit.
"""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from atomic_service.accounts.rules import Caller, first_ledger, invite_hash, next_ledger
from atomic_service.problems import Refused
from atomic_sessions.ledger import Ledger, LedgerBody, LedgerEntry, Member, verify
from atomic_sessions.wire import ErrorCode, NewAccount, Wrap

if TYPE_CHECKING:
    from atomic_service.db import Connection

MAX_TOKENS = 20
"""Tokens a device may hold at once; the oldest goes first."""


class TokenState(Struct, frozen=True):
    """What a presented token stands for."""

    caller: Caller
    removed: bool


_LOCK = "SELECT 1 FROM account WHERE account = $1 FOR UPDATE"


async def lock_account(connection: "Connection", account: bytes) -> bool:
    """Hold the account's row until commit; False when there is no such account."""
    return await connection.fetchval(_LOCK, account) is not None


_ADD_INVITE = "INSERT INTO invite (sha256, expires_at) VALUES ($1, $2)"


async def add_invite(connection: "Connection", code: str, expires_at: int) -> None:
    await connection.execute(_ADD_INVITE, invite_hash(code), expires_at)


_ANY_ACCOUNT = "SELECT EXISTS (SELECT FROM account)"


async def any_account(connection: "Connection") -> bool:
    return bool(await connection.fetchval(_ANY_ACCOUNT))


_CLAIM_INVITE = """
UPDATE invite SET used_by = $2 WHERE sha256 = $1 AND expires_at > $3 AND used_by IS NULL RETURNING 1
"""
_INVITE_USED_BY = "SELECT used_by FROM invite WHERE sha256 = $1"
_ADD_ACCOUNT = """
INSERT INTO account (account, quota, allowance, allowed_at, created_at) VALUES ($1, $2, 0, 0, $3)
ON CONFLICT ON CONSTRAINT account_pkey DO NOTHING RETURNING 1
"""


async def create_account(connection: "Connection", request: NewAccount, quota: int, now: int) -> None:
    """Claim the invite and make the account, in the caller's transaction.

    A repetition by the same account with the same ledger is no error: its first reply was lost.
    """
    ledger = first_ledger(request)
    invite = invite_hash(request.invite)
    if await connection.fetchval(_CLAIM_INVITE, invite, request.account, now) is None:
        if await connection.fetchval(_INVITE_USED_BY, invite) != request.account:
            raise Refused(ErrorCode.BAD_INVITE, "Ask for a new invite.")
        if not await _begins_with(connection, request.account, request.ledger):
            raise Refused(ErrorCode.ACCOUNT_EXISTS)
        return
    if await connection.fetchval(_ADD_ACCOUNT, request.account, quota, now) is None:
        raise Refused(ErrorCode.ACCOUNT_EXISTS)
    for n, entry in enumerate(request.ledger, start=1):
        await _add_entry(connection, request.account, n, entry)
    for member in ledger.members.values():
        await _add_device(connection, request.account, member)
    await add_wraps(connection, request.wraps)


_ENTRIES = "SELECT body, signature FROM ledger WHERE account = $1 ORDER BY n"


async def read_ledger(connection: "Connection", account: bytes) -> list[LedgerEntry]:
    return [LedgerEntry(row["body"], row["signature"]) for row in await connection.fetch(_ENTRIES, account)]


async def _begins_with(connection: "Connection", account: bytes, entries: list[LedgerEntry]) -> bool:
    return (await read_ledger(connection, account))[: len(entries)] == entries


async def append_ledger(connection: "Connection", account: bytes, entry: LedgerEntry) -> Ledger:
    """Add one entry under the account's lock. The last entry sent once more changes nothing."""
    await lock_account(connection, account)
    entries = await read_ledger(connection, account)
    ledger = verify(entries, account)
    if entries[-1] == entry:
        return ledger
    try:
        body = msgspec.msgpack.decode(entry.body, type=LedgerBody)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(ErrorCode.BAD_REQUEST, "A ledger entry cannot be read.") from error
    longer = next_ledger(ledger, entry, body.n, body.prev)
    await _add_entry(connection, account, longer.size, entry)
    if body.action == "add":
        await _add_device(connection, account, longer.members[body.device])
    else:
        await _remove_device(connection, account, body.device, longer.size)
    return longer


_ADD_ENTRY = "INSERT INTO ledger (account, n, body, signature) VALUES ($1, $2, $3, $4)"


async def _add_entry(connection: "Connection", account: bytes, n: int, entry: LedgerEntry) -> None:
    await connection.execute(_ADD_ENTRY, account, n, entry.body, entry.signature)


_ADD_DEVICE = "INSERT INTO device (account, device, role, sign_key, added) VALUES ($1, $2, $3, $4, $5)"


async def _add_device(connection: "Connection", account: bytes, member: Member) -> None:
    await connection.execute(_ADD_DEVICE, account, member.device, member.role, member.sign_key, member.added)


_REMOVE_DEVICE = "UPDATE device SET removed = $3 WHERE account = $1 AND device = $2"


async def _remove_device(connection: "Connection", account: bytes, device: bytes, n: int) -> None:
    await connection.execute(_REMOVE_DEVICE, account, device, n)


# A wrap is written once for each generation: a second maker's does not replace the first.
_ADD_WRAP = """
INSERT INTO wrap (account, device, generation, made_by, sealed, signature) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT ON CONSTRAINT wrap_pkey DO NOTHING
"""


async def add_wraps(connection: "Connection", wraps: list[Wrap]) -> None:
    """Store wraps that `rules.check_wraps` let pass."""
    rows = [(w.account, w.device, w.generation, w.by, w.sealed, w.signature) for w in wraps]
    await connection.executemany(_ADD_WRAP, rows)


_WRAPS = """
SELECT account, generation, device, made_by, sealed, signature FROM wrap
WHERE account = $1 AND device = $2 ORDER BY generation
"""


async def wraps_for(connection: "Connection", account: bytes, device: bytes) -> list[Wrap]:
    rows = await connection.fetch(_WRAPS, account, device)
    return [
        Wrap(r["account"], r["generation"], r["device"], r["made_by"], r["sealed"], r["signature"])
        for r in rows
    ]


_DEVICE = "SELECT role, sign_key, removed FROM device WHERE account = $1 AND device = $2"


async def find_device(connection: "Connection", account: bytes, device: bytes) -> TokenState | None:
    """The device as a caller that holds no token yet."""
    row = await connection.fetchrow(_DEVICE, account, device)
    if row is None:
        return None
    return TokenState(Caller(account, device, row["role"], row["sign_key"], 0), row["removed"] is not None)


_TRIM_TOKENS = """
DELETE FROM token WHERE sha256 IN (
    SELECT sha256 FROM token WHERE account = $1 AND device = $2 ORDER BY expires_at DESC OFFSET $3
) OR (account = $1 AND device = $2 AND expires_at <= $4)
"""
_INSERT_TOKEN = "INSERT INTO token (sha256, account, device, expires_at) VALUES ($1, $2, $3, $4)"  # noqa: S105 - SQL


async def add_token(
    connection: "Connection", sha256: bytes, account: bytes, device: bytes, expires_at: int, now: int
) -> None:
    """Store a token's hash and let go of the device's expired and oldest ones."""
    await connection.execute(_TRIM_TOKENS, account, device, MAX_TOKENS - 1, now)
    await connection.execute(_INSERT_TOKEN, sha256, account, device, expires_at)


_HOLDER = """
SELECT t.account, t.device, t.expires_at, d.role, d.sign_key, d.removed
FROM token t JOIN device d USING (account, device) WHERE t.sha256 = $1
"""


async def find_token(connection: "Connection", sha256: bytes) -> TokenState | None:
    row = await connection.fetchrow(_HOLDER, sha256)
    if row is None:
        return None
    caller = Caller(row["account"], row["device"], row["role"], row["sign_key"], row["expires_at"])
    return TokenState(caller, row["removed"] is not None)
