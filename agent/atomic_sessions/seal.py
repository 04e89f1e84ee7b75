"""Entries to sealed records and back: key derivation, padding, associated data. The only cipher of
the wire. The service cannot import this module.

Randomness (writer ids, nonces) and keys are arguments. docs/envelope.md describes every byte.
"""

import hashlib
import struct
from typing import Annotated, NamedTuple

import msgspec
import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from msgspec import Meta, Struct

from atomic_sessions.entry import Entry, Facts
from atomic_sessions.envelope import (
    HEADER_SIZE,
    SIGNATURE_SIZE,
    TAG_SIZE,
    Header,
    Kind,
    Sealed,
    pack_header,
    parse,
    signed_bytes,
)
from atomic_sessions.errors import SealError
from atomic_sessions.unreadable import UNREADABLE

NONCE_SIZE = 12
PAD_FLOOR = 1024
FLAG_ZSTD = 1
MAX_PLAIN = 64 * 1024 * 1024
"""Nothing that opens to more than this is opened."""
MAX_RECORD = 16 * 1024 * 1024
"""Nor a record, card or tombstone that opens to more than this: their large lines lie in blobs."""
MAX_ENTRIES = 10_000
"""Entries of one record; five times what is ever sealed into one. Each takes 40 times its bytes once decoded."""
MAX_NUMBER = 1 << 53
FRAME_BYTES = 8 * 1024 * 1024 - 4096
_LEAD = struct.Struct(">IIB")


class AccountKeys:
    """An account's secrets: the key of one generation and the id key. Never shown, never pickled."""

    __slots__ = ("account", "generation", "id_key", "key")

    def __init__(self, account: bytes, generation: int, key: bytes, id_key: bytes) -> None:
        if (len(account), len(key), len(id_key)) != (16, 32, 32) or generation < 1:
            raise SealError("The account's keys have a wrong size.")
        self.account, self.generation, self.key, self.id_key = account, generation, key, id_key

    def __repr__(self) -> str:
        return f"<account keys, generation {self.generation}>"

    def __reduce__(self) -> str:
        raise TypeError("account keys are not pickled")


class BlobRef(Struct, frozen=True, array_like=True):
    """Where a large entry's raw line lies: `id` is the SHA-256 of the sealed object's bytes, `size`
    of the line, `sealed` of the object, `digest` the SHA-256 of the line."""

    id: bytes
    size: int
    sealed: int
    digest: bytes


class RecordBody(Struct, frozen=True, array_like=True):
    """What a record says: whose entries these are, and the entries. An entry whose raw line is empty
    and whose place is in `blobs` (index -> reference) lies in a blob of its own. `received` (index -> ms)
    is when the service first saw an entry that a log which lost it is given again."""

    version: int
    facts: Facts
    entries: Annotated[list[Entry], Meta(max_length=MAX_ENTRIES)]
    blobs: Annotated[dict[int, BlobRef], Meta(max_length=MAX_ENTRIES)]
    received: dict[int, int] = {}


class Place(NamedTuple):
    """Where a record goes in its chain, and what the service may know of its session."""

    kind: Kind
    session: bytes
    device: bytes
    writer: bytes
    n: int
    prev: bytes
    newest_at: int
    newest_tag: bytes


def _expand(key: bytes, label: bytes, *parts: bytes, size: int = 32) -> bytes:
    return HKDFExpand(algorithm=SHA256(), length=size, info=label + b"\x00" + b"".join(parts)).derive(key)


def derive(key: bytes, label: bytes, size: int = 32) -> bytes:
    """A key for one purpose from one secret (HKDF-SHA256, RFC 5869, no salt)."""
    return HKDF(algorithm=SHA256(), length=size, salt=None, info=label).derive(key)


def record_key(keys: AccountKeys, session: bytes, writer: bytes) -> bytes:
    """The key of one writer's records of one session in one generation."""
    where = (keys.account, session, writer, struct.pack(">I", keys.generation))
    return _expand(keys.key, b"atomic1/record", *where)


def key_id(keys: AccountKeys) -> bytes:
    """Sixteen bytes that name the account key without telling it; compared before any decryption."""
    return _expand(keys.key, b"atomic1/kid", keys.account, struct.pack(">I", keys.generation), size=16)


def padded_size(size: int) -> int:
    """Padmé (Nikitin et al., PETS 2019) with a floor: at most 12 % more, few distinct sizes."""
    if size <= PAD_FLOOR:
        return PAD_FLOOR
    exponent = size.bit_length() - 1
    low = exponent - exponent.bit_length()
    mask = (1 << max(low - 0, 0)) - 1
    return (size + mask) & ~mask


def _pack(plain: bytes) -> bytes:
    body = zstandard.ZstdCompressor(level=3).compress(plain)
    flags = FLAG_ZSTD
    if len(body) >= len(plain):
        body, flags = plain, 0
    lead = _LEAD.pack(len(body), len(plain), flags)
    total = padded_size(len(lead) + len(body))
    return lead + body + bytes(total - len(lead) - len(body))


def max_plain(kind: Kind) -> int:
    """The most that an envelope of this kind may open to."""
    return MAX_PLAIN if kind == Kind.BLOB else MAX_RECORD


