"""The clear, authenticated header of a sealed thing: layout, parsing, signature. No keys, no cipher.

The service imports this module and cannot import `seal`. The layout below is a promise: it is
written byte by byte in docs/envelope.md and pinned by tests/data/vectors.json. Never change a
field, not even its order; a new layout is a new version.
"""

import hashlib
import struct
from enum import IntEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

from atomic_sessions.errors import SealError

MAGIC = b"AS"
VERSION = 1
SUITE = 1
"""AES-256-GCM, HKDF-SHA256, Ed25519."""

MAX_LENGTH = 8 * 1024 * 1024 + 64
"""Greatest ciphertext of one envelope, in bytes: a padded frame of 8 MiB and its tag."""

ZERO16 = bytes(16)
ZERO32 = bytes(32)
SIGN_CONTEXT = b"atomic1/record"

_HEADER = struct.Struct(">2sBBB16s16s16s16sI16sQ32sQ8s12sI")
HEADER_SIZE = _HEADER.size
SIGNATURE_SIZE = 64
TAG_SIZE = 16
MIN_SIZE = HEADER_SIZE + TAG_SIZE + SIGNATURE_SIZE


class Kind(IntEnum):
    """What a sealed thing is."""

    RECORD = 1
    CARD = 2
    TOMBSTONE = 3
    BLOB = 4


class Header(Struct, frozen=True):
    """Everything the service may know of a record.

    `session` is the wire id, `n` counts from 1 within (session, writer) and `prev` is the id of
    record n-1 (zeros for the first). `newest_at` (ms) and `newest_tag` name the newest user or
    assistant message of the writer's copy, zeros when it holds none.
    """

    kind: Kind
    account: bytes
    session: bytes
    device: bytes
    writer: bytes
    generation: int
    kid: bytes
    n: int
    prev: bytes
    newest_at: int
    newest_tag: bytes
    nonce: bytes
    length: int


class Sealed(Struct, frozen=True):
    """A parsed envelope. `raw` is the whole of it, `id` its SHA-256."""

    header: Header
    raw: bytes
    id: bytes

    @property
    def ciphertext(self) -> bytes:
        return self.raw[HEADER_SIZE : HEADER_SIZE + self.header.length]

    @property
    def associated_data(self) -> bytes:
        return self.raw[:HEADER_SIZE]


def pack_header(header: Header) -> bytes:
    """The 161 bytes of a header, which are also the cipher's associated data."""
    return _HEADER.pack(
        MAGIC,
        VERSION,
        SUITE,
        header.kind,
        header.account,
        header.session,
        header.device,
        header.writer,
        header.generation,
        header.kid,
        header.n,
        header.prev,
        header.newest_at,
        header.newest_tag,
        header.nonce,
        header.length,
    )


def parse(raw: bytes) -> Sealed:
    """Read an envelope without trusting it.

    Raises SealError for anything that is not exactly one well-formed version 1 envelope; sizes are
    checked before anything else, and no byte is decrypted.
    """
    if len(raw) < MIN_SIZE:
        raise SealError("A sealed record is too short to be one.")
    (
        magic,
        version,
        suite,
        kind,
        account,
        session,
        device,
        writer,
        generation,
        kid,
        n,
        prev,
        at,
        tag,
        nonce,
        size,
    ) = _HEADER.unpack_from(raw)
    if magic != MAGIC:
        raise SealError("These bytes are not a sealed record.")
    if version != VERSION or suite != SUITE:
        raise SealError(
            f"A sealed record has version {version}, suite {suite}, which this program does not know.",
            "Update atomic-sessions on this machine.",
        )
    if size > MAX_LENGTH or size < TAG_SIZE or len(raw) != HEADER_SIZE + size + SIGNATURE_SIZE:
        raise SealError("A sealed record has a length that does not fit its bytes.")
    if kind not in Kind.__members__.values():
        raise SealError(f"A sealed record is of kind {kind}, which this program does not know.")
    if n < 1 or n >= 1 << 63 or generation < 1 or at >= 1 << 53 or (n == 1) != (prev == ZERO32):
        raise SealError("A sealed record has impossible numbers in its header.")
    header = Header(
        Kind(kind), account, session, device, writer, generation, kid, n, prev, at, tag, nonce, size
    )
    return Sealed(header, raw, hashlib.sha256(raw).digest())


def signed_bytes(unsigned: bytes) -> bytes:
    """What the device signs: a context and the hash of header and ciphertext."""
    return SIGN_CONTEXT + hashlib.sha256(unsigned).digest()


def verify(sealed: Sealed, sign_key: bytes) -> None:
    """Check the signature under the device's 32-byte Ed25519 key; raises SealError."""
    body, signature = sealed.raw[:-SIGNATURE_SIZE], sealed.raw[-SIGNATURE_SIZE:]
    try:
        Ed25519PublicKey.from_public_bytes(sign_key).verify(signature, signed_bytes(body))
    except (InvalidSignature, ValueError) as error:
        raise SealError("A sealed record's signature is not its device's.") from error
