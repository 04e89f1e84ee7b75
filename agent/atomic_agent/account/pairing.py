"""A further machine joins: one-time string, commitments, four compared words, approval.

    existing machine                mailbox at the service                    new machine
    offer    {commit A}       ->
                                    <-                                commit {commit B}
    reveal   {A: ledger root, nonce} ->      (only after commit B was seen)
                                    <-                                keys   {B: keys, name, nonce}
    words = hash(A, B)                                                 words = hash(A, B)
    a person compares and types them on the existing machine
    ledger entry and wrapped keys to the service; welcome {account, ledger head} ->

All messages are sealed under the string's 128-bit secret. Neither side can choose its part after
seeing the other's, so not even someone who holds the string can make the words agree.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.account.device import (
    new_device,
    public_kem_key,
    public_sign_key,
    statement,
    unwrap,
    wrap_for_device,
)
from atomic_agent.account.login import check_free, enter
from atomic_agent.account.words import compared
from atomic_agent.keys.keystore import Device, Membership, PairingOffer
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.client import Client
from atomic_agent.sync.identity import connect, membership, sign_in, trusted_ledger
from atomic_sessions import ledger, wire
from atomic_sessions.errors import (
    NotFoundError,
    SealError,
    ServiceRefusedError,
    ServiceUnreachableError,
    UsageError,
)
from atomic_sessions.seal import derive, open_small, seal_small
from atomic_sessions.unreadable import UNREADABLE

T = TypeVar("T")
POLL_SECONDS = 0.3
_STRING = re.compile(r"atomic1-([a-z2-7]{26})")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


class Reveal(Struct, frozen=True, array_like=True):
    """What the existing machine stands for."""

    account: bytes
    root: bytes
    nonce: bytes


class Joining(Struct, frozen=True, array_like=True):
    """What the new machine stands for."""

    device: bytes
    sign_key: bytes
    kem_key: bytes
    name: str
    nonce: bytes


class Welcome(Struct, frozen=True, array_like=True):
    """The account the new machine was let into. `head` comes from the approving machine, not from the
    service."""

    account: bytes
    head: bytes
    size: int


def string_of(secret: bytes) -> str:
    """The one-time string a person carries over: 128 bits in 26 characters."""
    number = int.from_bytes(secret, "big") << 2
    return "atomic1-" + "".join(_ALPHABET[(number >> (5 * at)) & 31] for at in reversed(range(26)))


def secret_of(text: str) -> bytes:
    """The secret in a one-time string; UsageError when it is none."""
    match = _STRING.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(
            "That is not a pairing string.", "Copy the whole line that `atomic devices add` printed."
        )
    number = 0
    for letter in match.group(1):
        number = number << 5 | _ALPHABET.index(letter)
    return (number >> 2).to_bytes(16, "big")


def mailbox_of(secret: bytes) -> bytes:
    return derive(secret, b"atomic1/mailbox", 16)


def _pack(secret: bytes, slot: str, plain: bytes) -> bytes:
    return seal_small(secret, b"atomic1/pair/" + slot.encode(), plain, secrets.token_bytes(12))


def _open(secret: bytes, slot: str, sealed: bytes) -> bytes:
    try:
        return open_small(secret, b"atomic1/pair/" + slot.encode(), sealed)
    except SealError:
        raise SealError(
            "A pairing message does not open with this string: it was altered, or the string is another one.",
            "Start again: atomic devices add",
        ) from None


def _read(plain: bytes, kind: type[T]) -> T:
    """What an opened message says; SealError for one in no form of ours, which who holds the string can send."""
    try:
        return msgspec.msgpack.decode(plain, type=kind)
    except UNREADABLE:
        raise SealError(
            "A pairing message has an unknown form.", "Start again with the same version on both machines."
        ) from None


def _commitment(side: bytes, plain: bytes) -> bytes:
    return hashlib.sha256(b"atomic1/commit/" + side + plain).digest()


def words(reveal: bytes, joining: bytes) -> str:
    """The four words both screens show."""
    return compared(hashlib.sha256(reveal).digest() + hashlib.sha256(joining).digest())


# --- the existing machine ----------------------------------------------------------------


def offer(journal: Journal, now: int) -> tuple[str, bytes]:
    """Open a mailbox, in place of a pairing that was offered before.

    Returns the string to carry over, and the sealed reveal that a helper process may post once the other
    side has committed.
    """
    mine = membership(journal)
    secret = secrets.token_bytes(16)
    reveal = msgspec.msgpack.encode(Reveal(mine.account, mine.ledger_root, secrets.token_bytes(32)))
    commitment = _pack(secret, "offer", _commitment(b"a", reveal))
    with connect(journal, lambda: now) as client:
        if (former := journal.secrets.offer) is not None:
            _end(client, mailbox_of(former.secret))
            _seen_path(journal, former.secret).unlink(missing_ok=True)
        client.mailbox_post(mailbox_of(secret), wire.MailboxPost("offer", commitment), auth=True)
    pending = PairingOffer(mine.url, secret, reveal, now + wire.MAILBOX_SECONDS * 1000)
    journal.change(offer=pending)
    return string_of(secret), _pack(secret, "reveal", reveal)


def _end(client: Client, mailbox: bytes) -> None:
    try:
        client.end_mailbox(mailbox)
    except ServiceRefusedError as error:
        if error.code not in {wire.ErrorCode.NOT_FOUND, wire.ErrorCode.GONE}:
            raise


def approve(journal: Journal, typed: str, now: int) -> str:
    """Let the waiting machine in if the typed words are the transcript's; returns its name.

    Raises NotFoundError (nobody waits), UsageError (other words: the pairing is over), SealError.
    """
    mine = membership(journal)
    pending = journal.secrets.offer
    if pending is None or pending.expires_at < now:
        raise NotFoundError("No pairing is waiting here.", "Start one: atomic devices add")
    with connect(journal, lambda: now) as client:
        slots = _slots(client, pending.secret)
        try:
            joining = _joining(journal, slots, pending)
            body = _read(joining, Joining)
        except SealError:
            # Whoever altered a message gets no second try under this string.
            _give_up(journal, client, pending)
            raise
        expected = words(pending.reveal, joining)
        if not hmac.compare_digest(" ".join(typed.lower().split()).encode(), expected.encode()):
            _give_up(journal, client, pending)
            raise UsageError(
                "Those are not the words of the machine that waits; the pairing was called off.",
                "If the other screen really shows them, someone stood in between. Start again: atomic devices add",
            )
        _let_in(journal, client, mine, pending, body)
    return body.name


def _joining(journal: Journal, slots: dict[str, bytes], pending: PairingOffer) -> bytes:
    """The other side's part, after checking that it is what it committed to before it saw ours."""
    if "keys" not in slots:
        raise NotFoundError("The other machine has not answered yet.", "Run there: atomic login URL --join -")
    seen = read_seen(journal, pending.secret)
    if seen is None or seen != slots.get("commit"):
        raise SealError("The pairing's messages came in a wrong order.", "Start again: atomic devices add")
    joining = _open(pending.secret, "keys", slots["keys"])
    if _open(pending.secret, "commit", slots["commit"]) != _commitment(b"b", joining):
        raise SealError(
            "The other machine's keys are not those it announced.", "Start again: atomic devices add"
        )
    return joining


