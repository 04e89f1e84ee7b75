"""A published session: what a share link carries, and what an import of one reads. Pure.

Bundles hold entries after redaction. Bytes: gzip (browsers and Python both open it) of msgpack.
"""

import gzip
import zlib
from io import BytesIO
from typing import IO, cast

import msgspec
from msgspec import Struct

from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import SealError
from atomic_sessions.unreadable import UNREADABLE

VERSION = 1
MAX_BYTES = 1024 * 1024 * 1024


class Bundle(Struct, frozen=True):
    """One session as published: facts (cwd and project emptied), display name, leaf, entries."""

    version: int
    facts: Facts
    name: str
    leaf: str | None
    published_at: int
    entries: list[Entry]


def encode_bundle(bundle: Bundle) -> bytes:
    """The same bundle gives the same bytes."""
    return gzip.compress(msgspec.msgpack.encode(bundle), compresslevel=6, mtime=0)


def decode_bundle(raw: bytes, limit: int = MAX_BYTES) -> Bundle:
    """Read a bundle of at most `limit` bytes after decompression; raises SealError."""
    stream = cast(IO[bytes], gzip.GzipFile(fileobj=BytesIO(raw)))
    try:
        plain = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SealError("A published session is damaged.") from error
    if len(plain) > limit:
        raise SealError("A published session is larger than this program accepts.")
    try:
        bundle = msgspec.msgpack.decode(plain, type=Bundle)
    except UNREADABLE as error:
        raise SealError("A published session is not in a form this program knows.") from error
    if bundle.version != VERSION:
        raise SealError("A published session was made by a newer version.", "Update atomic-sessions.")
    return bundle
