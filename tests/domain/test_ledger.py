"""The device list: who may add whom, and what breaks it."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atomic_sessions.errors import SealError
from atomic_sessions.ledger import (
    KEM_KEY_SIZE,
    Ledger,
    LedgerBody,
    LedgerEntry,
    append,
    signed_bytes,
    verify,
)
from domain.vectors import fixed

ACCOUNT = fixed("account", 16)


class Person:
    """A device with its signing key."""

    def __init__(self, name: str) -> None:
        self.id = fixed(f"id {name}", 16)
        self.key = Ed25519PrivateKey.from_private_bytes(fixed(f"sign {name}", 32))

    def signs(
        self, head: Ledger | None, other: "Person", action: str = "add", **changes: object
    ) -> LedgerEntry:
        body = LedgerBody(
            1,
            ACCOUNT,
            1 if head is None else head.size + 1,
            bytes(32) if head is None else head.head,
            action,  # type: ignore[arg-type]  # add or remove
            "device",
            other.id,
            other.key.public_key().public_bytes_raw(),
            bytes(KEM_KEY_SIZE),
            b"sealed name",
            self.id,
            1,
        )
        raw = msgspec.msgpack.encode(msgspec.structs.replace(body, **changes))
        return LedgerEntry(raw, self.key.sign(signed_bytes(raw)))


ANN, BOB, EVE = Person("ann"), Person("bob"), Person("eve")


def _two() -> tuple[list[LedgerEntry], Ledger]:
    first = ANN.signs(None, ANN)
    second = ANN.signs(append(None, first, ACCOUNT), BOB)
    return [first, second], verify([first, second], ACCOUNT)


def test_members_add_and_remove_each_other() -> None:
    """An active device adds and removes; the removed one is no longer active and signs nothing."""
    entries, ledger = _two()
    after = append(ledger, BOB.signs(ledger, ANN, "remove"), ACCOUNT)
    assert after.active(ANN.id) is None
    assert after.active(BOB.id) is not None
    with pytest.raises(SealError):
        append(after, ANN.signs(after, EVE), ACCOUNT)
    assert verify(entries, ACCOUNT).head == ledger.head


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"account": fixed("other", 16)},
        {"n": 7},
        {"prev": bytes(32)},
        {"sign_key": b"short"},
        {"kem_key": b""},
        {"device": BOB.id},
        {"name": bytes(600)},
        {"by": EVE.id},
    ],
)
def test_a_wrong_entry_is_refused(changes: dict[str, object]) -> None:
    """Each rule, broken once."""
    _, ledger = _two()
    with pytest.raises(SealError):
        append(ledger, ANN.signs(ledger, EVE, "add", **changes), ACCOUNT)


def test_a_stranger_cannot_add_itself() -> None:
    """The service cannot put its own device in."""
    _, ledger = _two()
    with pytest.raises(SealError):
        append(ledger, EVE.signs(ledger, EVE), ACCOUNT)
    with pytest.raises(SealError):
        append(ledger, EVE.signs(ledger, EVE, by=ANN.id), ACCOUNT)


def test_reordered_shortened_and_altered_lists_are_refused() -> None:
    """The chain holds the order; a flipped bit breaks a signature."""
    entries, _ = _two()
    with pytest.raises(SealError):
        verify(entries[::-1], ACCOUNT)
    with pytest.raises(SealError):
        verify(entries[1:], ACCOUNT)
    with pytest.raises(SealError):
        verify([], ACCOUNT)
    for at in range(0, len(entries[1].body), 97):
        body = bytearray(entries[1].body)
        body[at] ^= 1
        with pytest.raises(SealError):
            verify([entries[0], LedgerEntry(bytes(body), entries[1].signature)], ACCOUNT)


def test_a_device_cannot_remove_itself_or_come_back() -> None:
    """The last word on a device is another device's; an id is used once."""
    _, ledger = _two()
    with pytest.raises(SealError):
        append(ledger, BOB.signs(ledger, BOB, "remove"), ACCOUNT)
    gone = append(ledger, ANN.signs(ledger, BOB, "remove"), ACCOUNT)
    with pytest.raises(SealError):
        append(gone, ANN.signs(gone, BOB), ACCOUNT)
