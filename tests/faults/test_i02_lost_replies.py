"""I02: the line breaks at every request of a sync, in every way; nothing is sent twice and nothing is lost."""

from collections.abc import Callable
from typing import get_args

import pytest

from atomic_sessions.errors import ServiceUnreachableError
from faults.machines import Account
from faults.proxy import Fault, Kind, at_line, at_request

LARGE = 300_000
HARMLESS = {"delay", "duplicate"}
KINDS = [kind for kind in get_args(Kind) if kind != "foreign"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_breaks_at_each_request(account: Callable[[int], Account], kind: Kind) -> None:
    """Whichever request it hits, the person hears of a service that cannot be reached or of nothing, and
    the next sync brings everything over once."""
    found = account(2)
    sender, reader = found.nodes
    reader.say("from the other side")
    reader.exchange()
    found.proxy.clear()
    sender.say("x" * LARGE)
    sender.exchange()
    requests = len(found.proxy.seen)
    assert {"POST /v1/push", "GET /v1/pull", "POST /v1/uploads"} <= set(found.proxy.seen)
    for node in (sender, reader):
        for at in range(1, requests + 1):
            node.say(f"{at} " + "x" * LARGE)
            found.proxy.clear()
            found.proxy.plan = at_request(at, Fault(kind))
            try:
                node.exchange(0.3 if kind == "silence" else 5.0)
                assert kind in HARMLESS or len(found.proxy.seen) < at
            except ServiceUnreachableError:
                assert kind not in HARMLESS
            found.proxy.clear()
    found.agree()
    assert len(sender.texts()) == 2 * requests + 2


def test_lost_acknowledgement_keeps_the_place(account: Callable[[int], Account]) -> None:
    """The reply to a push is lost after the commit: the retry adds no record and takes the first one's place."""
    found = account(1)
    node = found.nodes[0]
    node.say("once")
    found.proxy.plan = at_line("POST /v1/push", Fault("cut_after"))
    with pytest.raises(ServiceUnreachableError):
        node.exchange()
    (before,) = node.log()
    found.proxy.clear()
    node.exchange()
    (after,) = node.log()
    assert (after.seq, after.raw, after.received_at) == (before.seq, before.raw, before.received_at)
    found.agree()
