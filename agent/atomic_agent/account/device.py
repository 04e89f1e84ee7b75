"""This machine as a device: its keys, its ledger entry, wrapped account keys. Randomness comes from
the operating system; no network."""

import secrets
import time
from typing import Literal

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from msgspec import Struct

from atomic_agent.keys.keystore import Device
from atomic_agent.sync.identity import NAME_LABEL
from atomic_sessions import ledger, wire
from atomic_sessions.errors import SealError
from atomic_sessions.ledger import Ledger, LedgerBody, LedgerEntry
from atomic_sessions.seal import AccountKeys, derive, open_small, seal_small
from atomic_sessions.unreadable import UNREADABLE

SUITE = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
KIT_SIGN_LABEL = b"atomic1/kit-sign"
KIT_WRAP_LABEL = b"atomic1/kit-wrap"
KIT_ID_LABEL = b"atomic1/kit-id"


class _WrappedKeys(Struct, frozen=True, array_like=True):
    key: bytes
    id_key: bytes


def new_device(name: str) -> Device:
    """Fresh keys for this machine."""
    kem = MLKEM768PrivateKey.generate().private_bytes_raw() + X25519PrivateKey.generate().private_bytes_raw()
    return Device(secrets.token_bytes(16), name[:100], Ed25519PrivateKey.generate().private_bytes_raw(), kem)


def public_sign_key(device: Device) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(device.sign_key).public_key().public_bytes_raw()


def _kem_private(device: Device) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    seed, curve = device.kem_key[:64], device.kem_key[64:]
    return MLKEM768PrivateKey.from_seed_bytes(seed), X25519PrivateKey.from_private_bytes(curve)


def public_kem_key(device: Device) -> bytes:
    """ML-KEM-768 and X25519 public keys, one after the other."""
    lattice, curve = _kem_private(device)
    return lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()


class Kit(Struct, frozen=True):
    """The recovery kit's keys, all derived from its 32 bytes."""

    id: bytes
    sign_key: bytes
    wrap_key: bytes

    def __repr__(self) -> str:
        return "<recovery kit>"


def kit(recovery: bytes) -> Kit:
    return Kit(
        derive(recovery, KIT_ID_LABEL, 16), derive(recovery, KIT_SIGN_LABEL), derive(recovery, KIT_WRAP_LABEL)
    )


def statement(
    account: AccountKeys,
    head: Ledger | None,
    *,
    role: Literal["device", "recovery"],
    device: bytes,
    sign_key: bytes,
    kem_key: bytes,
    name: str,
    by: bytes,
    signer: bytes,
) -> LedgerEntry:
    """A signed ledger entry that adds a device after `head`. `signer`: the private key of `by`."""
    body = msgspec.msgpack.encode(
        LedgerBody(
            1,
            account.account,
            1 if head is None else head.size + 1,
            bytes(32) if head is None else head.head,
            "add",
            role,
            device,
            sign_key,
            kem_key,
            seal_small(account.key, NAME_LABEL, name.encode()[:200], secrets.token_bytes(12)),
            by,
            time.time_ns() // 1_000_000,
        )
    )
    signature = Ed25519PrivateKey.from_private_bytes(signer).sign(ledger.signed_bytes(body))
    return LedgerEntry(body, signature)


def _wrap_info(account: AccountKeys | wire.Wrap, device: bytes) -> bytes:
    return wire.wrap_info(account.account, account.generation, device)


def _signed_wrap(keys: AccountKeys, device: bytes, by: bytes, signer: bytes, sealed: bytes) -> wire.Wrap:
    unsigned = wire.Wrap(keys.account, keys.generation, device, by, sealed, b"")
    signature = Ed25519PrivateKey.from_private_bytes(signer).sign(wire.wrap_bytes(unsigned))
    return msgspec.structs.replace(unsigned, signature=signature)


def wrap_for_device(keys: AccountKeys, device: bytes, kem_key: bytes, by: bytes, signer: bytes) -> wire.Wrap:
    """The account's keys, readable by one device of the ledger alone (HPKE, RFC 9180)."""
    split = len(kem_key) - 32
    try:
        public = hpke.MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(kem_key[:split]),
            X25519PublicKey.from_public_bytes(kem_key[split:]),
        )
    except ValueError:
        raise SealError("The other machine's keys are not keys.", "Start again: atomic devices add") from None
    plain = msgspec.msgpack.encode(_WrappedKeys(keys.key, keys.id_key))
    sealed = SUITE.encrypt(plain, public, info=_wrap_info(keys, device))
    return _signed_wrap(keys, device, by, signer, sealed)


def wrap_for_kit(keys: AccountKeys, recovery: Kit, by: bytes, signer: bytes) -> wire.Wrap:
    """The account's keys for the day all machines are lost."""
    plain = msgspec.msgpack.encode(_WrappedKeys(keys.key, keys.id_key))
    sealed = seal_small(recovery.wrap_key, _wrap_info(keys, recovery.id), plain, secrets.token_bytes(12))
    return _signed_wrap(keys, recovery.id, by, signer, sealed)


def unwrap(wrap: wire.Wrap, trusted: Ledger, device: Device) -> AccountKeys:
    """The account's keys out of a wrap for this device; SealError unless a member of the ledger made it."""
    _check_wrap(wrap, trusted, device.id)
    private = hpke.MLKEM768X25519PrivateKey(*_kem_private(device))
    try:
        plain = SUITE.decrypt(wrap.sealed, private, info=_wrap_info(wrap, device.id))
    except (InvalidTag, ValueError) as error:
        raise SealError("The account's keys do not open on this machine.") from error
    return _unpacked(wrap, plain)


def unwrap_with_kit(wrap: wire.Wrap, trusted: Ledger, recovery: Kit) -> AccountKeys:
    """The account's keys out of the recovery kit's wrap."""
    _check_wrap(wrap, trusted, recovery.id)
    return _unpacked(wrap, open_small(recovery.wrap_key, _wrap_info(wrap, recovery.id), wrap.sealed))


def _unpacked(wrap: wire.Wrap, plain: bytes) -> AccountKeys:
    try:
        found = msgspec.msgpack.decode(plain, type=_WrappedKeys)
    except UNREADABLE as error:
        raise SealError("The account's keys have an unknown form.", "Update atomic-sessions.") from error
    return AccountKeys(wrap.account, wrap.generation, found.key, found.id_key)


def _check_wrap(wrap: wire.Wrap, trusted: Ledger, device: bytes) -> None:
    maker = trusted.members.get(wrap.by)
    if wrap.account != trusted.account or wrap.device != device or maker is None:
        raise SealError("The account's keys were wrapped by someone who is not in the account.")
    if not ledger.check_signature(maker.sign_key, wrap.signature, wire.wrap_bytes(wrap)):
        raise SealError("The account's wrapped keys carry a signature that is not their maker's.")
