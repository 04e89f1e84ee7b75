"""Attack 19: the service replays, doubles, turns round or leaves out records: nothing twice, gaps reported."""

import pytest

from attacks.stage import ALPHA, Account, one_sentence, refused, texts, whole
from attacks.test_18_swapped import WHOLE
from system.machines import Machine


@pytest.mark.parametrize("how", ["twice", "again"])
def test_replayed_records(account: Account, victim: Machine, how: str) -> None:
    """Attack 19: records that come twice or three times over are ignored, and no entry is shown twice."""
    account.liar.tell("/v1/pull", how)
    victim.atomic("sync")
    assert whole(texts(victim)) == WHOLE
    assert victim.status()["refused_records"] == []


def test_a_record_left_out(account: Account, victim: Machine) -> None:
    """Attack 19: after a gap nothing of that session is taken and the gap is named; all else is there."""
    account.liar.tell("/v1/pull", "drop_middle")
    assert "1 records did not verify" in victim.atomic("sync").err
    assert whole(texts(victim)) == {**WHOLE, ALPHA: WHOLE[ALPHA][:2]}
    (refused,) = victim.status()["refused_records"]
    assert refused == {"reason": "A record is missing before this one.", "records": 1}
    assert "A record is missing" in victim.atomic("status").out
    assert "A record is missing" in victim.atomic("doctor").out


def test_records_in_another_order(account: Account, victim: Machine) -> None:
    """Attack 19: a log turned round keeps the sessions of one record, and of others their first."""
    account.liar.tell("/v1/pull", "backwards")
    victim.atomic("sync")
    assert whole(texts(victim)) == {**WHOLE, ALPHA: WHOLE[ALPHA][:2]}
    ((reason, count),) = refused(victim)
    # Sessions that other tests left in the log are turned round as well.
    assert count >= 2
    assert "missing before" in reason


def test_a_refused_session_heals(account: Account, victim: Machine) -> None:
    """Attack 19: once the truth is told and a machine joins, what was held back is fetched again."""
    account.liar.tell("/v1/pull", "drop_middle")
    victim.atomic("sync")
    account.liar.tell()
    kit = victim.home / "kit"
    # Its own kit is a new line in the device list, which gives refused records another chance.
    victim.atomic("recovery", "save", str(kit))
    victim.atomic("sync")
    assert whole(texts(victim)) == WHOLE
    assert victim.status()["refused_records"] == []


CODES = ("session_dead", "writer_forked", "cursor_gone", "gone", "not_found", "no_such_code")


@pytest.mark.parametrize(
    ("path", "code"),
    [(path, code) for path in ("/v1/push", "/v1/pull") for code in CODES],
)
def test_a_forged_refusal_deletes_nothing(account: Account, victim: Machine, path: str, code: str) -> None:
    """Attack 19: a service that calls sessions dead, writers forked or cursors gone makes nothing vanish."""
    victim.atomic("sync")
    session = "0bbb0000-0000-4000-8000-000000000001"
    victim.claude_file(session, _lines(victim, session))
    victim.atomic("capture")
    problem = {"title": "Over.", "status": 410, "code": code, "session": "ab" * 16}
    account.liar.tell(path, "problem", problem=problem)
    done = victim.atomic("sync", code=None)
    assert done.code in {8, 9}
    assert done.code == 8 or "The service says: Over." in one_sentence(done)
    held = texts(victim)
    assert (whole(held), held[session]) == (WHOLE, ["not sent yet"])
    status = victim.status()
    assert status["unsynced_entries"] + status["unsynced_records"] > 0


def _lines(machine: Machine, session: str) -> list[dict[str, object]]:
    from system.machines import claude_lines

    return claude_lines(session, str(machine.folder), ["not sent yet"])
