"""Sealing: frozen bytes, identity, and everything that must fail."""

import struct
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions import envelope, seal
from atomic_sessions.envelope import ZERO32, Kind, parse, verify
from atomic_sessions.errors import SealError
from atomic_sessions.seal import AccountKeys, open_sealed, padded_size, seal_blob, split_blob
from domain.vectors import fixed, keys, place, signer

PUBLIC = signer().public_key().public_bytes_raw()


def _sealed(plain: bytes, kind: Kind = Kind.RECORD) -> envelope.Sealed:
    return seal.seal(keys(), signer(), place(kind, 1, ZERO32), plain, fixed("nonce", 12))


@given(st.binary(max_size=5000))
def test_seal_then_open_is_identity(plain: bytes) -> None:
    """Any bytes come back."""
    sealed = parse(_sealed(plain).raw)
    verify(sealed, PUBLIC)
    assert open_sealed(keys(), sealed) == plain


@given(st.integers(min_value=0), st.integers(0, 7))
def test_any_flipped_bit_anywhere_is_refused(where: int, bit: int) -> None:
    """The same over the whole record."""
    raw = bytearray(_sealed(b"hello").raw)
    raw[where % len(raw)] ^= 1 << bit
    with pytest.raises(SealError):
        _open(bytes(raw))


def _open(raw: bytes) -> bytes:
    sealed = parse(raw)
    verify(sealed, PUBLIC)
    return open_sealed(keys(), sealed)


@given(st.integers(0, 400), st.binary(max_size=3))
def test_cut_and_extended_records_are_refused(cut: int, more: bytes) -> None:
    """Lengths must fit to the byte."""
    raw = _sealed(b"hello").raw
    changed = raw[: len(raw) - cut] + more
    if changed != raw:
        with pytest.raises(SealError):
            _open(changed)


def test_another_key_is_told_before_decryption() -> None:
    """A wrong key shows in the key id."""
    other = AccountKeys(keys().account, 1, fixed("other", 32), fixed("id key", 32))
    with pytest.raises(SealError, match="another key"):
        open_sealed(other, _sealed(b"hello"))


def test_a_record_of_another_session_writer_or_account_does_not_open() -> None:
    """Each header field is bound by the cipher."""
    sealed = _sealed(b"hello")
    for index in range(4):
        raw = bytearray(sealed.raw)
        raw[5 + 16 * index] ^= 1
        with pytest.raises(SealError):
            open_sealed(keys(), parse(bytes(raw)))


def test_a_bomb_stops_at_its_declared_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """zstd that unpacks to far more than it declares is refused in little memory."""
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(300_000_000))
    lead = struct.pack(">IIB", len(bomb), 1000, seal.FLAG_ZSTD)
    monkeypatch.setattr(seal, "_pack", lambda _: lead + bomb + bytes(2000))
    sealed = _sealed(b"")
    tracemalloc.start()
    with pytest.raises(SealError):
        open_sealed(keys(), sealed)
    assert tracemalloc.get_traced_memory()[1] < 40_000_000
    tracemalloc.stop()


@given(st.integers(0, 10**9))
def test_padding_hides_sizes_cheaply(size: int) -> None:
    """Never smaller, at most 12 % larger above the floor, and idempotent."""
    padded = padded_size(size)
    assert padded >= size
    assert padded == 1024 or padded <= size * 1.12
    assert padded_size(padded) == padded


def test_small_records_look_alike() -> None:
    """Up to a kilobyte nothing tells one length from another."""
    assert len({len(_sealed(fixed("x", n)).raw) for n in (0, 1, 100, 900)}) == 1


@pytest.mark.parametrize("size", [0, 1, seal.FRAME_BYTES, seal.FRAME_BYTES + 1])
def test_blobs_split_into_frames_and_back(size: int) -> None:
    """Large lines travel in frames of at most 8 MiB that name each other."""
    raw = fixed("blob", min(size, 1000)).ljust(size, b"z")[:size]
    nonces = [fixed(f"n{n}", 12) for n in range(seal.blob_frames(size))]
    sealed = seal_blob(keys(), signer(), place(Kind.BLOB, 1, ZERO32), raw, nonces)
    frames = split_blob(sealed)
    for frame in frames:
        verify(frame, PUBLIC)
    assert b"".join(open_sealed(keys(), frame) for frame in frames) == raw
    if len(frames) > 1:
        with pytest.raises(SealError):
            split_blob(frames[1].raw + frames[0].raw)


def test_keys_show_nothing() -> None:
    """Neither repr nor str nor pickle of the account's keys holds them."""
    import pickle

    assert fixed("key", 32).hex() not in repr(keys()) + str(keys())
    with pytest.raises(TypeError):
        pickle.dumps(keys())
