"""Attack 30: frozen bytes, published vectors, distinct nonces, and decoders that raise nothing but our errors."""

import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hypothesis import given
from hypothesis import strategies as st

from agent.cache import stored
from agent.cache.stored import Place
from atomic_agent.account import pairing, words
from atomic_agent.account.device import new_device
from atomic_agent.keys import passphrase_file
from atomic_agent.keys.keystore import Membership, Secrets
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.sync.sealing import Sealer
from atomic_sessions import envelope, seal, sharing
from atomic_sessions.envelope import ZERO32, parse, verify
from atomic_sessions.errors import AtomicError, KeyMissingError, SealError
from atomic_sessions.ledger import LedgerEntry, check_signature
from atomic_sessions.ledger import verify as verify_ledger
from atomic_sessions.seal import AccountKeys, open_sealed
from domain.vectors import FILE, bodies, fixed, keys, place, signer

FROZEN: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
PUBLISHED: dict[str, Any] = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))
PUBLIC = signer().public_key().public_bytes_raw()
ORDER = 2**252 + 27742317777372353535851937790883648493


def _hex(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.mark.parametrize("vector", FROZEN, ids=lambda v: v["name"])
def test_frozen_vectors(vector: dict[str, Any]) -> None:
    """Attack 30: what version 1 ever sealed opens for ever, and seals to the same bytes again."""
    sealed = parse(_hex(vector["sealed"]))
    verify(sealed, PUBLIC)
    assert open_sealed(keys(), sealed).hex() == vector["plain"]
    kind, plain = bodies()[vector["name"]]
    at = place(kind, vector["n"], _hex(vector["prev"]))
    again = seal.seal(keys(), signer(), at, plain, fixed(f"nonce {vector['name']}", 12))
    assert again.raw.hex() == vector["sealed"]


MUST_FAIL: dict[str, Callable[[bytes], object]] = {
    "the signature of another device": lambda raw: verify(parse(raw), fixed("other", 32)),
    "another account": lambda raw: open_sealed(
        AccountKeys(fixed("other", 16), 1, fixed("key", 32), fixed("id key", 32)), parse(raw)
    ),
    "another key": lambda raw: open_sealed(
        AccountKeys(keys().account, 1, fixed("other", 32), fixed("id key", 32)), parse(raw)
    ),
    "another generation": lambda raw: open_sealed(
        AccountKeys(keys().account, 2, fixed("key", 32), fixed("id key", 32)), parse(raw)
    ),
    "version 2": lambda raw: parse(raw[:2] + b"\x02" + raw[3:]),
    "suite 0": lambda raw: parse(raw[:3] + b"\x00" + raw[4:]),
    "kind 5": lambda raw: parse(raw[:4] + b"\x05" + raw[5:]),
    "a byte less": lambda raw: parse(raw[:-1]),
    "a byte more": lambda raw: parse(raw + b"\x00"),
    "another session": lambda raw: open_sealed(keys(), parse(raw[:21] + bytes(16) + raw[37:])),
    "another writer": lambda raw: open_sealed(keys(), parse(raw[:53] + bytes(16) + raw[69:])),
    "another nonce": lambda raw: open_sealed(keys(), parse(raw[:145] + bytes(12) + raw[157:])),
    "the tag of another": lambda raw: open_sealed(
        keys(), parse(raw[:-65] + bytes([raw[-65] ^ 1]) + raw[-64:])
    ),
}


@pytest.mark.parametrize("vector", FROZEN, ids=lambda v: v["name"])
@pytest.mark.parametrize("name", MUST_FAIL)
def test_what_must_fail(vector: dict[str, Any], name: str) -> None:
    """Attack 30: every frozen vector, spoilt in every way that there is, is refused."""
    with pytest.raises(SealError):
        MUST_FAIL[name](_hex(vector["sealed"]))


@pytest.mark.parametrize("vector", PUBLISHED["hkdf"])
def test_published_hkdf(vector: dict[str, Any]) -> None:
    """Attack 30: keys are derived as RFC 5869 says."""
    assert seal.derive(_hex(vector["key"]), _hex(vector["info"]), vector["size"]) == _hex(vector["out"])


@pytest.mark.parametrize("vector", PUBLISHED["ed25519"])
def test_published_signatures(vector: dict[str, Any]) -> None:
    """Attack 30: RFC 8032's signatures hold; with S + L, cut, longer, or over other bytes they do not."""
    key, message, good = _hex(vector["key"]), _hex(vector["message"]), _hex(vector["signature"])
    assert check_signature(key, good, message)
    scalar = int.from_bytes(good[32:], "little") + ORDER
    malleable = good[:32] + scalar.to_bytes(32, "little")
    for bad in (malleable, good[:63], good + b"\x00", good[32:] + good[:32], b""):
        assert not check_signature(key, bad, message)
    assert not check_signature(key, good, message + b"\x00")
    for other in (bytes(32), b"\x01" + bytes(31), key[:31], b"\xff" * 32):
        assert not check_signature(other, good, message)


@pytest.mark.parametrize("signature", PUBLISHED["ed25519_invalid"]["signatures"])
def test_published_forgeries(signature: str) -> None:
    """Attack 30: Wycheproof's special values of R and S are no signatures."""
    known = PUBLISHED["ed25519_invalid"]
    assert not check_signature(_hex(known["key"]), _hex(signature), _hex(known["message"]))


def test_published_ciphers() -> None:
    """Attack 30: the cipher and the stretching are those of their documents; one bit of a tag and nothing opens."""
    for vector in PUBLISHED["aes_gcm"]:
        cipher, nonce = AESGCM(_hex(vector["key"])), _hex(vector["nonce"])
        sealed = _hex(vector["sealed"])
        assert cipher.encrypt(nonce, _hex(vector["plain"]), b"") == sealed
        with pytest.raises(InvalidTag):
            cipher.decrypt(nonce, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"")
    for vector in PUBLISHED["argon2id"]:
        kdf = Argon2id(
            salt=_hex(vector["salt"]),
            length=32,
            iterations=vector["passes"],
            lanes=vector["lanes"],
            memory_cost=vector["kib"],
            ad=_hex(vector["ad"]),
            secret=_hex(vector["secret"]),
        )
        assert kdf.derive(_hex(vector["password"])) == _hex(vector["out"])


@pytest.mark.parametrize("vector", PUBLISHED["words"])
def test_published_words(vector: dict[str, str]) -> None:
    """Attack 30: a kit's words are BIP 39's; another word, order or count fails the checksum."""
    assert words.to_words(_hex(vector["secret"])) == vector["words"]
    assert words.from_words(vector["words"]) == _hex(vector["secret"])
    listed = vector["words"].split()
    for bad in ([*listed[:-1], "zoo"], listed[:-1], [*listed, "zoo"], [*listed[:-1], "nonsense"]):
        with pytest.raises(KeyMissingError):
            words.from_words(" ".join(bad))


def test_nonces_are_distinct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 30: a million nonces of one run are distinct, and each thing sealed takes one of them for itself.

    They are random, since a copied machine would repeat a counter; a key is one writer's in one session, so that
    2^32 of them under one key are never approached.
    """
    assert len({secrets.token_bytes(seal.NONCE_SIZE) for _ in range(1_000_000)}) == 1_000_000
    drawn: list[bytes] = []
    real = secrets.token_bytes

    def drawing(size: int) -> bytes:
        drawn.append(real(size))
        return drawn[-1]

    local = LocalKey(bytes(range(32)))
    with Place(tmp_path).open(local) as cache:
        for number in range(40):
            session = stored.ensure(cache, stored.facts(f"01a22c81-7192-70af-aa13-{number:012x}"))
            large = "x" * (300_000 if number == 0 else 10)
            stored.put(cache, session, [stored.said("e", None, large, pos=0, stamp=1)])
        mine = Membership("", bytes(16), new_device("x"), 1, bytes(32), bytes(32), b"", b"", 0)
        monkeypatch.setattr(secrets, "token_bytes", drawing)
        Sealer(cache, mine).seal_all()
        rows = cache.connection.execute("SELECT raw FROM session_outbox").fetchall()
        blobs = cache.connection.execute("SELECT raw FROM session_uploads").fetchall()
    sealed = [parse(raw) for (raw,) in rows] + [frame for (raw,) in blobs for frame in seal.split_blob(raw)]
    nonces = [one.header.nonce for one in sealed]
    assert len(nonces) == 41
    assert sorted(nonces) == sorted(set(drawn))
    record_keys = {
        seal.record_key(mine.account_keys(), one.header.session, one.header.writer) for one in sealed
    }
    assert len(record_keys) == 40


LOCKED = passphrase_file.wrap(LocalKey(bytes(32)), "x", bytes(16), bytes(12))
SHARE = sharing.seal_share(bytes(range(32)), "<p>hi</p>", b"bundle", bytes(12), bytes(16), None)
SHARE_ID = sharing.new_share(bytes(range(32))).id
DECODERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "envelope": (parse, _hex(FROZEN[0]["sealed"])),
    "frames": (seal.split_blob, _hex(FROZEN[3]["sealed"])),
    "body": (seal.decode_body, _hex(FROZEN[0]["plain"])),
    "padding": (lambda raw: seal._unpack(raw, seal.MAX_RECORD), seal._pack(b"hello" * 99)),
    "small": (
        lambda raw: seal.open_small(bytes(32), b"x", raw),
        seal.seal_small(bytes(32), b"x", b"y", bytes(12)),
    ),
    "ledger": (lambda raw: verify_ledger([LedgerEntry(raw, bytes(64))], bytes(16)), b"\x9c" + bytes(12)),
    "pairing": (lambda raw: pairing._read(raw, pairing.Joining), msgspec.msgpack.encode([1, 2, 3, 4, 5])),
    "share": (lambda raw: sharing.open_share(bytes(range(32)), SHARE_ID, raw), SHARE),
}


@pytest.mark.parametrize("name", DECODERS)
@given(noise=st.binary(max_size=400), at=st.integers(0, 5000), keep=st.booleans())
def test_decoders_raise_our_error_alone(name: str, noise: bytes, at: int, *, keep: bool) -> None:
    """Attack 30: noise, and true bytes overwritten with it anywhere: an error of ours, or what was there."""
    decode, sound = DECODERS[name]
    at %= len(sound) + 1
    with suppress(AtomicError):
        decode(sound[:at] + noise + sound[at + len(noise) :] if keep else noise)


def test_the_passphrase_file_raises_our_error_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 30: each byte of the passphrase file set to each of four values."""
    # What is stretched does not matter here, and 64 MiB each time would.
    monkeypatch.setattr(passphrase_file, "_stretch", lambda *_: hashlib.sha256(b"").digest())
    for at in range(len(LOCKED)):
        for value in (0, 1, 0x7F, 0xFF):
            with pytest.raises(KeyMissingError):
                passphrase_file.unwrap(LOCKED[:at] + bytes([value]) + LOCKED[at + 1 :], "x")


def test_formats_are_numbered() -> None:
    """Attack 30: what is frozen is version 1, suite 1, and the keystore's version is 1 as well."""
    assert (envelope.VERSION, envelope.SUITE, Secrets().version) == (1, 1, 1)
    assert {parse(_hex(one["sealed"])).raw[:4] for one in FROZEN} == {b"AS\x01\x01"}
    assert parse(_hex(FROZEN[0]["sealed"])).header.prev == ZERO32
