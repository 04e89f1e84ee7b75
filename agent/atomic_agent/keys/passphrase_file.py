"""A local key wrapped under a passphrase (Argon2id, AES-256-GCM), for machines without a keyring.

Layout, big endian: "AK" 2, version 1, memory MiB 2, passes 1, lanes 1, salt 16, nonce 12, ciphertext
48. Everything before the nonce is associated data. Floors and ceilings are this program's, so an
edited file cannot weaken or exhaust it.
"""

import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import KeyMissingError

_LAYOUT = struct.Struct(">2sBHBB16s")
MEMORY_MIB, PASSES, LANES = 64, 3, 4
SIZE = _LAYOUT.size + 12 + 48


def wrap(key: LocalKey, passphrase: str, salt: bytes, nonce: bytes) -> bytes:
    """The file's bytes. `salt` 16 and `nonce` 12 random bytes."""
    lead = _LAYOUT.pack(b"AK", 1, MEMORY_MIB, PASSES, LANES, salt)
    return lead + nonce + AESGCM(_stretch(passphrase, lead)).encrypt(nonce, key.reveal(), lead)


def unwrap(content: bytes, passphrase: str) -> LocalKey:
    """The key; KeyMissingError for a wrong passphrase or an altered file."""
    if len(content) != SIZE:
        raise KeyMissingError("The passphrase file has a wrong size.", "Restore it from a backup.")
    lead = content[: _LAYOUT.size]
    magic, version, memory, passes, lanes, _ = _LAYOUT.unpack(lead)
    if magic != b"AK" or version != 1:
        raise KeyMissingError("The passphrase file is of an unknown version.", "Update atomic-sessions.")
    if not (64 <= memory <= 1024 and 3 <= passes <= 10 and 1 <= lanes <= 8):
        raise KeyMissingError(
            "The passphrase file asks for a strength outside the allowed limits.", "Restore it from a backup."
        )
    nonce = content[_LAYOUT.size : _LAYOUT.size + 12]
    try:
        return LocalKey(AESGCM(_stretch(passphrase, lead)).decrypt(nonce, content[_LAYOUT.size + 12 :], lead))
    except InvalidTag:
        raise KeyMissingError(
            "The passphrase is wrong, or its file was altered.",
            "Try again, or use: atomic recovery restore FILE",
        ) from None


def _stretch(passphrase: str, lead: bytes) -> bytes:
    _, _, memory, passes, lanes, salt = _LAYOUT.unpack(lead)
    kdf = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory * 1024)
    return kdf.derive(passphrase.encode("utf-8", "surrogatepass"))
