"""What a share may be and when it is over. Pure."""

import base64
from typing import Literal

from msgspec import Struct

from atomic_service.bodies import at_most, sized
from atomic_service.problems import Refused
from atomic_sessions.clock import MAX_SKEW_MS
from atomic_sessions.wire import (
    MAX_NOTE_BYTES,
    MAX_OBJECT_BYTES,
    MAX_SHARE_SECONDS,
    ErrorCode,
    Share,
    ShareRequest,
)

MAX_VIEWS = 10_000
NAME_LENGTH = 22
"""16 bytes in base64url without padding: a share's name in links."""


class ShareRow(Struct, frozen=True):
    """A row of `share`."""

    share: bytes
    account: bytes
    kind: Literal["sealed", "public"]
    object: bytes
    size: int
    revision: int
    note: bytes
    created_at: int
    expires_at: int
    views_left: int | None
    revoked_at: int | None


def state_of(row: ShareRow, now: int) -> Literal["live", "expired", "revoked"]:
    """A share whose views are used up is expired."""
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at <= now or row.views_left == 0 else "live"


def as_seen_by_owner(row: ShareRow, now: int) -> Share:
    return Share(
        row.share, row.kind, row.revision, row.size, row.note, row.created_at, row.expires_at, row.views_left,
        state_of(row, now),
    )  # fmt: skip


def check_request(request: ShareRequest, now: int) -> None:
    """Refuse what no share can be. Every share ends."""
    sized(request.share, 16, "share id")
    sized(request.object, 32, "object id")
    at_most(request.note, MAX_NOTE_BYTES, "note")
    if not 1 <= request.size <= MAX_OBJECT_BYTES:
        raise Refused(ErrorCode.BAD_REQUEST, "The size is impossible.")
    if not now < request.expires_at <= now + MAX_SHARE_SECONDS * 1000 + MAX_SKEW_MS:
        raise Refused(ErrorCode.BAD_REQUEST, "A share ends in the future, after at most a year.")
    if request.views is not None and (request.kind != "sealed" or not 1 <= request.views <= MAX_VIEWS):
        raise Refused(ErrorCode.BAD_REQUEST, f"Views are for sealed shares, 1 to {MAX_VIEWS}.")


def is_same(row: ShareRow, request: ShareRequest) -> bool:
    """True when the request asks for what is there: a retry whose reply was lost."""
    return (row.object, row.note, row.expires_at) == (request.object, request.note, request.expires_at)


def check_revision(row: ShareRow, request: ShareRequest, account: bytes) -> None:
    """Only its owner revises a share, and a revoked link stays revoked."""
    if row.account != account:
        raise Refused(ErrorCode.FORBIDDEN, "The share belongs to another account.")
    if row.revoked_at is not None:
        raise Refused(ErrorCode.GONE, "A revoked share stays revoked: make a new link.")
    if row.kind != request.kind:
        raise Refused(ErrorCode.BAD_REQUEST, "A share keeps its kind.")


def name_to_id(name: str) -> bytes | None:
    """The share id of the name in a link, None when it cannot be one."""
    if len(name) != NAME_LENGTH or not name.isascii():
        return None
    try:
        share = base64.urlsafe_b64decode(name + "==")
    except ValueError:
        return None
    return share if id_to_name(share) == name else None


def id_to_name(share: bytes) -> str:
    return base64.urlsafe_b64encode(share).decode().rstrip("=")
