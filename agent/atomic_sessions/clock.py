"""Times: what an entry's stamp is and which message is the newest. Never asks what time it is.

All times are whole milliseconds since 1970 UTC.
"""

import hashlib
from datetime import UTC, datetime

MAX_SKEW_MS = 5 * 60 * 1000
"""No clock may push a message further ahead than this (C4)."""

Order = tuple[int, bytes]
"""How two messages compare: (bounded time, tag). Greater is newer."""


def parse_time(value: object) -> int | None:
    """Milliseconds of an ISO 8601 text or of a number of milliseconds; None when it is neither."""
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return int(value) if 0 <= value < 1 << 53 else None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        millis = round(moment.timestamp() * 1000)
    except (OverflowError, ValueError):
        return None
    return millis if millis >= 0 else None


def iso(millis: int) -> str:
    """ISO 8601 UTC with milliseconds and Z, as format 4 headers write it."""
    seconds, rest = divmod(max(0, min(millis, 253_402_300_799_999)), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest:03d}Z"


def stamp(native: int | None, parent_stamp: int, now: int) -> int:
    """The stamp of an entry: after its parent, and never more than five minutes ahead of `now`.

    `native` is the time the agent recorded, `parent_stamp` 0 for a root, `now` the clock of the
    machine that takes the entry in. The parent wins over the bound, so a chain keeps its order.
    """
    bounded = min(native if native is not None else parent_stamp, now + MAX_SKEW_MS)
    return max(bounded, parent_stamp + 1)


def tag(entry_id: str) -> bytes:
    """Eight bytes that break ties between equal times, the same on every machine."""
    return hashlib.sha256(entry_id.encode("utf-8", "surrogatepass")).digest()[:8]


def order(newest_at: int, newest_tag: bytes, received_at: int | None) -> Order:
    """The place of a message among all messages (design.md section 6, row C4).

    `received_at` is when the service first saw it, None before that. Used by the service to choose
    the copy it names as newest, and by the agent to choose the branch that opens.
    """
    if received_at is not None:
        newest_at = min(newest_at, received_at + MAX_SKEW_MS)
    return newest_at, newest_tag
