"""Attack 25 and section 4.4: what is no service of ours, or talks nonsense. One sentence each, nothing lost."""

from itertools import cycle

import msgspec
import pytest

from atomic_agent.cache import outbox
from atomic_sessions import wire
from attacks.stage import Account, one_sentence, opened, texts, whole
from attacks.test_18_swapped import WHOLE
from system.machines import Machine, claude_lines

FOREIGN: dict[str, dict[str, object]] = {
    "a page": {"how": "html"},
    "a page, not found": {"how": "html", "status": 404},
    "a page, in need of a log-in": {"how": "html", "status": 511},
    "an empty 200": {"how": "empty"},
    "an empty 404": {"how": "empty", "status": 404},
    "an empty 200 of ours": {"how": "empty", "ours": True},
    "an empty 204 of ours": {"how": "empty", "status": 204, "ours": True},
    "elsewhere": {"how": "redirect", "status": 302, "to": "https://elsewhere.invalid/v1/pull"},
    "elsewhere, for ever": {"how": "redirect", "status": 308, "to": "https://elsewhere.invalid/"},
    "to plain http": {"how": "redirect", "status": 307, "to": "http://elsewhere.invalid/v1/pull"},
    "to a file": {"how": "redirect", "status": 301, "to": "file:///etc/passwd"},
    "back to itself": {"how": "redirect", "status": 301, "to": "/v1/ledger"},
}


def _waits(victim: Machine) -> dict[str, list[str]]:
    """The victim gets a session of its own to send; what it holds then."""
    session = f"0ccc0000-0000-4000-8000-{int(victim.name.removeprefix('victim')):012x}"
    victim.claude_file(session, claude_lines(session, str(victim.folder), ["to be sent"]))
    victim.atomic("capture")
    return texts(victim)


@pytest.mark.parametrize(
    ("name", "path"), list(zip(FOREIGN, cycle(["/v1/ledger", "/v1/pull", "/v1/push"]), strict=False))
)
def test_what_is_not_our_service(account: Account, victim: Machine, name: str, path: str) -> None:
    """Attack 25: exit 8, nothing taken, nothing deleted, nothing counted as sent, no other host is asked."""
    before = _waits(victim)
    account.liar.tell(path, **FOREIGN[name])  # type: ignore[arg-type]  # JSON
    line = one_sentence(victim.atomic("sync", code=8))
    assert "elsewhere" not in line
    # A redirect that were followed would be asked here once more.
    assert sum(one["told"] for one in account.liar.seen()) == 1
    held = texts(victim)
    assert {key: held[key] for key in before} == before
    with opened(victim) as cache:
        assert outbox.unsealed_count(cache) + outbox.count(cache) > 0
    account.liar.tell()
    victim.atomic("sync")
    assert whole(texts(victim)) == WHOLE


def _hex(body: object) -> dict[str, object]:
    return {"how": "body", "start": msgspec.msgpack.encode(body).hex(), "repeat": 0}


def _problem(**members: object) -> dict[str, object]:
    return {"how": "problem", "problem": {"status": 500, "code": "x", "title": "Wait.", **members}}


NEVER, SCREEN = 2**64 - 1, "\x1b]0;x\x07\x1b[2J"
ANSWERS: dict[str, tuple[str, dict[str, object]]] = {
    "times beyond all clocks": ("/v1/pull", {"how": "late", "at": NEVER}),
    "times before all clocks": ("/v1/pull", {"how": "late", "at": -(2**63)}),
    "fewer receipts than records": ("/v1/push", _hex(wire.PushReply(1, []))),
    "a receipt from beyond all clocks": (
        "/v1/push",
        _hex(wire.PushReply(1, [wire.Pushed(bytes(32), 1, True, NEVER)])),
    ),
    "pages that lead nowhere": ("/v1/pull", _hex(wire.Pull([], b"", True, 1))),
    "a cursor of a megabyte": ("/v1/pull", _hex(wire.Pull([], bytes(1_000_000), True, 1))),
    "words that drive the screen": ("/v1/pull", _problem(title=SCREEN * 9, detail=SCREEN, code="x\ny")),
    "a wait without end": ("/v1/pull", _problem(status=429, code="slow_down", retry_after=1e300)),
}


@pytest.mark.parametrize(
    "name",
    ANSWERS,
)
def test_nonsense_in_our_form(account: Account, victim: Machine, name: str) -> None:
    """Attack 25: answers of the right form that cannot be true end in one sentence, and nothing is lost."""
    before = _waits(victim)
    path, lie = ANSWERS[name]
    account.liar.tell(path, **lie)  # type: ignore[arg-type]  # JSON
    done = victim.atomic("sync", code=None)
    assert done.code in {0, 8, 9, 11}, done.err[-300:]
    if done.code:
        line = one_sentence(done)
        assert line.isprintable()
    held = texts(victim)
    assert {key: held[key] for key in before} == before
    account.liar.tell()
    victim.atomic("sync")
    victim.atomic("sessions", "--all")


def test_a_token_that_cannot_be_sent(account: Account, victim: Machine) -> None:
    """Attack 25: a token no header can carry is refused, and the machine logs in again when the truth is told."""
    for token in ("é" * 20, "a\r\nX: y", "x" * 1_000_000):
        account.liar.tell("/v1/(ledger|auth/token)", **_hex(wire.Token(token, 2**62)))  # type: ignore[arg-type]
        _forget_token(victim)
        done = victim.atomic("sync", code=None)
        assert done.code in {8, 9}, done.err[-300:]
        one_sentence(done)
        account.liar.tell()
        victim.atomic("sync")


def _forget_token(machine: Machine) -> None:
    import base64

    from atomic_agent.keys import keystore
    from atomic_agent.keys.local_key import LocalKey
    from atomic_agent.locations import Home

    home, key = Home(machine.home / ".atomic"), LocalKey(base64.b64decode(machine.key_file.read_bytes()))
    keystore.save(home, key, msgspec.structs.replace(keystore.load(home, key), token=None))
