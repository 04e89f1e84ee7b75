"""I17, I18: bytes that are not what they say, and keys that are not the account's."""

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agent.sync.account import Node, account, settle
from atomic_agent.cache import outbox
from atomic_agent.sync.identity import membership
from atomic_sessions.errors import SealError

OTHER = "01a22c81-7192-70af-aa13-000000000002"


@pytest.mark.parametrize("damage", ["flip", "swap", "drop", "foreign"])
def test_forged_records_are_refused_and_the_rest_goes_on(tmp_path: Path, damage: str) -> None:
    """I17: altered, exchanged or missing records are quarantined; other sessions sync."""
    nodes, log = account(tmp_path)
    for _ in range(3):
        nodes[0].say("victim")
        nodes[0].sync(log)
    nodes[0].say("bystander", OTHER)
    nodes[0].sync(log)
    rows = log.rows
    if damage == "flip":
        sealed, received, chain = rows[1]
        raw = bytearray(sealed.raw)
        raw[200] ^= 1
        rows[1] = (type(sealed)(sealed.header, bytes(raw), sealed.id), received, chain)
    elif damage == "swap":
        rows[0], rows[1] = (rows[1][0], rows[0][1], rows[0][2]), (rows[0][0], rows[1][1], rows[1][2])
    elif damage == "drop":
        del rows[1]
    else:
        with closing(Node(tmp_path, "stranger")) as stranger:
            rows[1] = (
                type(rows[1][0])(rows[1][0].header, _resigned(rows[1][0].raw, stranger), rows[1][0].id),
                *rows[1][1:],
            )
    done = nodes[1].sync(log)
    assert done.refused >= 1
    assert any(b"bystander" in raw for raw in nodes[1].texts())
    assert sum(b"victim" in raw for raw in nodes[1].texts()) < 3
    for node in nodes:
        node.close()


def _resigned(raw: bytes, stranger: Node) -> bytes:
    """The same record signed by somebody who is not in the account."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from atomic_sessions.envelope import SIGNATURE_SIZE, signed_bytes

    body = raw[:-SIGNATURE_SIZE]
    return body + Ed25519PrivateKey.from_private_bytes(stranger.device.sign_key).sign(signed_bytes(body))


@pytest.mark.parametrize("empty", [False, True])
def test_a_wrong_account_key_is_found_before_anything_moves(tmp_path: Path, *, empty: bool) -> None:
    """I18: a machine whose account key is not the account's neither sends nor stores, and says so."""
    nodes, log = account(tmp_path)
    if not empty:
        nodes[0].say("readable with the right key alone")
        nodes[0].sync(log)
    count = len(log.rows)
    wrong = nodes[1]
    mine = membership(wrong.journal)
    wrong.journal.change(membership=msgspec.structs.replace(mine, key=bytes(32)))
    wrong.say("would be poison for the others", OTHER)
    before = wrong.state()
    with pytest.raises(SealError, match="account key"):
        wrong.sync(log)
    assert len(log.rows) == count
    assert wrong.state() == before
    assert outbox.quarantined(wrong.journal.cache) == []
    wrong.journal.change(membership=mine)
    settle(nodes, log)
    assert nodes[0].state() == nodes[1].state()
    for node in nodes:
        node.close()
