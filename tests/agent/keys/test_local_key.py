"""The key object gives nothing away, and the passphrase file opens with its passphrase alone."""

import copy
import pickle
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf import argon2

from atomic_agent.keys import passphrase_file
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import KeyMissingError

SECRET = bytes(range(32))
SALT, NONCE = b"s" * 16, b"n" * 12


def test_a_key_shows_only_its_name() -> None:
    """`repr`, `str`, formatting and errors name the key and tell nothing about it."""
    key = LocalKey(SECRET)
    for shown in (repr(key), str(key), f"{key}", f"{[key]}", "%s" % (key,)):  # noqa: UP031  # all ways of formatting
        assert key.name in shown
        assert SECRET.hex() not in shown
        assert repr(SECRET)[2:-1] not in shown
    assert not hasattr(key, "__dict__")


def test_a_key_is_not_pickled() -> None:
    """Nor copied: both would write its bytes somewhere."""
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leave(LocalKey(SECRET))


def test_keys_are_equal_by_their_bytes() -> None:
    """Two objects of one secret are one key."""
    assert LocalKey(SECRET) == LocalKey(bytes(SECRET))
    assert LocalKey(SECRET) != LocalKey(bytes(32))
    assert LocalKey(SECRET) != SECRET
    assert len({LocalKey(SECRET), LocalKey(SECRET), LocalKey(bytes(32))}) == 2


def test_each_use_has_its_own_key() -> None:
    """The database's and the keystore's key, the name and the check value all differ from the secret."""
    key = LocalKey(SECRET)
    found = [
        key.database_key(),
        key.keystore_key(),
        bytes.fromhex(key.check_value),
        bytes.fromhex(key.name[3:]),
    ]
    assert [len(one) for one in found] == [32, 32, 8, 4]
    assert len({one[:4] for one in [*found, SECRET]}) == 5


@pytest.fixture(scope="module")
def wrapped() -> bytes:
    return passphrase_file.wrap(LocalKey(SECRET), "correct horse", SALT, NONCE)


def test_the_passphrase_file_opens(wrapped: bytes) -> None:
    """With its passphrase; the key is not in it."""
    assert passphrase_file.unwrap(wrapped, "correct horse") == LocalKey(SECRET)
    assert SECRET not in wrapped
    assert len(wrapped) == passphrase_file.SIZE


@pytest.mark.parametrize("passphrase", ["", "correct hors", "Correct horse", "correct horse ", "\udcff"])
def test_a_wrong_passphrase(wrapped: bytes, passphrase: str) -> None:
    """Says that it is wrong and what else there is, whatever was typed."""
    with pytest.raises(KeyMissingError, match="wrong") as refused:
        passphrase_file.unwrap(wrapped, passphrase)
    assert "atomic recovery" in refused.value.mend


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (3, (63).to_bytes(2, "big")),
        (3, (8).to_bytes(2, "big")),
        (3, b"\xff\xff"),
        (5, b"\x02"),
        (5, b"\x00"),
        (5, b"\xff"),
        (6, b"\x00"),
        (6, b"\xff"),
    ],
)
def test_other_costs_are_refused_unspent(
    wrapped: bytes, offset: int, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, passes and lanes outside this program's limits are refused before any stretching."""

    def stretch(*_: object) -> bytes:
        raise AssertionError("stretched with an attacker's parameters")

    monkeypatch.setattr(passphrase_file, "_stretch", stretch)
    edited = wrapped[:offset] + value + wrapped[offset + len(value) :]
    with pytest.raises(KeyMissingError, match="limits"):
        passphrase_file.unwrap(edited, "correct horse")


def test_costs_within_the_limits_are_still_sealed(wrapped: bytes) -> None:
    """A header raised to an allowed cost no longer opens: it is part of what is sealed."""
    edited = wrapped[:3] + (65).to_bytes(2, "big") + wrapped[5:]
    with pytest.raises(KeyMissingError):
        passphrase_file.unwrap(edited, "correct horse")


def test_every_flipped_byte_is_noticed(wrapped: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed bit in any byte and the file does not open."""
    real, seen = passphrase_file._stretch, dict[tuple[str, bytes], bytes]()

    def remembered(passphrase: str, lead: bytes) -> bytes:
        # Only a changed salt or cost needs a new stretching; one of them stands for all.
        kept = lead if lead[7:] == SALT and lead[:7] == wrapped[:7] else b"other"
        if (passphrase, kept) not in seen:
            seen[passphrase, kept] = real(passphrase, lead)
        return seen[passphrase, kept]

    monkeypatch.setattr(passphrase_file, "_stretch", remembered)
    assert passphrase_file.unwrap(wrapped, "correct horse") == LocalKey(SECRET)
    for at in range(len(wrapped)):
        edited = bytearray(wrapped)
        edited[at] ^= 1
        with pytest.raises(KeyMissingError):
            passphrase_file.unwrap(bytes(edited), "correct horse")


@pytest.mark.parametrize("content", [b"", b"AK", b"x" * 82, b"x" * 84])
def test_files_of_another_size(content: bytes) -> None:
    """A cut or longer file is refused as such."""
    with pytest.raises(KeyMissingError, match="size"):
        passphrase_file.unwrap(content, "p")


def test_the_cost_is_what_the_design_says(wrapped: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2id with 64 MiB, 3 passes and 4 lanes, by the file's own header."""
    asked: list[dict[str, object]] = []

    def recording(**named: Any) -> argon2.Argon2id:  # passed on as it came
        asked.append(named)
        return argon2.Argon2id(**named)

    monkeypatch.setattr(passphrase_file, "Argon2id", recording)
    passphrase_file.unwrap(wrapped, "correct horse")
    assert asked == [{"salt": SALT, "length": 32, "iterations": 3, "lanes": 4, "memory_cost": 65536}]
