"""Signing in, and the account's device list as this machine trusts it."""

from collections.abc import Callable
from typing import Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atomic_agent.cache import machines
from atomic_agent.keys.keystore import Membership, Token
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.client import Client, origin
from atomic_sessions import ledger, wire
from atomic_sessions.errors import NotLoggedInError, SealError
from atomic_sessions.ledger import Ledger, LedgerEntry
from atomic_sessions.seal import open_small

ASK_OPERATOR = "Do not pair or share until you know why; ask the service's operator."
NAME_LABEL = b"atomic1/device-name"


def membership(journal: Journal) -> Membership:
    """The account of this machine; NotLoggedInError when there is none."""
    found = journal.secrets.membership
    if found is None:
        raise NotLoggedInError("This machine is in no account.", "Run: atomic login URL --invite -")
    return found


def sign_in(client: Client, account: bytes, device: bytes, sign_key: bytes) -> wire.Token:
    """A token for a device that holds its Ed25519 key."""
    challenge = client.challenge(account, device).challenge
    where = origin(client.url)
    signed = ledger.auth_bytes(where, account, device, challenge)
    signature = Ed25519PrivateKey.from_private_bytes(sign_key).sign(signed)
    return client.token(wire.TokenRequest(account, device, where, challenge, signature))


def connect(journal: Journal, now: Callable[[], int], *, timeout: float = 30.0) -> Client:
    """A client of this machine's account that logs in when it must."""
    mine = membership(journal)
    kept = journal.secrets.token

    def renew(client: Client) -> wire.Token:
        token = sign_in(client, mine.account, mine.device.id, mine.device.sign_key)
        journal.change(token=Token(token.token, token.expires_at))
        return token

    fresh = kept is not None and kept.expires_at > now() + 60_000
    return Client(mine.url, token=kept.text if kept and fresh else "", sign_in=renew, timeout=timeout)


class Devices(Protocol):
    """A service that shows the account's device list."""

    def ledger(self) -> list[LedgerEntry]: ...


def trusted_ledger(journal: Journal, client: Devices) -> Ledger:
    """The account's devices, verified against what this machine knew: the service may add to the list
    and may neither rewrite nor shorten it. Raises SealError."""
    mine = membership(journal)
    entries = client.ledger()
    try:
        found = ledger.verify(entries, mine.account)
    except SealError as error:
        raise SealError(error.message, error.mend or ASK_OPERATOR) from None
    check_continuation(entries, mine)
    if found.active(mine.device.id) is None:
        raise NotLoggedInError(
            "This machine was removed from the account.", "Pair it again: atomic login URL --join -"
        )
    check_key(found, mine)
    if found.size != mine.ledger_size:
        moved = msgspec.structs.replace(mine, ledger_head=found.head, ledger_size=found.size)
        journal.change(membership=moved)
    machines.remember(journal.cache, names(found, mine), mine.device.id)
    return found


def check_key(found: Ledger, mine: Membership) -> None:
    """SealError unless the account's key is the one this machine's own name was sealed with (I18): with
    another, what it sends could be read by nobody, and nothing would open here."""
    own = found.active(mine.device.id)
    try:
        open_small(mine.key, NAME_LABEL, own.name if own is not None else b"")
    except SealError:
        raise SealError(
            "The account key on this machine is not the account's; nothing was sent or fetched.",
            "Pair it again: atomic logout, then atomic login URL --join -",
        ) from None


def check_continuation(entries: list[ledger.LedgerEntry], mine: Membership) -> None:
    """SealError unless the list continues the one this machine verified last."""
    if len(entries) < mine.ledger_size:
        raise SealError(
            "The service shows an older list of devices than before; syncing has stopped.",
            "Ask the service's operator whether it was restored from a backup.",
        )
    root, head = ledger.entry_hash(entries[0]), ledger.entry_hash(entries[mine.ledger_size - 1])
    if root != mine.ledger_root or head != mine.ledger_head:
        raise SealError(
            "The service shows another list of devices than before; syncing has stopped.",
            "Do not pair or share until you know why; ask the service's operator.",
        )


def names(found: Ledger, mine: Membership) -> dict[bytes, str]:
    """Device names, opened with the account's key."""
    return {member.device: device_name(member.name, mine.key) for member in found.members.values()}


def device_name(sealed: bytes, key: bytes) -> str:
    try:
        return open_small(key, NAME_LABEL, sealed).decode("utf-8", "replace")
    except SealError:
        return "(unnamed)"
