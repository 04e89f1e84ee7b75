"""I09: an empty or wrong server never deletes local data, whatever it answers."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agent.sync.account import account as memory_account
from atomic_agent.cache import outbox
from atomic_sessions import wire
from atomic_sessions.errors import AtomicError, ServiceRefusedError, ServiceUnreachableError
from faults.machines import Account
from faults.proxy import Fault, at_line, at_request


def reply(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


OURS = f"{wire.API_HEADER}: 1"
PACKED = f"Content-Type: {wire.CONTENT_TYPE}"
HTML = "Content-Type: text/html"
PAGE = b"<html><body>Please log in to the hotel's network</body></html>"


def packed(what: object) -> bytes:
    return reply(200, msgspec.msgpack.encode(what), OURS, PACKED)


ANSWERS: dict[str, bytes] = {
    "nothing at all": b"",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "empty 200": reply(200, b""),
    "empty 200 of ours": reply(200, b"", OURS, PACKED),
    "404": reply(404, b"not found", HTML),
    "404 of ours": reply(404, b"", OURS),
    "500": reply(500, PAGE, HTML),
    "captive portal": reply(200, PAGE, HTML),
    "captive redirect": reply(302, b"", "Location: http://login.example.com/"),
    "redirect of ours": reply(307, b"", "Location: https://evil.example.com/", OURS),
    "cut": reply(200, b"\x93\xa3ab", OURS, PACKED),
    "longer than it says": reply(200, b"\x90", OURS, PACKED) + b"more",
    "shorter than it says": reply(200, b"x" * 100, OURS, PACKED)[:-50],
    "null": packed(None),
    "a list": packed([1, 2, 3]),
    "an empty log": packed(wire.Pull([], b"", False, 0)),
    "an empty log elsewhere": packed(wire.Pull([], bytes(24), False, 0)),
    "no devices": packed(wire.LedgerReply([])),
    "no results": packed(wire.PushReply(0, [])),
    "garbage events": packed(wire.Pull([wire.Event(1, 1, b"garbage")], bytes(24), False, 1)),
    "all is dead": reply(
        410,
        b'{"type":"about:blank","title":"gone","status":410,"code":"session_dead","detail":"gone","session":"00"}',
        OURS,
        f"Content-Type: {wire.PROBLEM_TYPE}",
    ),
    "cursor gone": reply(
        410,
        b'{"type":"about:blank","title":"gone","status":410,"code":"cursor_gone","detail":"gone"}',
        OURS,
        f"Content-Type: {wire.PROBLEM_TYPE}",
    ),
    "an unknown refusal": reply(
        418,
        b'{"type":"about:blank","title":"teapot","status":418,"code":"teapot","detail":"no"}',
        OURS,
        f"Content-Type: {wire.PROBLEM_TYPE}",
    ),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_foreign_answers_at_each_request(account: Callable[[int], Account], answer: bytes) -> None:
    """One sentence for the person, everything still there, and the next sync is as if nothing had been."""
    found = account(2)
    node, other = found.nodes
    node.say("sent")
    other.say("fetched")
    found.settle()
    node.say("not sent")
    for at in range(1, 6):
        before = node.texts()
        found.proxy.clear()
        found.proxy.plan = at_request(at, Fault("foreign", answer))
        told = ""
        try:
            node.exchange()
        except AtomicError as error:
            told = error.message
        assert "\n" not in told
        assert node.texts() >= before
        node.say(f"said {at}")
    found.proxy.clear()
    found.agree(refused=answer == ANSWERS["garbage events"])
    assert len(other.texts()) == 8


def test_an_empty_log_is_refilled(tmp_path: Path) -> None:
    """A service that forgot everything gets everything back."""
    nodes, log = memory_account(tmp_path)
    nodes[0].say("kept")
    for node in nodes:
        node.sync(log)
    before = nodes[1].texts()
    log.rows.clear()
    done = nodes[1].sync(log)
    assert done.reset
    assert nodes[1].texts() == before
    for node in [*nodes, *nodes]:
        node.sync(log)
    assert nodes[0].state() == nodes[1].state()
    assert not outbox.waits(nodes[0].journal.cache)
    for node in nodes:
        node.close()


def test_a_services_word_alone_deletes_nothing(tmp_path: Path) -> None:
    """`session_dead` without a signed tombstone is an error; every entry stays, sent or not."""
    nodes, log = memory_account(tmp_path)
    nodes[0].say("sent")
    nodes[0].sync(log)
    nodes[0].say("not sent")
    before = nodes[0].texts()
    log.dead.add(log.rows[0][0].header.session)
    with pytest.raises(ServiceRefusedError):
        nodes[0].sync(log)
    assert nodes[0].texts() == before
    log.dead.clear()
    for node in nodes:
        node.sync(log)
    assert nodes[1].texts() == before
    for node in nodes:
        node.close()


def test_a_service_that_is_not_there(account: Callable[[int], Account]) -> None:
    """Nothing listens: one sentence, and what waits goes later."""
    found = account(1)
    (node,) = found.nodes
    node.say("waits")
    found.proxy.plan = at_line("", Fault("cut_before"))
    with pytest.raises(ServiceUnreachableError):
        node.exchange()
    assert outbox.waits(node.journal.cache)
    found.proxy.clear()
    node.exchange()
    assert not outbox.waits(node.journal.cache)