def _unpack(padded: bytes, limit: int) -> bytes:
    if len(padded) < _LEAD.size:
        raise SealError("A sealed record holds too few bytes.")
    size, plain_size, flags = _LEAD.unpack_from(padded)
    if size > len(padded) - _LEAD.size or plain_size > limit or flags not in {0, FLAG_ZSTD}:
        raise SealError("A sealed record declares a size that it does not have.")
    body = padded[_LEAD.size : _LEAD.size + size]
    if not flags:
        if len(body) != plain_size:
            raise SealError("A sealed record declares a size that it does not have.")
        return body
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(body)
        plain = reader.read(plain_size + 1)
    except zstandard.ZstdError as error:
        raise SealError("A sealed record's content is damaged.") from error
    if len(plain) != plain_size:
        raise SealError("A sealed record declares a size that it does not have.")
    return plain


def seal(keys: AccountKeys, sign_key: Ed25519PrivateKey, place: Place, plain: bytes, nonce: bytes) -> Sealed:
    """Seal `plain` as one envelope, signed by the device. `nonce`: 12 fresh random bytes."""
    if len(nonce) != NONCE_SIZE or len(plain) > max_plain(place.kind):
        raise SealError("A record cannot be sealed: wrong nonce size or too much content.")
    padded = _pack(plain)
    header = Header(
        place.kind,
        keys.account,
        place.session,
        place.device,
        place.writer,
        keys.generation,
        key_id(keys),
        place.n,
        place.prev,
        place.newest_at,
        place.newest_tag,
        nonce,
        len(padded) + TAG_SIZE,
    )
    clear = pack_header(header)
    key = record_key(keys, place.session, place.writer)
    unsigned = clear + AESGCM(key).encrypt(nonce, padded, clear)
    raw = unsigned + sign_key.sign(signed_bytes(unsigned))
    return Sealed(header, raw, hashlib.sha256(raw).digest())


def open_sealed(keys: AccountKeys, sealed: Sealed) -> bytes:
    """The plain bytes of an envelope whose signature was checked already; raises SealError.

    A record under another key is told by its key id, before anything is decrypted.
    """
    header = sealed.header
    if header.account != keys.account:
        raise SealError("A sealed record belongs to another account.")
    if header.generation != keys.generation or header.kid != key_id(keys):
        raise SealError("A sealed record was made with another key than this machine has.")
    key = record_key(keys, header.session, header.writer)
    try:
        padded = AESGCM(key).decrypt(header.nonce, sealed.ciphertext, sealed.associated_data)
    except InvalidTag as error:
        raise SealError("A sealed record does not open: it was altered.") from error
    return _unpack(padded, max_plain(header.kind))


def encode_body(body: RecordBody) -> bytes:
    members = msgspec.structs.astuple(body)
    return msgspec.msgpack.encode(members if body.received else members[:-1])


def decode_body(plain: bytes) -> RecordBody:
    """A record's content; SealError when it is not in a form this program knows."""
    try:
        body = msgspec.msgpack.decode(plain, type=RecordBody)
    except UNREADABLE as error:
        raise SealError(
            "A sealed record's content has an unknown form.", "Update atomic-sessions."
        ) from error
    if body.version != 1:
        raise SealError("A sealed record was made by a newer version.", "Update atomic-sessions.")
    numbers = (*body.received.values(), *(n for entry in body.entries for n in (entry.pos, entry.stamp)))
    if not all(0 <= number < MAX_NUMBER for number in numbers):
        raise SealError("A sealed record holds a place or time that cannot be.")
    return body


def seal_small(key: bytes, label: bytes, plain: bytes, nonce: bytes) -> bytes:
    """A few bytes under a key of their own purpose: nonce, then ciphertext."""
    return nonce + AESGCM(derive(key, label)).encrypt(nonce, plain, label)


def open_small(key: bytes, label: bytes, sealed: bytes) -> bytes:
    """The inverse of seal_small; raises SealError."""
    try:
        return AESGCM(derive(key, label)).decrypt(sealed[:NONCE_SIZE], sealed[NONCE_SIZE:], label)
    except (InvalidTag, ValueError) as error:
        raise SealError("Sealed bytes do not open with this key.") from error


def seal_blob(
    keys: AccountKeys, sign_key: Ed25519PrivateKey, place: Place, raw: bytes, nonces: list[bytes]
) -> bytes:
    """A large line as a run of envelopes of kind BLOB, each naming the one before it.

    `nonces`: one for each of `blob_frames(len(raw))` frames. `place.n` and `place.prev` are ignored.
    """
    frames: list[bytes] = []
    prev = bytes(32)
    for index in range(blob_frames(len(raw))):
        at = place._replace(kind=Kind.BLOB, n=index + 1, prev=prev)
        frame = seal(keys, sign_key, at, raw[index * FRAME_BYTES : (index + 1) * FRAME_BYTES], nonces[index])
        prev = frame.id
        frames.append(frame.raw)
    return b"".join(frames)


def blob_frames(size: int) -> int:
    """How many frames a line of this many bytes takes."""
    return max(1, -(-size // FRAME_BYTES))


def split_blob(sealed: bytes) -> list[Sealed]:
    """The envelopes of a sealed blob, parsed; SealError when they do not follow each other."""
    found: list[Sealed] = []
    at = 0
    prev = bytes(32)
    while at < len(sealed):
        if len(sealed) - at < HEADER_SIZE:
            raise SealError("A large entry's sealed bytes end too early.")
        length = int.from_bytes(sealed[at + HEADER_SIZE - 4 : at + HEADER_SIZE], "big")
        frame = parse(sealed[at : at + HEADER_SIZE + length + SIGNATURE_SIZE])
        if frame.header.kind != Kind.BLOB or frame.header.n != len(found) + 1 or frame.header.prev != prev:
            raise SealError("A large entry's sealed frames are out of order.")
        prev = frame.id
        at += len(frame.raw)
        found.append(frame)
    return found
