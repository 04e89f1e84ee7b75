"""This machine's secrets in one file, sealed under the local key: device keys, account keys, tokens,
provider keys, the recovery secret. Never in the cache, never in clear.
"""

import secrets
from typing import Literal

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_sessions.errors import KeyMissingError, SealError
from atomic_sessions.ledger import LedgerEntry
from atomic_sessions.seal import AccountKeys, open_small, seal_small
from atomic_sessions.wire import Wrap

_LABEL = b"atomic1/keystore"


def _hidden(self: Struct) -> str:
    """What a secret struct shows of itself: its kind, none of its members."""
    return f"<{type(self).__name__}>"


class Device(Struct, frozen=True):
    """This machine in its account: ids and private keys. `kem_key` is the ML-KEM-768 seed (64 bytes)
    and the X25519 key (32), one after the other."""

    __repr__ = _hidden

    id: bytes
    name: str
    sign_key: bytes
    kem_key: bytes


class Membership(Struct, frozen=True):
    """The account this machine belongs to. `ledger_*` is the last verified state of the device list,
    below which the service may not go back."""

    __repr__ = _hidden

    url: str
    account: bytes
    device: Device
    generation: int
    key: bytes
    id_key: bytes
    ledger_root: bytes
    ledger_head: bytes
    ledger_size: int

    def account_keys(self) -> AccountKeys:
        return AccountKeys(self.account, self.generation, self.key, self.id_key)


class PairingOffer(Struct, frozen=True):
    """A pairing this machine offered and has not finished."""

    __repr__ = _hidden

    url: str
    secret: bytes
    reveal: bytes
    expires_at: int


class Token(Struct, frozen=True):
    """The service's bearer token and when it ends (ms)."""

    __repr__ = _hidden

    text: str
    expires_at: int


class Founding(Struct, frozen=True):
    """A new account that was asked for and not confirmed yet: sent again as it is after a cut."""

    __repr__ = _hidden

    url: str
    invite: str
    account: bytes
    key: bytes
    id_key: bytes
    device: Device
    ledger: list[LedgerEntry]
    wraps: list[Wrap]


class Secrets(Struct):
    """The content of the keystore."""

    __repr__ = _hidden

    version: Literal[1] = 1
    recovery: bytes = b""
    recovery_saved: bool = False
    membership: Membership | None = None
    token: Token | None = None
    offer: PairingOffer | None = None
    founding: Founding | None = None
    provider_keys: dict[str, str] = {}


def load(home: Home, key: LocalKey) -> Secrets:
    """The secrets of this home, empty before the first. KeyMissingError when the key does not fit."""
    try:
        sealed = private_files.read(home.keystore)
    except FileNotFoundError:
        return Secrets()
    try:
        plain = open_small(key.keystore_key(), _LABEL, sealed)
        return msgspec.msgpack.decode(plain, type=Secrets)
    except SealError:
        raise KeyMissingError(
            f"The keystore {home.keystore} does not open with the key {key.name}.",
            "Use the key it was made with, or: atomic recovery restore FILE",
        ) from None
    except msgspec.MsgspecError:
        raise KeyMissingError(
            "The keystore was written by a newer version.", "Update atomic-sessions."
        ) from None


def save(home: Home, key: LocalKey, content: Secrets) -> None:
    """Replace the keystore whole."""
    private_files.make_folder(home.keys)
    plain = msgspec.msgpack.encode(content)
    private_files.write(home.keystore, seal_small(key.keystore_key(), _LABEL, plain, secrets.token_bytes(12)))
