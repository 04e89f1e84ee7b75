"""Everything the agent and the service say to each other: requests, replies, limits, error codes.

Bodies are msgpack of these structs (`application/msgpack`), errors are RFC 9457 problem JSON with a
`code` of `ErrorCode`. All times are ms since 1970 UTC, all ids raw bytes. docs/protocol.md is the
text to this file.
"""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from atomic_sessions.ledger import LedgerEntry

CONTENT_TYPE = "application/msgpack"
PROBLEM_TYPE = "application/problem+json"
API_HEADER = "Atomic-Api"
API_VERSION = "1"
"""The service sends `Atomic-Api: 1` with every reply under /v1; a reply without it is not ours."""

MAX_PUSH_BYTES = 4 * 1024 * 1024
MAX_PUSH_EVENTS = 256
MAX_EVENT_BYTES = 320 * 1024
MAX_PULL_BYTES = 4 * 1024 * 1024
MAX_BODY_BYTES = MAX_PUSH_BYTES + 64 * 1024
MAX_OBJECT_BYTES = 512 * 1024 * 1024
MAX_MAILBOX_BYTES = 16 * 1024
MAX_HAVE_IDS = 1000
MAX_NOTE_BYTES = 4 * 1024
CHALLENGE_SECONDS = 60
TOKEN_SECONDS = 24 * 3600
MAILBOX_SECONDS = 600
OBJECT_URL_SECONDS = 3600
DEFAULT_SHARE_SECONDS = 7 * 24 * 3600
MAX_SHARE_SECONDS = 365 * 24 * 3600

Millis = Annotated[int, Meta(ge=0, lt=1 << 53)]
"""A time any program can store."""
Cursor = Annotated[bytes, Meta(max_length=64)]
TokenText = Annotated[str, Meta(pattern="^[0-9a-f]{1,256}$")]
"""Fit for a header."""


class ErrorCode(StrEnum):
    """Codes of the service's answers; `STATUS` has the HTTP status of each."""

    BAD_REQUEST = "bad_request"
    BAD_HASH = "bad_hash"
    UNAUTHORIZED = "unauthorized"
    BAD_INVITE = "bad_invite"
    DEVICE_REMOVED = "device_removed"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    ACCOUNT_EXISTS = "account_exists"
    WRITER_FORKED = "writer_forked"
    LEDGER_MOVED = "ledger_moved"
    SLOT_TAKEN = "slot_taken"
    SESSION_DEAD = "session_dead"
    CURSOR_GONE = "cursor_gone"
    GONE = "gone"
    TOO_LARGE = "too_large"
    UPGRADE = "upgrade"
    SLOW_DOWN = "slow_down"
    UNAVAILABLE = "unavailable"
    OVER_QUOTA = "over_quota"


STATUS: dict[ErrorCode, int] = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.BAD_HASH: 422,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.BAD_INVITE: 403,
    ErrorCode.DEVICE_REMOVED: 403,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.ACCOUNT_EXISTS: 409,
    ErrorCode.WRITER_FORKED: 409,
    ErrorCode.LEDGER_MOVED: 409,
    ErrorCode.SLOT_TAKEN: 409,
    ErrorCode.SESSION_DEAD: 410,
    ErrorCode.CURSOR_GONE: 410,
    ErrorCode.GONE: 410,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.UPGRADE: 426,
    ErrorCode.SLOW_DOWN: 429,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.OVER_QUOTA: 507,
}


class Problem(Struct, frozen=True, omit_defaults=True):
    """An error body. `session` (hex) is set with `session_dead`, so the agent knows which one."""

    title: str
    status: int
    code: str
    detail: str = ""
    type: str = "about:blank"
    retry_after: float | None = None
    session: str | None = None


# --- accounts and devices ----------------------------------------------------------------


class Wrap(Struct, frozen=True):
    """An account's keys of one generation, wrapped to one device and signed by its maker.

    `sealed` is HPKE output (MLKEM768-X25519) for a device, AES-256-GCM for the recovery kit;
    `signature` is the maker's over `wrap_bytes`.
    """

    account: bytes
    generation: int
    device: bytes
    by: bytes
    sealed: bytes
    signature: bytes


def wrap_bytes(wrap: Wrap) -> bytes:
    """What a wrap's maker signs; the receiving machine checks it, the service does not."""
    return wrap_info(wrap.account, wrap.generation, wrap.device) + wrap.by + wrap.sealed


def wrap_info(account: bytes, generation: int, device: bytes) -> bytes:
    """What binds wrapped keys to their account, generation and receiver."""
    return b"atomic1/wrap" + account + generation.to_bytes(4, "big") + device


class NewAccount(Struct, frozen=True):
    """`POST /v1/accounts`, no token: the ledger starts with the first device (and the kit's key)."""

    invite: str
    account: bytes
    ledger: list[LedgerEntry]
    wraps: list[Wrap]


class ChallengeRequest(Struct, frozen=True):
    """`POST /v1/auth/challenge`."""

    account: bytes
    device: bytes


class Challenge(Struct, frozen=True):
    """The service's own HMAC over account, device and its clock; good for CHALLENGE_SECONDS."""

    challenge: bytes