def _let_in(journal: Journal, client: Client, mine: Membership, pending: PairingOffer, body: Joining) -> None:
    trusted = trusted_ledger(journal, client)
    keys = mine.account_keys()
    entry = statement(
        keys,
        trusted,
        role="device",
        device=body.device,
        sign_key=body.sign_key,
        kem_key=body.kem_key,
        name=body.name,
        by=mine.device.id,
        signer=mine.device.sign_key,
    )
    after = ledger.append(trusted, entry, mine.account)
    wrap = wrap_for_device(keys, body.device, body.kem_key, mine.device.id, mine.device.sign_key)
    client.append_ledger(entry, [wrap])
    welcome = msgspec.msgpack.encode(Welcome(mine.account, after.head, after.size))
    client.mailbox_post(
        mailbox_of(pending.secret),
        wire.MailboxPost("welcome", _pack(pending.secret, "welcome", welcome)),
        auth=True,
    )
    trusted_ledger(journal, client)
    _forget(journal, pending)


def _give_up(journal: Journal, client: Client, pending: PairingOffer) -> None:
    refusal = wire.MailboxPost("refused", _pack(pending.secret, "refused", b"no"))
    client.mailbox_post(mailbox_of(pending.secret), refusal, auth=True)
    _forget(journal, pending)


def _forget(journal: Journal, pending: PairingOffer) -> None:
    _seen_path(journal, pending.secret).unlink(missing_ok=True)
    journal.change(offer=None)


