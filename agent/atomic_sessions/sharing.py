"""A sealed share: link, keys derived from the link's secret, payload. Pure; randomness is an argument.

The service keeps the payload under the id and never learns the secret, which stands behind the `#` of
the link: `https://host/s/ID#v1.KEY[/ENTRY]`. Payload, big endian, in this order and for ever:

    magic "AS" 2 | version 1 | suite 1 | kind 1 | flags 1 (bit 0: password) | salt 16 | nonce 12 | AES-256-GCM

with everything before the ciphertext and then the 16-byte id as associated data. Inside: length of the
page (4 bytes), the page (gzip), the bundle (gzip). share.js reads the same bytes in a browser.
"""

import base64
import binascii
import gzip
import re
import struct
import zlib
from io import BytesIO
from typing import IO, NamedTuple, cast
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from atomic_sessions.errors import SealError, UsageError

SECRET_SIZE = 32
ID_SIZE = 16
SALT_SIZE = 16
NONCE_SIZE = 12
PBKDF2_ROUNDS = 600_000
MAX_PAGE = 256 * 1024 * 1024
"""No page that unpacks to more than this is opened; share.js has the same limit."""

_HEAD = struct.Struct(">2sBBBB16s12s")
_MAGIC, _VERSION, _SUITE, _KIND, _PASSWORD = b"AS", 1, 1, 5, 1
_TAG_SIZE = 16
_LINK = re.compile(
    r"(https?://[^\s/?#@]+(?:/[^\s?#]*)?)/s/([A-Za-z0-9_-]{22})(?:\.md|\.jsonl)?/?(?:#v1\.([A-Za-z0-9_-]{43})(?:/(\S+))?)?"
)


class ShareKeys(NamedTuple):
    """The id under which the service keeps a share, and the key that opens it without a password."""

    id: str
    key: bytes


class ShareLink(NamedTuple):
    """A link taken apart; `secret` None for a public share or a link that lost its end."""

    base_url: str
    share_id: str
    secret: bytes | None
    entry: str | None


def new_share(secret: bytes) -> ShareKeys:
    """Id and key of a share from its 32 random bytes."""
    if len(secret) != SECRET_SIZE:
        raise SealError("The secret of a share has a wrong size.")
    return ShareKeys(
        _encode(_derive(secret, b"atomic1/share id")[:ID_SIZE]), _derive(secret, b"atomic1/share key")
    )


def seal_share(
    secret: bytes, html: str, bundle_gz: bytes, nonce: bytes, salt: bytes, password: str | None = None
) -> bytes:
    """The payload for the service. `nonce` and `salt` are fresh random bytes, 12 and 16."""
    if len(nonce) != NONCE_SIZE or len(salt) != SALT_SIZE:
        raise SealError("Nonce or salt of a share have a wrong size.")
    page = gzip.compress(html.encode("utf-8"), compresslevel=6, mtime=0)
    flags = _PASSWORD if password is not None else 0
    head = _HEAD.pack(_MAGIC, _VERSION, _SUITE, _KIND, flags, salt, nonce)
    plain = struct.pack(">I", len(page)) + page + bundle_gz
    return head + AESGCM(_key(secret, salt, password)).encrypt(
        nonce, plain, head + _decode(new_share(secret).id)
    )


def needs_password(payload: bytes) -> bool:
    """Whether a payload was sealed with a password."""
    return bool(_parse(payload).flags & _PASSWORD)


def open_share(
    secret: bytes, share_id: str, payload: bytes, password: str | None = None
) -> tuple[str, bytes]:
    """Page and bundle (gzip) of a payload; raises SealError for whatever does not belong together."""
    parts = _parse(payload)
    if new_share(secret).id != share_id:
        raise SealError("The link's key does not belong to this share.", "Copy the whole link again.")
    protected = bool(parts.flags & _PASSWORD)
    if protected and password is None:
        raise SealError("This share is protected by a password.", "Give the password its sender set.")
    key = _key(secret, parts.salt, password if protected else None)
    head, sealed = payload[: _HEAD.size], payload[_HEAD.size :]
    try:
        plain = AESGCM(key).decrypt(parts.nonce, sealed, head + _decode(share_id))
    except InvalidTag as error:
        reason = "The password is wrong or the share is damaged." if protected else "The share is damaged."
        raise SealError(reason) from error
    length = int.from_bytes(plain[:4], "big")
    if len(plain) < 4 or length > len(plain) - 4:
        raise SealError("The share is damaged.")
    return _unpack(plain[4 : 4 + length]), plain[4 + length :]


def link(base_url: str, secret: bytes, entry: str | None = None) -> str:
    """The link a person passes on; whoever has it can read the share."""
    place = f"/{quote(entry, safe='-._~')}" if entry else ""
    return f"{base_url.rstrip('/')}/s/{new_share(secret).id}#v1.{_encode(secret)}{place}"


def parse_link(text: str) -> ShareLink:
    """A share link taken apart, its key checked against its id; raises UsageError."""
    found = _LINK.fullmatch(text.strip())
    if found is None:
        raise UsageError("That is not a share link.", "Paste the whole link, with everything behind the #.")
    base_url, share_id, key, entry = found.groups()
    secret = _decode(key) if key else None
    if secret is not None and new_share(secret).id != share_id:
        raise UsageError(
            "The link is damaged: its key does not belong to its id.", "Copy the whole link again."
        )
    return ShareLink(base_url, share_id, secret, unquote(entry) if entry else None)


class _Parts(NamedTuple):
    flags: int
    salt: bytes
    nonce: bytes


def _parse(payload: bytes) -> _Parts:
    if len(payload) < _HEAD.size + _TAG_SIZE:
        raise SealError("The share is damaged.")
    magic, version, suite, kind, flags, salt, nonce = _HEAD.unpack_from(payload)
    if magic != _MAGIC or kind != _KIND:
        raise SealError("What the service sent is not a share.")
    if version != _VERSION or suite != _SUITE or flags & ~_PASSWORD:
        raise SealError("The share was made by a newer version.", "Update atomic-sessions.")
    return _Parts(flags, salt, nonce)


def _key(secret: bytes, salt: bytes, password: str | None) -> bytes:
    if password is None:
        return new_share(secret).key
    slow = PBKDF2HMAC(SHA256(), 32, salt, PBKDF2_ROUNDS).derive(password.encode("utf-8", "surrogatepass"))
    return _derive(secret + slow, b"atomic1/share key")


def _derive(material: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=purpose).derive(material)


def _unpack(page: bytes) -> str:
    stream = cast(IO[bytes], gzip.GzipFile(fileobj=BytesIO(page)))
    try:
        html = stream.read(MAX_PAGE + 1)
        if len(html) > MAX_PAGE:
            raise SealError("The share is larger than this program accepts.")
        return html.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SealError("The share is damaged.") from error


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise SealError("The id of a share is damaged.") from error
