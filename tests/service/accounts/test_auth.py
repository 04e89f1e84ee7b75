"""Logging in: a device proves its key over a challenge, and nobody learns who exists."""

import secrets

import pytest

from atomic_service.accounts.rules import challenge_holds, make_challenge, origin_accepted
from atomic_sessions import wire
from service.devices import Device, Refusal
from service.running import RunningService


def challenge_for(device: Device) -> bytes:
    request = wire.ChallengeRequest(device.account, device.id)
    return device.post("/v1/auth/challenge", request, wire.Challenge).challenge


def test_token_opens_the_api_until_it_expires(own_service: RunningService) -> None:
    """A day later the device has to log in again, and can."""
    device = own_service.device()
    assert device.ledger()
    own_service.clock.forward(seconds=wire.TOKEN_SECONDS + 1)
    with pytest.raises(Refusal, match="401 unauthorized"):
        device.ledger()
    device.token = ""
    assert device.log_in().ledger()


@pytest.mark.parametrize("token", ["", "0" * 64, "not a token"])
def test_unknown_tokens_open_nothing(service: RunningService, token: str) -> None:
    """No route of an account answers without a token that was given out."""
    device = service.device()
    device.token = token
    for path in (
        "/v1/ledger",
        "/v1/wraps",
        "/v1/pull",
        "/v1/sessions",
        "/v1/shares",
        "/v1/live",
        "/v1/snapshot",
    ):
        with pytest.raises(Refusal, match="401 unauthorized"):
            device.send("GET", path)


def test_unknown_device_gets_a_challenge_and_no_token(service: RunningService) -> None:
    """Strangers cannot tell an unknown account from a wrong key."""
    device, stranger = service.device(), service.stranger()
    impostor = service.stranger(device.account)
    impostor.id = device.id
    answers = []
    for caller in (stranger, impostor):
        challenge = challenge_for(caller)
        with pytest.raises(Refusal) as refusal:
            caller.post("/v1/auth/token", caller.answer(challenge), wire.Token)
        answers.append((len(challenge), refusal.value.problem))
    assert answers[0] == answers[1]
    assert answers[0][1].code == "unauthorized"


def test_challenge_is_good_for_a_minute_and_one_device(own_service: RunningService) -> None:
    """An old challenge, and one made for another device, are worth nothing."""
    device = own_service.device()
    mate = device.new_mate()
    with pytest.raises(Refusal, match="401"):
        device.post("/v1/auth/token", device.answer(challenge_for(mate)), wire.Token)
    challenge = challenge_for(device)
    own_service.clock.forward(seconds=wire.CHALLENGE_SECONDS + 1)
    with pytest.raises(Refusal, match="401"):
        device.post("/v1/auth/token", device.answer(challenge), wire.Token)


def test_signature_for_another_service_is_refused(service: RunningService) -> None:
    """A man in the middle who relays challenges under his own address gets nothing."""
    device = service.device()
    for origin in ("https://evil.example", service.url.replace("127.0.0.1", "localhost"), service.url + "/"):
        with pytest.raises(Refusal, match="401"):
            device.log_in(origin)


def test_recovery_key_reads_the_ledger_and_has_no_sessions(service: RunningService) -> None:
    """The kit's key logs in to mend the ledger; push and pull are for devices."""
    device, kit = service.device(), service.stranger()
    kit.account = device.account
    device.post("/v1/ledger", wire.LedgerAppend(device.adding(kit, role="recovery"), [device.wrap_for(kit)]))
    kit.log_in()
    assert len(kit.ledger()) == 2
    assert len(kit.get("/v1/wraps", wire.Wraps).wraps) == 1
    with pytest.raises(Refusal, match="403 forbidden"):
        kit.push(kit.writer().seal())


def test_old_tokens_make_room_for_new_ones(own_service: RunningService) -> None:
    """A device that logs in all the time holds a bounded number of tokens, the newest ones."""
    device = own_service.device()
    first = device.token
    tokens = []
    for _ in range(25):
        own_service.clock.forward(seconds=1)
        tokens.append(device.log_in().token)
    device.token = first
    with pytest.raises(Refusal, match="401"):
        device.ledger()
    device.token = tokens[-20]
    assert device.ledger()


def test_challenge_cannot_be_made_without_the_secret() -> None:
    """Every bit of a challenge counts."""
    account, device, secret = (secrets.token_bytes(16) for _ in range(3))
    challenge = make_challenge(secret, account, device, 1_000_000)
    assert challenge_holds(secret, account, device, challenge, 1_000_000)
    assert not challenge_holds(secret, account, device, challenge, 999_999)
    for index in range(len(challenge)):
        changed = bytearray(challenge)
        changed[index] ^= 1
        assert not challenge_holds(secret, account, device, bytes(changed), 1_000_000)
    assert not challenge_holds(secret, account, device, b"", 1_000_000)


@pytest.mark.parametrize(
    ("origin", "dev", "accepted"),
    [
        ("https://sync.example", False, True),
        ("HTTPS://Sync.Example", False, True),
        ("http://sync.example", False, False),
        ("https://sync.example:8443", False, False),
        ("http://localhost:8480", False, False),
        ("http://localhost:8480", True, True),
        ("http://[::1]:1", True, True),
        ("http://localhost.evil.example", True, False),
        ("http://127.0.0.1:80/path", True, False),
        ("http://[broken", True, False),
    ],
)
def test_accepted_origins(origin: str, dev: bool, accepted: bool) -> None:
    """The service's own address, and this machine's names in dev."""
    assert origin_accepted(origin, "https://sync.example", dev) is accepted