def _seen_path(journal: Journal, secret: bytes) -> Path:
    return journal.home.pairing / mailbox_of(secret).hex()


def read_seen(journal: Journal, secret: bytes) -> bytes | None:
    """The commitment that stood in the mailbox before our reveal was posted."""
    path = _seen_path(journal, secret)
    return private_files.read(path) if path.exists() else None


# --- the new machine ---------------------------------------------------------------------


def join(
    journal: Journal, url: str, text: str, name: str, show: Callable[[str], None], now: Callable[[], int]
) -> Membership:
    """Wait to be let in; `show` gets the four words when they are known.

    Raises UsageError, NotFoundError (no such mailbox, or time is up), SealError, ServiceRefusedError.
    """
    check_free(journal)
    secret = secret_of(text)
    device = new_device(name)
    joining = msgspec.msgpack.encode(
        Joining(device.id, public_sign_key(device), public_kem_key(device), name, secrets.token_bytes(32))
    )
    with Client(url) as client:
        box = mailbox_of(secret)
        slots = _slots(client, secret)
        offered = _open(secret, "offer", slots.get("offer", b""))
        _post(client, box, "commit", _pack(secret, "commit", _commitment(b"b", joining)))
        reveal = _open(secret, "reveal", _wait_for(client, secret, "reveal"))
        if _commitment(b"a", reveal) != offered:
            raise SealError(
                "The other machine is not the one that made the string.", "Start again: atomic devices add"
            )
        _post(client, box, "keys", _pack(secret, "keys", joining))
        show(words(reveal, joining))
        welcome = _read(_open(secret, "welcome", _wait_for(client, secret, "welcome")), Welcome)
        return _settle(journal, client, box, device, _read(reveal, Reveal), welcome)


def _settle(
    journal: Journal, client: Client, box: bytes, device: Device, reveal: Reveal, welcome: Welcome
) -> Membership:
    token = sign_in(client, welcome.account, device.id, device.sign_key)
    with Client(client.url, token=token.token) as known:
        entries = known.ledger()
        trusted = ledger.verify(entries, welcome.account)
        there = len(entries) >= welcome.size and ledger.entry_hash(entries[welcome.size - 1]) == welcome.head
        if welcome.account != reveal.account or trusted.root != reveal.root or not there:
            raise SealError(
                "The service shows another list of devices than the machine that let us in.",
                "Do not use this service until you know why.",
            )
        wraps = [wrap for wrap in known.wraps() if wrap.device == device.id]
        if not wraps:
            raise SealError(
                "The account's keys for this machine are missing.", "Start again: atomic devices add"
            )
        keys = unwrap(wraps[-1], trusted, device)
        mine = enter(journal, client.url, keys, device, trusted, token)
        # The string is used up, and an account may have four mailboxes open.
        _end(known, box)
        return mine


def _post(client: Client, box: bytes, slot: Literal["commit", "keys"], body: bytes) -> None:
    try:
        client.mailbox_post(box, wire.MailboxPost(slot, body))
    except ServiceRefusedError as error:
        if error.code == wire.ErrorCode.SLOT_TAKEN:
            raise UsageError(
                "The string was used already, by this or another machine.", "Start again: atomic devices add"
            ) from None
        raise


def _slots(client: Client, secret: bytes) -> dict[str, bytes]:
    try:
        return client.mailbox(mailbox_of(secret)).slots
    except ServiceRefusedError as error:
        if error.code in {wire.ErrorCode.NOT_FOUND, wire.ErrorCode.GONE}:
            raise NotFoundError(
                "No pairing waits under this string: it is over, used, or from another service.",
                "Start again: atomic devices add",
            ) from None
        raise


def _wait_for(client: Client, secret: bytes, slot: str) -> bytes:
    deadline = time.monotonic() + wire.MAILBOX_SECONDS
    while True:
        try:
            slots = _slots(client, secret)
        except ServiceUnreachableError:
            # The network may come back before the mailbox is over, which the service tells.
            time.sleep(POLL_SECONDS * 4)
            if time.monotonic() > deadline:
                raise
            continue
        if slot in slots:
            return slots[slot]
        if "refused" in slots:
            raise NotFoundError(
                "The other machine called the pairing off.", "Start again: atomic devices add"
            )
        time.sleep(POLL_SECONDS)
