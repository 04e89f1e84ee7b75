"""`/v1/accounts`, `/v1/auth`, `/v1/ledger`, `/v1/wraps`: how devices come in. Holds no SQL and no rule."""

from litestar import Router
from litestar.di import Provide

from atomic_service.accounts.callers import Asking, caller_of, require_caller
from atomic_service.accounts.rules import (
    challenge_holds,
    check_entry_size,
    check_wraps,
    make_challenge,
    origin_accepted,
    token_hash,
)
from atomic_service.accounts.store import (
    add_token,
    add_wraps,
    append_ledger,
    create_account,
    find_device,
    read_ledger,
    wraps_for,
)
from atomic_service.bodies import Packed, empty_post, packed_get, packed_post, sized
from atomic_service.problems import Refused
from atomic_service.replica import Here
from atomic_sessions import wire
from atomic_sessions.ledger import auth_bytes, check_signature

TOKEN_BYTES = 32


@empty_post("/v1/accounts")
async def new_account(data: Packed[wire.NewAccount], replica: Here) -> None:
    """Make an account with an invite. Sent again with the same ledger it succeeds again."""
    replica.open_requests.take()
    async with replica.db.transaction() as connection:
        await create_account(connection, data, replica.settings.quota, replica.clock())


@packed_post("/v1/auth/challenge")
async def challenge(data: Packed[wire.ChallengeRequest], replica: Here) -> wire.Challenge:
    """A challenge to sign. Unknown devices get one too, so that nobody learns who exists."""
    replica.open_requests.take()
    account, device = sized(data.account, 16, "account"), sized(data.device, 16, "device")
    return wire.Challenge(make_challenge(replica.settings.server_secret, account, device, replica.clock()))


@packed_post("/v1/auth/token")
async def token(data: Packed[wire.TokenRequest], replica: Here) -> wire.Token:
    """A token for a signed challenge. Every reason to refuse but removal has the same answer."""
    replica.open_requests.take()
    settings, now = replica.settings, replica.clock()
    refusal = Refused(wire.ErrorCode.UNAUTHORIZED, "The challenge is not signed by a device of this account.")
    if not origin_accepted(data.origin, settings.public_url, settings.dev):
        raise Refused(
            wire.ErrorCode.UNAUTHORIZED,
            f"This service is {settings.public_url}; log in at exactly that address.",
        )
    if not challenge_holds(settings.server_secret, data.account, data.device, data.challenge, now):
        raise refusal
    async with replica.db.transaction() as connection:
        found = await find_device(connection, data.account, data.device)
        message = auth_bytes(data.origin, data.account, data.device, data.challenge)
        if found is None or not check_signature(found.caller.sign_key, data.signature, message):
            raise refusal
        if found.removed:
            raise Refused(wire.ErrorCode.DEVICE_REMOVED)
        text = replica.randomness(TOKEN_BYTES).hex()
        expires_at = now + wire.TOKEN_SECONDS * 1000
        await add_token(connection, token_hash(text), data.account, data.device, expires_at, now)
    return wire.Token(text, expires_at)


@packed_get("/v1/ledger")
async def get_ledger(caller: Asking, replica: Here) -> wire.LedgerReply:
    """The account's device ledger, entries as they were signed."""
    async with replica.db.connection() as connection:
        return wire.LedgerReply(await read_ledger(connection, caller.account))


@empty_post("/v1/ledger")
async def post_ledger(data: Packed[wire.LedgerAppend], caller: Asking, replica: Here) -> None:
    """Add or remove a device. The entry's own signature is its right; the token only opens the door."""
    check_entry_size(data.entry)
    async with replica.db.transaction() as connection:
        ledger = await append_ledger(connection, caller.account, data.entry)
        check_wraps(data.wraps, ledger)
        await add_wraps(connection, data.wraps)


@packed_get("/v1/wraps")
async def get_wraps(caller: Asking, replica: Here) -> wire.Wraps:
    """The account's keys as wrapped to the asking device."""
    async with replica.db.connection() as connection:
        return wire.Wraps(await wraps_for(connection, caller.account, caller.device))


open_routes = Router("/", route_handlers=[new_account, challenge, token], tags=["accounts"])
member_routes = Router(
    "/",
    route_handlers=[get_ledger, post_ledger, get_wraps],
    guards=[require_caller],
    dependencies={"caller": Provide(caller_of)},
    tags=["accounts"],
)
