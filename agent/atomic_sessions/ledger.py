"""The signed, hash-chained list of an account's devices: building blocks and checks. No cipher.

Both sides use it: the service to know which keys may speak, the agent to trust nobody else's word
about that. An entry's bytes are msgpack of `LedgerBody` and never re-encoded.
"""

import hashlib
from typing import Literal

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

from atomic_sessions.errors import SealError
from atomic_sessions.unreadable import UNREADABLE

SIGN_CONTEXT = b"atomic1/ledger"
AUTH_CONTEXT = b"atomic1/auth"
KEM_KEY_SIZE = 1184 + 32
"""ML-KEM-768 and X25519 public keys, one after the other."""
MAX_ENTRIES = 10_000


class LedgerBody(Struct, frozen=True, array_like=True):
    """One signed statement. `role` recovery is the kit's key, which writes no records.

    `name` is sealed under the account's keys (the service must not learn machine names), `at` is
    the signer's clock in ms.
    """

    version: int
    account: bytes
    n: int
    prev: bytes
    action: Literal["add", "remove"]
    role: Literal["device", "recovery"]
    device: bytes
    sign_key: bytes
    kem_key: bytes
    name: bytes
    by: bytes
    at: int


class LedgerEntry(Struct, frozen=True, array_like=True):
    """A body's exact bytes and the signature of the device named in `by`."""

    body: bytes
    signature: bytes


class Member(Struct, frozen=True):
    """A device as the ledger knows it. `removed` is the ledger number of its removal."""

    device: bytes
    role: Literal["device", "recovery"]
    sign_key: bytes
    kem_key: bytes
    name: bytes
    added: int
    at: int
    removed: int | None = None


class Ledger(Struct, frozen=True):
    """A verified ledger: its members by device id, its root and its head."""

    account: bytes
    members: dict[bytes, Member]
    root: bytes
    head: bytes
    size: int

    def active(self, device: bytes) -> Member | None:
        """The member, unless it is unknown or removed."""
        member = self.members.get(device)
        return member if member is not None and member.removed is None else None


def entry_hash(entry: LedgerEntry) -> bytes:
    """The 32 bytes that the next entry names as `prev`."""
    return hashlib.sha256(entry.body + entry.signature).digest()


def signed_bytes(body: bytes) -> bytes:
    return SIGN_CONTEXT + hashlib.sha256(body).digest()


def auth_bytes(origin: str, account: bytes, device: bytes, challenge: bytes) -> bytes:
    """What a device signs to log in: bound to the service's address, the account and the challenge."""
    return (
        AUTH_CONTEXT
        + hashlib.sha256(
            b"\x00".join((origin.encode(), account.hex().encode(), device.hex().encode(), challenge))
        ).digest()
    )


def check_signature(sign_key: bytes, signature: bytes, message: bytes) -> bool:
    """True when the signature is that key's over the message."""
    try:
        Ed25519PublicKey.from_public_bytes(sign_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify(entries: list[LedgerEntry], account: bytes) -> Ledger:
    """Check a whole ledger; raises SealError naming the first entry that does not hold."""
    if not entries:
        raise SealError("The service returned an empty device ledger.")
    ledger: Ledger | None = None
    for entry in entries:
        ledger = append(ledger, entry, account)
    assert ledger is not None
    return ledger


def append(ledger: Ledger | None, entry: LedgerEntry, account: bytes) -> Ledger:
    """The ledger with one more entry, or SealError.

    The first entry is signed by the device it adds. Later ones are signed by a member that was
    active before it; a device cannot remove itself, and an id is never used twice.
    """
    try:
        body = msgspec.msgpack.decode(entry.body, type=LedgerBody)
    except UNREADABLE as error:
        raise SealError("The device ledger holds an entry that cannot be read.") from error
    n = 1 if ledger is None else ledger.size + 1
    where = f"Entry {n} of the device ledger"
    if body.version != 1 or n > MAX_ENTRIES:
        raise SealError(f"{where} has a version this program does not know.", "Update atomic-sessions.")
    if body.account != account or body.n != n or body.prev != (bytes(32) if ledger is None else ledger.head):
        raise SealError(f"{where} does not continue the ones before it.")
    if len(body.device) != 16 or len(body.sign_key) != 32 or len(body.name) > 512:
        raise SealError(f"{where} is malformed.")
    members = {} if ledger is None else dict(ledger.members)
    if body.action == "add":
        if body.device in members or len(body.kem_key) != (KEM_KEY_SIZE if body.role == "device" else 0):
            raise SealError(f"{where} adds a device that cannot be added.")
        signer_key = body.sign_key if ledger is None else _signer(ledger, body.by, where)
        if ledger is None and (body.by != body.device or body.role != "device"):
            raise SealError(f"{where} is not signed by the device it adds.")
        members[body.device] = Member(
            body.device, body.role, body.sign_key, body.kem_key, body.name, n, body.at
        )
    else:
        if ledger is None or ledger.active(body.device) is None or body.by == body.device:
            raise SealError(f"{where} removes a device that cannot be removed.")
        signer_key = _signer(ledger, body.by, where)
        gone = members[body.device]
        members[body.device] = msgspec.structs.replace(gone, removed=n)
    if not check_signature(signer_key, entry.signature, signed_bytes(entry.body)):
        raise SealError(f"{where} carries a signature that is not its signer's.")
    head = entry_hash(entry)
    return Ledger(account, members, head if ledger is None else ledger.root, head, n)


def _signer(ledger: Ledger, by: bytes, where: str) -> bytes:
    member = ledger.active(by)
    if member is None:
        raise SealError(f"{where} is signed by a device that is not in it.")
    return member.sign_key
