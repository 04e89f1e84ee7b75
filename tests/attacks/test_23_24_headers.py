"""Attacks 23 and 24: other versions, suites and kinds; altered, cut and lying headers. Refused in little memory."""

import struct

import pytest

from atomic_agent.keys import passphrase_file
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions import seal
from atomic_sessions.envelope import HEADER_SIZE, ZERO32, Kind, parse, verify
from atomic_sessions.errors import KeyMissingError, SealError
from attacks.stage import ALPHA, Account, peak, refused, texts, whole
from attacks.test_18_swapped import WHOLE
from domain.vectors import fixed, keys, place, signer

OTHERS = [(2, 0), (2, 2), (2, 255), (3, 0), (3, 9), (4, 0), (4, 5), (4, 99), (0, 0x42)]
"""Offset and value: version, suite, kind, magic."""
FIELDS = {
    "magic": 0, "version": 2, "suite": 3, "kind": 4, "account": 5, "session": 21, "device": 37, "writer": 53,
    "generation": 69, "kid": 73, "n": 89, "prev": 97, "newest_at": 129, "newest_tag": 137, "nonce": 145, "length": 157,
}  # fmt: skip


def _sealed() -> bytes:
    return seal.seal(keys(), signer(), place(Kind.RECORD, 1, ZERO32), b"hello", fixed("nonce", 12)).raw


def _open(raw: bytes) -> bytes:
    sealed = parse(raw)
    verify(sealed, signer().public_key().public_bytes_raw())
    return seal.open_sealed(keys(), sealed)


@pytest.fixture
def no_crypto(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cipher or a signature check that is reached fails the test."""

    def reached(*_: object) -> None:
        raise AssertionError("crypto was reached")

    monkeypatch.setattr(seal, "AESGCM", reached)
    monkeypatch.setattr(seal, "HKDFExpand", reached)
    monkeypatch.setattr("atomic_sessions.envelope.Ed25519PublicKey", reached)
    monkeypatch.setattr(passphrase_file, "Argon2id", reached)
    monkeypatch.setattr(passphrase_file, "AESGCM", reached)


@pytest.mark.parametrize(("offset", "value"), OTHERS)
def test_the_floor_is_in_the_program(request: pytest.FixtureRequest, offset: int, value: int) -> None:
    """Attack 23: another magic, version, suite or kind is refused before any crypto."""
    raw = bytearray(_sealed())
    raw[offset] = value
    request.getfixturevalue("no_crypto")
    with pytest.raises(SealError):
        _open(bytes(raw))


@pytest.mark.parametrize(
    ("offset", "value"),
    [(2, b"\x00"), (2, b"\x02"), (3, b"\x00\x01"), (5, b"\x01"), (6, b"\x00"), (6, b"\xff")],
)
def test_a_weaker_passphrase_file_is_refused(
    request: pytest.FixtureRequest, offset: int, value: bytes
) -> None:
    """Attack 23: another version, or a lower or far higher cost of the passphrase file, is refused unspent."""
    raw = bytearray(passphrase_file.wrap(LocalKey(bytes(32)), "x", bytes(16), bytes(12)))
    raw[offset : offset + len(value)] = value
    request.getfixturevalue("no_crypto")
    with pytest.raises(KeyMissingError):
        passphrase_file.unwrap(bytes(raw), "x")


@pytest.mark.parametrize("name", FIELDS)
def test_every_bit_of_the_header_counts(name: str) -> None:
    """Attack 24: each bit of each field altered, by its signature and, were it signed, by the cipher."""
    sealed = _sealed()
    ends = [*list(FIELDS.values())[1:], HEADER_SIZE]
    start, end = FIELDS[name], ends[list(FIELDS).index(name)]
    for bit in range(start * 8, end * 8):
        raw = bytearray(sealed)
        raw[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(SealError):
            _open(bytes(raw))
        with pytest.raises(SealError):
            seal.open_sealed(keys(), parse(bytes(raw)))


@pytest.mark.parametrize("length", [0, 15, 1039, 1041, 2**31, 2**32 - 1])
@pytest.mark.usefixtures("no_crypto")
def test_sizes_are_arithmetic(length: int) -> None:
    """Attack 24: a length that lies is refused without a cipher call."""
    raw = bytearray(HEADER) + bytes(1040 + 64)
    raw[HEADER_SIZE - 4 : HEADER_SIZE] = struct.pack(">I", length)
    with pytest.raises(SealError):
        _open(bytes(raw))


HEADER = _sealed()[:HEADER_SIZE]


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 16 + 63, 1040])
@pytest.mark.usefixtures("no_crypto")
def test_cut_anywhere(size: int) -> None:
    """Attack 24: a cut record, and one with a byte behind it, is refused without a cipher call."""
    whole = HEADER + bytes(1040 + 64)
    for raw in (whole[:size], whole[:-1], whole + b"\x00"):
        with pytest.raises(SealError):
            _open(raw)


SERVED = {
    **{f"{at}={value}": {"how": "patch", "at": at, "set": f"{value:02x}"} for at, value in OTHERS[:7]},
    **{name: {"how": "patch", "at": at, "xor": "01"} for name, at in FIELDS.items()},
    "ciphertext": {"how": "patch", "at": HEADER_SIZE + 100, "xor": "80"},
    "signature": {"how": "patch", "at": HEADER_SIZE + 1040 + 5, "xor": "01"},
    "length 0": {"how": "patch", "at": 157, "set": "00000000"},
    "length 2^32-1": {"how": "patch", "at": 157, "set": "ffffffff"},
    "cut": {"how": "resize", "cut": 100, "more": ""},
    "nearly nothing": {"how": "resize", "cut": 1260, "more": ""},
    "longer": {"how": "resize", "cut": 0, "more": "00"},
}


@pytest.mark.parametrize("lies", [list(SERVED.items())[at::6] for at in range(6)], ids=range(6))
def test_altered_records_from_a_service(account: Account, lies: list[tuple[str, dict[str, object]]]) -> None:
    """Attacks 23 and 24: each is quarantined alone and named, the other sessions are whole, memory is small."""
    for name, lie in lies:
        victim = account.victim()
        account.liar.tell("/v1/pull", **lie)  # type: ignore[arg-type]  # JSON
        done, megabytes = peak(victim, "sync")
        assert "3 records did not verify" in done.err, name
        assert whole(texts(victim)) == {
            session: said for session, said in WHOLE.items() if session != ALPHA
        }, name
        assert sum(count for _, count in refused(victim)) == 3, name
        # An interpreter with all that a sync imports takes some 60 MB by itself.
        assert megabytes < 64 + 64, name
