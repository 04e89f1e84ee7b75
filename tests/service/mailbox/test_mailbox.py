"""Pairing's mailbox: opened by a device, written once a slot, gone after ten minutes."""

import secrets
from typing import Any

import pytest

from atomic_sessions import wire
from service.devices import Device, Refusal
from service.running import RunningService


def post(device: Device, mailbox: bytes, slot: str, body: bytes) -> None:
    fields: dict[str, Any] = {"slot": slot}  # a Literal in the struct
    device.post(f"/v1/mailbox/{mailbox.hex()}", wire.MailboxPost(body=body, **fields))


def read(device: Device, mailbox: bytes) -> dict[str, bytes]:
    return device.get(f"/v1/mailbox/{mailbox.hex()}", wire.Mailbox).slots


@pytest.fixture
def mailbox() -> bytes:
    return secrets.token_bytes(16)


def test_device_opens_and_a_stranger_answers(service: RunningService, mailbox: bytes) -> None:
    """Only the offer needs a token; whoever knows the id reads and writes the rest."""
    device, stranger = service.device(), service.stranger()
    with pytest.raises(Refusal, match="401"):
        post(stranger, mailbox, "offer", b"o")
    with pytest.raises(Refusal, match="404"):
        post(stranger, mailbox, "commit", b"c")
    post(device, mailbox, "offer", b"o")
    post(stranger, mailbox, "commit", b"c")
    assert read(stranger, mailbox) == read(device, mailbox) == {"offer": b"o", "commit": b"c"}


def test_slot_is_written_once(service: RunningService, mailbox: bytes) -> None:
    """The same bytes again are a retry; other bytes find the slot taken."""
    device = service.device()
    for slot in ("offer", "commit"):
        post(device, mailbox, slot, b"first")
        post(device, mailbox, slot, b"first")
        with pytest.raises(Refusal, match="409 slot_taken"):
            post(device, mailbox, slot, b"second")
    assert set(read(device, mailbox).values()) == {b"first"}


def test_mailbox_ends_by_time_or_by_its_owner(own_service: RunningService, mailbox: bytes) -> None:
    """After ten minutes, or when its account burns it, nothing is there any more."""
    device, other = own_service.device(), own_service.device()
    post(device, mailbox, "offer", b"o")
    path = f"/v1/mailbox/{mailbox.hex()}"
    other.send("DELETE", path)
    assert read(device, mailbox)
    device.send("DELETE", path)
    with pytest.raises(Refusal, match="404"):
        read(device, mailbox)
    post(device, mailbox, "offer", b"o")
    own_service.clock.forward(seconds=wire.MAILBOX_SECONDS + 1)
    for attempt in (lambda: read(device, mailbox), lambda: post(other, mailbox, "commit", b"c")):
        with pytest.raises(Refusal, match="404"):
            attempt()


def test_limits_of_a_mailbox(service: RunningService, mailbox: bytes) -> None:
    """Slots are small, ids are 128 bits, and an account has few open at once."""
    device = service.device()
    with pytest.raises(Refusal, match="413"):
        post(device, mailbox, "offer", bytes(wire.MAX_MAILBOX_BYTES + 1))
    with pytest.raises(Refusal, match="400"):
        post(device, b"short", "offer", b"o")
    with pytest.raises(Refusal, match="400"):
        post(device, mailbox, "attic", b"o")
    for _ in range(4):
        post(device, secrets.token_bytes(16), "offer", b"o")
    with pytest.raises(Refusal, match="429"):
        post(device, mailbox, "offer", b"o")
