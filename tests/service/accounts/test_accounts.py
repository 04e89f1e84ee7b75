"""New accounts: one invite, one account, however often the reply is lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from atomic_service.accounts.rules import invite_code, invite_hash
from atomic_sessions import wire
from atomic_sessions.ledger import LedgerEntry
from service.devices import Device, Refusal
from service.running import RunningService


def request(device: Device, invite: str) -> wire.NewAccount:
    return wire.NewAccount(invite, device.account, [device.genesis()], [device.wrap_for(device)])


def test_invite_makes_one_account(service: RunningService) -> None:
    """A used invite is no invite; nor is an unknown or an expired one."""
    invite = service.invite()
    service.stranger().post("/v1/accounts", request(service.stranger(), invite))
    for code in (invite, "AAAAAA-BBBBBB-CCCCCC-DDDDDD", service.invite(seconds=-1)):
        with pytest.raises(Refusal, match="403 bad_invite"):
            service.stranger().post("/v1/accounts", request(service.stranger(), code))


def test_lost_reply_of_a_new_account_is_repeated(service: RunningService) -> None:
    """The same account with the same ledger succeeds again; with another ledger it does not."""
    device, invite = service.stranger(), service.invite()
    first = request(device, invite)
    device.post("/v1/accounts", first)
    device.post("/v1/accounts", first)
    assert device.log_in().ledger() == first.ledger
    twin = service.stranger(device.account)
    with pytest.raises(Refusal, match="409 account_exists"):
        twin.post("/v1/accounts", request(twin, invite))


def test_taken_account_id_spends_no_invite(service: RunningService) -> None:
    """A refusal leaves the invite as it was."""
    device, invite = service.device(), service.invite()
    twin = service.stranger(device.account)
    with pytest.raises(Refusal, match="409 account_exists"):
        twin.post("/v1/accounts", request(twin, invite))
    service.stranger().sign_up(invite)


def test_twenty_claims_of_one_invite_have_one_winner(service: RunningService) -> None:
    """The invite is claimed in the transaction that makes the account."""
    invite = service.invite()
    devices = [service.stranger() for _ in range(20)]

    def try_it(device: Device) -> str:
        try:
            device.post("/v1/accounts", request(device, invite))
        except Refusal as refusal:
            return refusal.problem.code
        return "made"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(try_it, devices)) == ["bad_invite"] * 19 + ["made"]


def test_ledger_of_a_new_account_must_verify(service: RunningService) -> None:
    """A forged signature, a foreign account and an empty ledger make no account."""
    device, other = service.stranger(), service.stranger()
    invite = service.invite()
    entry = device.genesis()
    forged = LedgerEntry(entry.body, bytes(64))
    for ledger, code in (([forged], "bad_hash"), ([other.genesis()], "bad_hash"), ([], "bad_request")):
        with pytest.raises(Refusal, match=code):
            device.post("/v1/accounts", wire.NewAccount(invite, device.account, ledger, []))
    device.sign_up(invite)


def test_codes_are_read_as_people_write_them() -> None:
    """Case, spaces and dashes of an invite do not count."""
    code = invite_code(bytes(range(15)))
    assert len(code) == 27
    assert invite_hash(f" {code.lower().replace('-', ' ')}\n") == invite_hash(code)
