"""The ledger over HTTP: signed, in order, and decisive for who may speak."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from atomic_sessions import wire
from atomic_sessions.ledger import LedgerEntry, verify
from service.devices import Device, Refusal
from service.running import RunningService


def test_added_device_speaks_and_finds_its_wrap(service: RunningService) -> None:
    """One request adds a device and the keys wrapped to it."""
    device = service.device()
    mate = device.new_mate()
    assert [w.device for w in mate.get("/v1/wraps", wire.Wraps).wraps] == [mate.id]
    ledger = verify(mate.ledger(), device.account)
    assert set(ledger.members) == {device.id, mate.id}
    mate.push(mate.writer().seal())


def test_removed_device_is_out_at_once(service: RunningService) -> None:
    """Its token, its log-in and its records are refused with its own error code."""
    device = service.device()
    mate = device.new_mate()
    device.post("/v1/ledger", wire.LedgerAppend(device.removing(mate), []))
    for attempt in (lambda: mate.push(mate.writer().seal()), mate.ledger, mate.pull):
        with pytest.raises(Refusal, match="403 device_removed"):
            attempt()
    with pytest.raises(Refusal, match="403 device_removed"):
        mate.log_in()
    assert device.ledger()


def test_entry_made_for_an_older_head_is_told_so(service: RunningService) -> None:
    """Of two machines that change the ledger at once, one has to read it again."""
    device = service.device()
    entries = [device.adding(service.stranger(device.account)) for _ in range(6)]

    def append(entry: LedgerEntry) -> str:
        with_own_connection = Device(service.url, device.account)
        with_own_connection.token = device.token
        try:
            with_own_connection.post("/v1/ledger", wire.LedgerAppend(entry, []))
        except Refusal as refusal:
            return refusal.problem.code
        finally:
            with_own_connection.close()
        return "added"

    with ThreadPoolExecutor(6) as pool:
        outcomes = sorted(pool.map(append, entries))
    assert outcomes == ["added"] + ["ledger_moved"] * 5


def test_lost_reply_of_an_append_is_repeated(service: RunningService) -> None:
    """The last entry sent once more is no error and no second entry."""
    device = service.device()
    append = wire.LedgerAppend(device.adding(service.stranger(device.account)), [])
    device.post("/v1/ledger", append)
    device.post("/v1/ledger", append)
    assert len(device.ledger()) == 2


def test_forged_entry_is_refused(service: RunningService) -> None:
    """A token does not make an entry true: the signature does."""
    device = service.device()
    entry = device.adding(service.stranger(device.account))
    with pytest.raises(Refusal, match="422 bad_hash"):
        device.post("/v1/ledger", wire.LedgerAppend(LedgerEntry(entry.body, bytes(64)), []))
    with pytest.raises(Refusal, match="400 bad_request"):
        device.post("/v1/ledger", wire.LedgerAppend(LedgerEntry(b"\xc1", bytes(64)), []))
    assert len(device.ledger()) == 1


def test_wraps_are_for_members_only(service: RunningService) -> None:
    """A wrap for a device that is not in the ledger refuses the whole request."""
    device, stranger = service.device(), service.stranger()
    mate = service.stranger(device.account)
    with pytest.raises(Refusal, match="400 bad_request"):
        device.post("/v1/ledger", wire.LedgerAppend(device.adding(mate), [device.wrap_for(stranger)]))
    assert len(device.ledger()) == 1
