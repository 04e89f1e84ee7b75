"""The local key: 32 random bytes of this machine, from which everything kept here is keyed.

Never synced, never derived from anything, never shown (security.md 4.1).
"""

import hashlib

from atomic_sessions.errors import KeyMissingError
from atomic_sessions.seal import derive

KEY_BYTES = 32


class LocalKey:
    """Holds the bytes and hides them from `repr`, `str` and pickles."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise KeyMissingError("The key is not 32 bytes.", "Use the output of: openssl rand -base64 32")
        self._secret = secret

    @property
    def name(self) -> str:
        """What the key is called in messages; tells nothing about it."""
        return "k1:" + derive(self._secret, b"atomic1/name", 4).hex()

    @property
    def check_value(self) -> str:
        """Kept beside the cache, so that a wrong key is told from a damaged file."""
        return derive(self._secret, b"atomic1/kcv", 8).hex()

    def database_key(self) -> bytes:
        return derive(self._secret, b"atomic1/db")

    def keystore_key(self) -> bytes:
        return derive(self._secret, b"atomic1/keystore")

    def reveal(self) -> bytes:
        """The bytes themselves, for the keyring and the recovery wrap alone."""
        return self._secret

    def __repr__(self) -> str:
        return f"<key {self.name}>"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("keys are not pickled")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalKey) and other._secret == self._secret

    def __hash__(self) -> int:
        return hash(hashlib.sha256(self._secret).digest())
