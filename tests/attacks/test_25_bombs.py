"""Attack 25: bombs, from a service and from a machine of the account. Stopped at a cap, in bounded memory."""

import struct
from collections.abc import Callable

import msgspec
import pytest
import zstandard

from atomic_agent.cache import entries
from atomic_sessions import seal
from attacks.peer import Peer, body, packed
from attacks.stage import Account, one_sentence, opened, peak, refused, texts, whole
from attacks.test_18_swapped import WHOLE
from system.machines import Machine

FIRST = "0d000000-0000-4000-8000-000000000001"
ROOM = 160.0
"""MB: what an interpreter with all a sync imports takes (some 60), and a pull's greatest page five times."""


def _bomb(declared: int) -> bytes:
    """A record of a few bytes that unpacks to 256 MB, written without holding them."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    piece = bytes(1024 * 1024)
    frame = b"".join([*(packer.compress(piece) for _ in range(256)), packer.flush()])
    return struct.pack(">IIB", len(frame), declared, seal.FLAG_ZSTD) + frame


def _many(session: str) -> bytes:
    """As many entries as fit under the cap of a record, so that their count alone can be what refuses them."""
    one = msgspec.msgpack.encode(["", None, 0, 0, b""])
    count = (seal.MAX_RECORD - 4096) // len(one)
    plain = body(session, [])
    at = plain.index(b"\x90", 20)
    return plain[:at] + b"\xdd" + struct.pack(">I", count) + one * count + plain[at + 1 :]


def _deep(depth: int) -> list[list[object]]:
    raw = (
        b'{"type":"user","uuid":"e1","message":{"role":"user","content":'
        + b"[" * depth
        + b"]" * depth
        + b"}}"
    )
    return [["e1", None, 0, 1, raw]]


BOMBS: dict[str, Callable[[str], bytes]] = {
    "256 MB declared small": lambda _: _bomb(1000),
    "256 MB declared as the cap": lambda _: _bomb(seal.MAX_RECORD),
    "256 MB declared as they are": lambda _: _bomb(256 * 1024 * 1024),
    "200,000 references to objects": lambda session: packed(
        body(session, [], {n: [bytes(32), 1, 1, bytes(32)] for n in range(200_000)}), level=3
    ),
    "deep msgpack": lambda session: packed(
        msgspec.msgpack.encode([1, *[None] * 4])[:2] + b"\x91" * 1_000_000, level=3
    ),
    "2,000,000 entries": lambda session: packed(_many(session), level=3),
    "10^7 entries said, none there": lambda session: packed(
        body(session, []).replace(b"\x90\x80", b"\xdd" + struct.pack(">I", 10**7) + b"\x80")
    ),
    "facts of 60 MB": lambda session: packed(body(session + "x" * 60_000_000, []), level=3),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_of_a_machine_of_the_account(account: Account, victim: Machine, name: str) -> None:
    """Attack 25: sealed and signed as it should be, and opening to far too much: refused; all else is there."""
    raw = Peer(account.tablet).seal(FIRST, BOMBS[name](FIRST))
    account.liar.tell("/v1/pull", "insert", raw=raw.hex())
    done, megabytes = peak(victim, "sync")
    assert "1 records did not verify" in done.err
    assert [count for _, count in refused(victim)] == [1]
    assert whole(texts(victim)) == WHOLE
    assert FIRST not in texts(victim)
    # What is opened is held twice at most: packed and as it is.
    assert megabytes < ROOM + 2 * seal.MAX_RECORD / 1e6, megabytes


@pytest.mark.parametrize("depth", [150, 1_000, 100_000])
def test_deep_json(account: Account, victim: Machine, depth: int) -> None:
    """Attack 25: a line nested beyond all measure is kept as it is and stops nothing: lists, pages, exports."""
    raw = Peer(account.tablet).seal(FIRST, packed(body(FIRST, _deep(depth))))
    account.liar.tell("/v1/pull", "insert", raw=raw.hex())
    victim.atomic("sync")
    victim.atomic("sessions", "--all")
    victim.atomic("show", FIRST)
    victim.atomic("export", FIRST, str(victim.home / "page.html"))
    with opened(victim) as cache:
        query = "SELECT key FROM session_sessions WHERE id = ?"
        (key,) = cache.connection.execute(query, (FIRST,)).fetchone()
        stored = [found.entry.raw for found in entries.read(cache, key)]
    assert stored == [_deep(depth)[0][4]]


REPLIES: dict[str, dict[str, object]] = {
    "a terabyte announced": {"how": "huge"},
    "no end": {"how": "endless"},
    "packed, though plain was asked for": {"how": "packed"},
    "10^7 times nothing": {
        "how": "body",
        "start": "81a66576656e7473dd00989680",
        "part": "c0",
        "repeat": 9_000_000,
    },
    "10^7 announced, none sent": {"how": "body", "start": "81a66576656e7473dd00989680", "repeat": 0},
    "10^7 ledger entries": {
        "how": "body",
        "start": "81a7656e7472696573dd00989680",
        "part": "92c400c400",
        "repeat": 1_800_000,
    },
    "deep msgpack": {"how": "body", "start": "81a178", "part": "91", "repeat": 5_000_000},
    "a number for an answer": {"how": "body", "start": "01", "repeat": 0},
}


@pytest.mark.parametrize("path", ["/v1/pull", "/v1/ledger"])
@pytest.mark.parametrize(
    "name",
    REPLIES,
)
def test_bombs_of_a_service(account: Account, victim: Machine, path: str, name: str) -> None:
    """Attack 25: replies without end or measure: exit 8 in one sentence, little memory, nothing lost."""
    before = texts(victim)
    account.liar.tell(path, **REPLIES[name])  # type: ignore[arg-type]  # JSON
    done, megabytes = peak(victim, "sync", code=8)
    one_sentence(done)
    assert texts(victim) == before
    assert megabytes < ROOM, megabytes
