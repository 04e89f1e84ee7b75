"""Attack 18: the service swaps records. Whatever was moved is refused by name; all else is there."""

import pytest

from attacks.stage import ALPHA, BETA, GAMMA, MINE, Account, refused, texts, whole
from system.machines import Machine

WHOLE = {
    ALPHA: [f"alpha {n}" for n in range(6)],
    BETA: ["beta 0", "beta 1"],
    GAMMA: ["gamma 0", "gamma 1"],
    MINE: ["only here"],
}


def test_the_truth_is_believed(account: Account, victim: Machine) -> None:
    """Attack 18: without a lie every session of every machine is there, and nothing is refused."""
    account.liar.tell()
    victim.atomic("sync")
    assert whole(texts(victim)) == WHOLE
    assert victim.status()["refused_records"] == []


@pytest.mark.parametrize(
    ("lie", "broken", "reason"),
    [
        ({"how": "swap_records"}, {ALPHA}, "missing before"),
        ({"how": "swap_sessions"}, {ALPHA, BETA}, "signature"),
        ({"how": "swap_bodies"}, {ALPHA, BETA}, "signature"),
        ({"how": "swap_devices"}, {ALPHA, GAMMA}, "signature"),
        ({"how": "foreign", "relabel": False}, {ALPHA}, "not in the account"),
        ({"how": "foreign", "relabel": True}, {ALPHA}, "not in the account"),
    ],
    ids=["session", "sessions", "bodies", "devices", "accounts", "relabelled"],
)
def test_swapped_records(
    account: Account, victim: Machine, lie: dict[str, object], broken: set[str], reason: str
) -> None:
    """Attack 18: swapped within and between sessions, devices and accounts: quarantined, others sync."""
    account.liar.tell("/v1/pull", **lie)  # type: ignore[arg-type]  # JSON
    done = victim.atomic("sync")
    assert "were refused" in done.err
    found = texts(victim)
    for session, said in WHOLE.items():
        if session not in broken:
            assert found[session] == said
        else:
            # What is shown of a broken session is its true beginning, nothing else.
            assert found.get(session, []) == said[: len(found.get(session, []))] != said
    assert any(reason in why for why, _ in refused(victim)), refused(victim)
    assert reason in victim.atomic("status").out
    assert "records were refused" in victim.atomic("doctor").out
    assert "strange" not in str(found)