class TokenRequest(Struct, frozen=True):
    """`POST /v1/auth/token`. `origin` is scheme://host[:port] as the agent addressed it, and is part
    of what is signed (`ledger.auth_bytes`); the service accepts only origins it answers to."""

    account: bytes
    device: bytes
    origin: str
    challenge: bytes
    signature: bytes


class Token(Struct, frozen=True):
    """Bearer token for `Authorization: Bearer HEX`; the service keeps its SHA-256 only."""

    token: TokenText
    expires_at: Millis


class LedgerReply(Struct, frozen=True):
    """`GET /v1/ledger`."""

    entries: list[LedgerEntry]


class LedgerAppend(Struct, frozen=True):
    """`POST /v1/ledger`: one more entry and the wraps that go with it, in one transaction."""

    entry: LedgerEntry
    wraps: list[Wrap]


class Wraps(Struct, frozen=True):
    """`GET /v1/wraps`: those made for the asking device, newest generation last."""

    wraps: list[Wrap]


class MailboxPost(Struct, frozen=True):
    """`POST /v1/mailbox/{hex id}`: a slot is written once. The slot `offer` needs a token and opens
    the mailbox; the others need only its 128-bit id."""

    slot: Literal["offer", "commit", "reveal", "keys", "welcome", "refused"]
    body: bytes


class Mailbox(Struct, frozen=True):
    """`GET /v1/mailbox/{hex id}`; 404 once it is over (MAILBOX_SECONDS after the offer, or deleted)."""

    slots: dict[str, bytes]
    expires_at: Millis


# --- sync --------------------------------------------------------------------------------


class Push(Struct, frozen=True):
    """`POST /v1/push`: sealed envelopes of the calling device, in the order they were sealed.

    All or nothing. At most MAX_PUSH_EVENTS and MAX_PUSH_BYTES.
    """

    events: list[bytes]


class Pushed(Struct, frozen=True):
    """The place of one event in the log. `new` is False for one that was there already."""

    id: bytes
    seq: int
    new: bool
    received_at: Millis


class PushReply(Struct, frozen=True):
    head: int
    results: list[Pushed]


class Event(Struct, frozen=True):
    """A row of the log as it is pulled."""

    seq: int
    received_at: Millis
    raw: bytes


class Pull(Struct, frozen=True):
    """`GET /v1/pull?cursor=HEX`: events after the cursor, at least one when there is one, at most
    MAX_PULL_BYTES; `cursor` goes into the next call, and is stored with the rows it covers."""

    events: list[Event]
    cursor: Cursor
    more: bool
    head: int


class Snapshot(Struct, frozen=True):
    """`GET /v1/snapshot`: where a new or reset agent starts, and the sessions that are dead."""

    cursor: Cursor
    dead: list[bytes]
    head: int


class SessionRow(Struct, frozen=True):
    """One session of `GET /v1/sessions`: the newest message over all copies, by `clock.order`."""

    session: bytes
    newest_at: int
    newest_tag: bytes
    received_at: Millis
    records: int
    bytes: int
    last_seq: int
    dead: bool


class Sessions(Struct, frozen=True):
    sessions: list[SessionRow]


class Records(Struct, frozen=True):
    """`GET /v1/sessions/{hex id}/records?after=SEQ`: events of one session, at most MAX_PULL_BYTES."""

    events: list[Event]
    more: bool


class Have(Struct, frozen=True):
    """`POST /v1/have`: repair only."""

    ids: list[bytes]


class Missing(Struct, frozen=True):
    missing: list[bytes]


class UploadRequest(Struct, frozen=True):
    """`POST /v1/uploads`: place for an object that is named by its SHA-256.

    `session` is the wire id for purpose `blob`, and empty for `share`.
    """

    id: bytes
    size: int
    purpose: Literal["blob", "share"]
    session: bytes = b""


class Transfer(Struct, frozen=True):
    """How to move one object: `GET /v1/uploads/{hex id}` and the reply of `POST /v1/uploads`.

    `exists` means there is nothing to send. `headers` go along unchanged.
    """

    url: str
    method: Literal["GET", "PUT"]
    headers: dict[str, str]
    exists: bool = False


class Poke(Struct, frozen=True):
    """The data of each `poke` event of `GET /v1/live` (text/event-stream, JSON)."""

    head: int


# --- shares ------------------------------------------------------------------------------


class ShareRequest(Struct, frozen=True):
    """`POST /v1/shares`: publish an uploaded object under a link, or a new revision of one.

    `share` is 16 bytes: derived from the link's secret for `sealed`, random for `public`. `note` is
    sealed under the account's keys and comes back in lists, so that every machine of the person can
    name its shares. `views` limits how often a sealed one can be claimed.
    """

    share: bytes
    kind: Literal["sealed", "public"]
    object: bytes
    size: int
    note: bytes
    expires_at: Millis
    views: int | None = None


class Share(Struct, frozen=True):
    """One share as its owner sees it. `state` is live, expired or revoked."""

    share: bytes
    kind: Literal["sealed", "public"]
    revision: int
    size: int
    note: bytes
    created_at: Millis
    expires_at: Millis
    views_left: int | None
    state: Literal["live", "expired", "revoked"]


class Shares(Struct, frozen=True):
    shares: list[Share]
