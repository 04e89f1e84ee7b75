"""Who may speak for an account: invites, challenges, origins and wraps. Pure; the clock and secrets are arguments."""

import base64
import hashlib
import hmac
from urllib.parse import urlsplit

from msgspec import Struct

from atomic_service.bodies import at_most, sized
from atomic_service.problems import Refused
from atomic_sessions.errors import SealError
from atomic_sessions.ledger import Ledger, LedgerEntry, append, verify
from atomic_sessions.wire import CHALLENGE_SECONDS, ErrorCode, NewAccount, Wrap

CHALLENGE_CONTEXT = b"atomic1/challenge\x00"
FIRST_ENTRIES = 2
"""A new account's ledger holds its first device and, if there is one, the recovery kit."""
MAX_ENTRY_BYTES = 4096
MAX_SEALED_BYTES = 4096
MAX_WRAPS = 64
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
INVITE_BYTES = 15
INVITE_GROUP = 6


class Caller(Struct, frozen=True):
    """The device that holds the token of a request."""

    account: bytes
    device: bytes
    role: str
    sign_key: bytes
    expires_at: int


def invite_code(randomness: bytes) -> str:
    """A code a person can read out: four groups of six base32 letters."""
    text = base64.b32encode(randomness).decode()
    return "-".join(text[start : start + INVITE_GROUP] for start in range(0, len(text), INVITE_GROUP))


def invite_hash(code: str) -> bytes:
    """What is stored of an invite. Case, spaces and dashes do not count."""
    plain = "".join(code.split()).replace("-", "").upper()
    return hashlib.sha256(plain.encode("utf-8", "replace")).digest()


def token_hash(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def make_challenge(secret: bytes, account: bytes, device: bytes, now: int) -> bytes:
    """The clock and an HMAC over it, the account and the device: nothing has to be stored."""
    at = now.to_bytes(8, "big")
    return at + hmac.digest(secret, CHALLENGE_CONTEXT + account + device + at, hashlib.sha256)


def challenge_holds(secret: bytes, account: bytes, device: bytes, challenge: bytes, now: int) -> bool:
    """True for a challenge of ours, for this device, not older than CHALLENGE_SECONDS."""
    at = int.from_bytes(challenge[:8], "big")
    expected = make_challenge(secret, account, device, at) if len(challenge) == 40 else b""
    return hmac.compare_digest(expected, challenge) and 0 <= now - at <= CHALLENGE_SECONDS * 1000


def origin_accepted(origin: str, public_url: str, dev: bool) -> bool:
    """True for the service's own address and, in dev, for this machine under any of its names."""
    if origin.lower() == public_url.lower():
        return True
    if not dev:
        return False
    try:
        parts = urlsplit(origin)
        return parts.scheme == "http" and parts.hostname in LOOPBACK and not parts.path and not parts.query
    except ValueError:
        return False


def first_ledger(request: NewAccount) -> Ledger:
    """The verified ledger of a new account with its wraps checked."""
    sized(request.account, 16, "account")
    if not 1 <= len(request.ledger) <= FIRST_ENTRIES:
        raise Refused(ErrorCode.BAD_REQUEST, "A new account's ledger has one or two entries.")
    for entry in request.ledger:
        check_entry_size(entry)
    try:
        ledger = verify(request.ledger, request.account)
    except SealError as error:
        raise Refused(ErrorCode.BAD_HASH, error.message) from error
    check_wraps(request.wraps, ledger)
    return ledger


def next_ledger(ledger: Ledger, entry: LedgerEntry, n: int, prev: bytes) -> Ledger:
    """The ledger with one more entry; ledger_moved when the entry was made for another head."""
    if n != ledger.size + 1 or prev != ledger.head:
        raise Refused(ErrorCode.LEDGER_MOVED, "Read the ledger again and sign a new entry.")
    try:
        return append(ledger, entry, ledger.account)
    except SealError as error:
        raise Refused(ErrorCode.BAD_HASH, error.message) from error


def check_entry_size(entry: LedgerEntry) -> None:
    at_most(entry.body, MAX_ENTRY_BYTES, "ledger entry")
    sized(entry.signature, 64, "signature of a ledger entry")


def check_wraps(wraps: list[Wrap], ledger: Ledger) -> None:
    """Wraps are for devices of this account, made by one of them. What is inside is none of our business."""
    if len(wraps) > MAX_WRAPS:
        raise Refused(ErrorCode.BAD_REQUEST, f"More than {MAX_WRAPS} wraps.")
    for wrap in wraps:
        if (
            wrap.account != ledger.account
            or ledger.active(wrap.device) is None
            or ledger.active(wrap.by) is None
        ):
            raise Refused(ErrorCode.BAD_REQUEST, "A wrap is not for an active device of this account.")
        if not 1 <= wrap.generation < 1 << 32:
            raise Refused(ErrorCode.BAD_REQUEST, "A wrap has an impossible generation.")
        at_most(wrap.sealed, MAX_SEALED_BYTES, "wrap")
        sized(wrap.signature, 64, "signature of a wrap")
