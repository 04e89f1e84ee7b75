"""Attack 22: the service forges the device list. Syncing stops with an alarm, and no key is wrapped."""

import subprocess

import pytest

from attacks.stage import Account, one_sentence, texts
from system.machines import Machine, kill

LIES = {
    "own device, own signature": {"how": "intrude", "by_first": False},
    "own device, borrowed name": {"how": "intrude", "by_first": True},
    "shortened by one": {"how": "shorten", "keep": 3},
    "only the first": {"how": "shorten", "keep": 1},
    "empty": {"how": "shorten", "keep": 0},
    "turned round": {"how": "reverse"},
    "a flipped bit": {"how": "flip", "at": 60},
    "a list of its own": {"how": "found"},
    "a list of its own, as long": {"how": "replace"},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_forged_device_list(account: Account, victim: Machine, lie: dict[str, object]) -> None:
    """Attack 22: exit 11 with what happened; nothing is fetched, sent or wrapped, and all local is there."""
    before = texts(victim)
    account.liar.tell("/v1/ledger", **lie)  # type: ignore[arg-type]  # JSON
    line = one_sentence(victim.atomic("sync", code=11))
    assert "device" in line
    asked = account.liar.seen()
    assert [one["path"] for one in asked if one["told"]] == ["/v1/ledger"]
    assert not [one for one in asked if one["path"].startswith(("/v1/push", "/v1/pull", "/v1/uploads"))]
    assert texts(victim) == before
    assert "device" in victim.atomic("doctor", code=1).out
    account.liar.tell()
    victim.atomic("sync")


def test_no_key_is_wrapped_under_a_forged_list(account: Account) -> None:
    """Attack 22: nor does pairing go on: the approving machine signs nothing and wraps nothing."""
    approving = account.victim()
    for how in ("own device, own signature", "only the first", "a list of its own"):
        waiting, words = _joining(account, approving)
        account.liar.tell("/v1/ledger", **LIES[how])  # type: ignore[arg-type]  # JSON
        one_sentence(approving.atomic("devices", "approve", "--yes", *words, code=11))
        assert not [one for one in account.liar.seen() if one["method"] == "POST" and "ledger" in one["path"]]
        kill(waiting)
        account.liar.tell()
        assert "joining" not in approving.atomic("devices").out


def _joining(account: Account, approving: Machine) -> "tuple[subprocess.Popen[str], list[str]]":
    """A new machine that shows its words."""
    string = approving.atomic("devices", "add").out
    waiting = account.machine("joining").start("login", account.liar.url, "--join", "-", stdin=string)
    assert waiting.stdout is not None
    return waiting, next(line for line in waiting.stdout if line.startswith("Words: ")).split()[1:]


def test_a_new_machine_is_not_shown_another_list(account: Account) -> None:
    """Attack 22: the machine that is let in knows the list's head from its approver, not from the service."""
    approving = account.victim()
    waiting, words = _joining(account, approving)
    account.liar.tell("/v1/ledger", "found", newcomers=True)
    assert "is in the account now" in approving.atomic("devices", "approve", "--yes", *words).out
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 11, err[-300:]
    assert "another list of devices" in err or "device ledger" in err
