"""How the service says no: one exception, one shape of answer (RFC 9457). Never tells why a lookup failed.

Rules and stores raise `Refused`; the application's edge turns it, and whatever else went wrong, into
a problem document. No answer holds anything of a request's body.
"""

import asyncpg
import msgspec
from botocore.exceptions import BotoCoreError, ClientError
from litestar.exceptions import HTTPException

from atomic_service.blobs.port import NoObject
from atomic_sessions.wire import STATUS, ErrorCode, Problem

TITLES: dict[ErrorCode, str] = {
    ErrorCode.BAD_REQUEST: "The request is malformed.",
    ErrorCode.BAD_HASH: "Something sealed does not verify.",
    ErrorCode.UNAUTHORIZED: "A valid token is needed.",
    ErrorCode.BAD_INVITE: "The invite is unknown, used or expired.",
    ErrorCode.DEVICE_REMOVED: "This device was removed from its account.",
    ErrorCode.FORBIDDEN: "This is not allowed.",
    ErrorCode.NOT_FOUND: "There is nothing here.",
    ErrorCode.ACCOUNT_EXISTS: "The account exists already.",
    ErrorCode.WRITER_FORKED: "The writer's records do not continue the ones before them.",
    ErrorCode.LEDGER_MOVED: "The device ledger has moved on.",
    ErrorCode.SLOT_TAKEN: "This slot of the mailbox is written already.",
    ErrorCode.SESSION_DEAD: "The session was deleted.",
    ErrorCode.CURSOR_GONE: "The cursor is of another life of this log.",
    ErrorCode.GONE: "This is no longer available.",
    ErrorCode.TOO_LARGE: "The request is too large.",
    ErrorCode.UPGRADE: "The agent is too old for this service.",
    ErrorCode.SLOW_DOWN: "Too many requests.",
    ErrorCode.UNAVAILABLE: "The service cannot answer at the moment.",
    ErrorCode.OVER_QUOTA: "The account's space is used up.",
}

UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a statement met a connection that had just been lost
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,  # deadlocks among them
    asyncpg.InvalidCachedStatementError,  # a migration ran under this replica
    BotoCoreError,
    ClientError,
    OSError,
    TimeoutError,
)
"""What Postgres or the object store being away looks like. A retry is safe: every write is idempotent."""

_BY_STATUS: dict[int, ErrorCode] = {
    400: ErrorCode.BAD_REQUEST,
    401: ErrorCode.UNAUTHORIZED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    413: ErrorCode.TOO_LARGE,
    429: ErrorCode.SLOW_DOWN,
    503: ErrorCode.UNAVAILABLE,
}


class Refused(Exception):
    """The service's answer is no. `session` is the wire id that `session_dead` is about."""

    def __init__(
        self,
        code: ErrorCode,
        detail: str = "",
        *,
        retry_after: float | None = None,
        session: bytes | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else str(code))
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.session = session


def problem_of(error: Exception) -> Problem:
    """The document for anything that was raised while a request was answered."""
    if isinstance(error, Refused):
        session = error.session.hex() if error.session is not None else None
        return _problem(error.code, error.detail, error.retry_after, session)
    if isinstance(error, NoObject):
        return _problem(ErrorCode.NOT_FOUND, "", None, None)
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code)
        if code is not None:
            return _problem(code, "", 1.0 if code is ErrorCode.SLOW_DOWN else None, None)
        if error.status_code < 500:
            return Problem("The request is not understood.", error.status_code, ErrorCode.BAD_REQUEST)
    if isinstance(error, UNREACHABLE):
        return _problem(ErrorCode.UNAVAILABLE, "", 1.0, None)
    return Problem("The service met an error of its own.", 500, "internal")


def encode(problem: Problem) -> bytes:
    """JSON bytes of a problem document."""
    return msgspec.json.encode(problem)


def _problem(code: ErrorCode, detail: str, retry_after: float | None, session: str | None) -> Problem:
    return Problem(TITLES[code], STATUS[code], code, detail, retry_after=retry_after, session=session)
