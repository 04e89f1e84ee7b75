"""A hostile machine of the account: it holds the keys, so what it sends is signed and opens."""

import base64
import secrets
import struct
from typing import Any

import msgspec
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from atomic_agent.keys import keystore
from atomic_agent.keys.keystore import Membership
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_sessions.entry import Facts
from atomic_sessions.envelope import TAG_SIZE, ZERO32, Header, Kind, pack_header, signed_bytes
from atomic_sessions.ids import SessionKey, wire_id
from atomic_sessions.seal import FLAG_ZSTD, key_id, record_key
from system.machines import Machine

NOW = 1_796_000_000_000


class Peer:
    """A machine whose keys the test uses itself, past every check of its program."""

    def __init__(self, machine: Machine) -> None:
        key = LocalKey(base64.b64decode(machine.key_file.read_bytes()))
        found = keystore.load(Home(machine.home / ".atomic"), key).membership
        assert found is not None
        self.mine: Membership = found

    def seal(self, session: str, padded: bytes) -> bytes:
        """One record of a new session, with these bytes as its padded content."""
        keys = self.mine.account_keys()
        wire = wire_id(keys.id_key, SessionKey("claude-code", session, ""))
        device = self.mine.device
        writer = secrets.token_bytes(16)
        header = Header(
            Kind.RECORD,
            keys.account,
            wire,
            device.id,
            writer,
            keys.generation,
            key_id(keys),
            1,
            ZERO32,
            NOW,
            bytes(8),
            secrets.token_bytes(12),
            len(padded) + TAG_SIZE,
        )
        clear = pack_header(header)
        cipher = AESGCM(record_key(keys, wire, writer))
        unsigned = clear + cipher.encrypt(header.nonce, padded, clear)
        return unsigned + Ed25519PrivateKey.from_private_bytes(device.sign_key).sign(signed_bytes(unsigned))


def packed(plain: bytes, *, declared: int | None = None, level: int = 19) -> bytes:
    """Padded content that holds `plain` in zstd, and declares its true size or another."""
    body = zstandard.ZstdCompressor(level=level).compress(plain)
    size = len(plain) if declared is None else declared
    return struct.pack(">IIB", len(body), size, FLAG_ZSTD) + body


def body(session: str, entries: Any, blobs: Any = None) -> bytes:  # msgpack of any shape
    """The plain content of a record, its entries and references as they shall stand there."""
    facts = Facts("claude-code", session, "", "/src/project", "git:h/p", NOW)
    return msgspec.msgpack.encode([1, facts, entries, blobs or {}])
