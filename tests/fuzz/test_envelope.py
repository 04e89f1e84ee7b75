"""Damaged sealed bytes: refused with our one error, whatever they hold, and never opened to something else."""

import random
import resource
from collections.abc import Callable

import pytest

from agent.sync.account import _added
from atomic_agent.account.device import new_device
from atomic_sessions import bundle, ledger, seal, sharing
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.envelope import Kind, Sealed, parse, verify
from atomic_sessions.errors import SealError
from domain import vectors
from fuzz.cases import share
from fuzz.mutations import cases, damaged

KEYS, SIGNER = vectors.keys(), vectors.signer()
PUBLIC = SIGNER.public_key().public_bytes_raw()
GROWTH = 64 * 1024 * 1024


def sealed() -> dict[bytes, bytes]:
    """Sealed bytes of every kind to what is in them."""
    found = {}
    for number, (kind, plain) in enumerate(vectors.bodies().values(), 1):
        place = vectors.place(kind, number, bytes(32))
        found[seal.seal(KEYS, SIGNER, place, plain, vectors.fixed(f"{number}", 12)).raw] = plain
    return found


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def refused(work: Callable[..., object], *arguments: object) -> bool:
    """True when our error was raised, in one line; any other is the test's failure."""
    try:
        work(*arguments)
    except SealError as error:
        return "\n" not in error.message
    return False


def test_envelopes() -> None:
    """A changed envelope does not verify; one that was signed all the same does not open or opens to what it
    held; memory stays bounded."""
    whole = sealed()
    before = peak()
    for name, raw in cases(list(whole), share(20), seed=11):
        if raw in whole:
            continue
        try:
            found = parse(raw)
        except SealError:
            continue
        assert refused(verify, found, PUBLIC), name
        assert refused(seal.open_sealed, KEYS, found) or _is_same(whole, found), name
    assert peak() - before < GROWTH


def _is_same(whole: dict[bytes, bytes], found: Sealed) -> bool:
    """Only the signature was changed, which does not reach the cipher."""
    return any(found.raw[:-64] == raw[:-64] for raw in whole)


def test_contents() -> None:
    """What a member of the account sealed may be anything: it is a record's content or it is refused."""
    facts = Facts("pi", "01a22c81-7192-70af-aa13-6f2a524f0b20", "", "/p", "git:host/p", 1)
    entries = [Entry(f"e{n}", None, n, n + 1, b'{"type":"message"}') for n in range(3)]
    ref = seal.BlobRef(bytes(32), 1, 2, bytes(32))
    plain = [
        seal.encode_body(seal.RecordBody(1, facts, entries, {})),
        seal.encode_body(seal.RecordBody(1, facts, entries, {1: ref}, {0: 5})),
        b"dead",
    ]
    for name, raw in cases(plain, share(10), seed=12):
        if not refused(seal.decode_body, raw):
            body = seal.decode_body(raw)
            assert all(isinstance(entry.id, str) for entry in body.entries), name


def test_large_objects() -> None:
    """Runs of blob envelopes that were cut, swapped or glued."""
    place = vectors.place(Kind.BLOB, 1, bytes(32))
    raw = vectors.fixed("large", 3000)
    whole = seal.seal_blob(KEYS, SIGNER, place, raw, [vectors.fixed("n", 12)])
    for _, changed in cases([whole, whole + whole], share(3), seed=13):
        refused(seal.split_blob, changed)


def test_device_lists() -> None:
    """A list of devices with any entry changed, moved, left out or added is refused or is a true beginning."""
    first, second = new_device("one"), new_device("two")
    entries: list[ledger.LedgerEntry] = []
    head: ledger.Ledger | None = None
    for device in (first, second):
        entry = _added(KEYS, head, device, first)
        head = ledger.append(head, entry, KEYS.account)
        entries.append(entry)
    assert head is not None
    for number in range(share(3)):
        draw = random.Random(number)
        changed = list(entries)
        at = draw.randrange(2)
        match draw.randrange(4):
            case 0:
                body = damaged(changed[at].body, draw, [entries[1 - at].body])
                changed[at] = ledger.LedgerEntry(body, changed[at].signature)
            case 1:
                changed[at] = ledger.LedgerEntry(
                    changed[at].body, damaged(changed[at].signature, draw, [entries[1 - at].signature])
                )
            case 2:
                changed.insert(at, draw.choice(entries))
            case _:
                changed.reverse()
        if changed != entries:
            assert refused(ledger.verify, changed, KEYS.account), number


@pytest.mark.parametrize("what", ["share", "bundle"])
def test_shares(what: str) -> None:
    """Payloads behind links and published bundles."""
    facts = Facts("pi", "s", "", "", "", 1)
    packed = bundle.encode_bundle(bundle.Bundle(1, facts, "n", "e0", 1, [Entry("e0", None, 0, 1, b"{}")]))
    secret = vectors.fixed("share", sharing.SECRET_SIZE)
    share_id = sharing.new_share(secret).id
    if what == "share":
        whole = sharing.seal_share(
            secret, "<p>page</p>", packed, vectors.fixed("n", 12), vectors.fixed("salt", 16)
        )
        for name, raw in cases([whole], share(3), seed=14):
            if raw != whole:
                assert refused(sharing.open_share, secret, share_id, raw), name
    else:
        for _, raw in cases([packed], share(2), seed=15):
            refused(bundle.decode_bundle, raw)
