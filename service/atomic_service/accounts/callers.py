"""Who is asking: the guards of routes. A token is looked up by its SHA-256 and by nothing else."""

from typing import Any, TypeAlias, cast

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler

from atomic_service.accounts.rules import Caller, token_hash
from atomic_service.accounts.store import find_token
from atomic_service.problems import Refused
from atomic_service.replica import Replica
from atomic_sessions.wire import ErrorCode

SCHEME = "bearer "
KEY = "atomic_caller"

Connection = ASGIConnection[Any, Any, Any, Any]


Asking: TypeAlias = NamedDependency[Caller]
"""How a handler behind a guard asks who is calling."""


async def find_caller(connection: Connection) -> Caller:
    """The device whose token the request carries."""
    header = connection.headers.get("authorization", "")
    if not header.lower().startswith(SCHEME):
        raise Refused(ErrorCode.UNAUTHORIZED, "The request carries no bearer token.")
    replica: Replica = connection.app.state.replica
    async with replica.db.connection() as db:
        found = await find_token(db, token_hash(header[len(SCHEME) :].strip()))
    if found is None or found.caller.expires_at <= replica.clock():
        raise Refused(ErrorCode.UNAUTHORIZED, "The token is unknown or has expired.")
    if found.removed:
        raise Refused(ErrorCode.DEVICE_REMOVED)
    return found.caller


async def require_caller(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: lets through active members of an account, the recovery kit's key among them."""
    connection.scope[KEY] = await find_caller(connection)  # type: ignore[literal-required] # scopes may carry extras


async def require_device(connection: Connection, handler: BaseRouteHandler) -> None:
    """Guard: lets through devices only. The kit's key reads and mends the ledger, it has no sessions."""
    await require_caller(connection, handler)
    if caller_in(connection).role != "device":
        raise Refused(ErrorCode.FORBIDDEN, "The recovery kit's key cannot do this.")


def caller_in(connection: Connection) -> Caller:
    return cast("Caller", connection.scope[KEY])  # type: ignore[literal-required] # set by the guard


async def caller_of(request: Request[Any, Any, Any]) -> Caller:
    """The dependency `caller` of routes behind a guard."""
    return caller_in(request)
