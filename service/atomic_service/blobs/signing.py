"""Addresses of objects that this service serves itself: an expiring HMAC over method, key and size. No I/O."""

import hashlib
import hmac
from typing import Literal
from urllib.parse import urlencode

from msgspec import Struct

CONTEXT = b"atomic1/blob-url\x00"
Method = Literal["GET", "PUT"]


class Signed(Struct, frozen=True):
    """An address that works for a while without any other right. `headers` go along unchanged."""

    url: str
    headers: dict[str, str]


class UrlSigner:
    """Makes and checks `/v1/blobs/…` addresses under the replicas' common secret."""

    def __init__(self, secret: bytes, public_url: str) -> None:
        self._key = hmac.digest(secret, CONTEXT, hashlib.sha256)
        self._public_url = public_url

    def sign(self, method: Method, key: str, size: int, until: int) -> Signed:
        """An address good for one method until a time in ms."""
        query = urlencode(
            {"method": method, "size": size, "until": until, "sig": self._mac(method, key, size, until)}
        )
        return Signed(f"{self._public_url}/v1/blobs/{key}?{query}", {})

    def holds(self, method: Method, key: str, size: int, until: int, sig: str, now: int) -> bool:
        """True when this service made the address and it has not expired."""
        expected = self._mac(method, key, size, until)
        return hmac.compare_digest(expected.encode(), sig.encode("utf-8", "replace")) and now < until

    def _mac(self, method: Method, key: str, size: int, until: int) -> str:
        message = f"{method}\n{key}\n{size}\n{until}".encode()
        return hmac.digest(self._key, message, hashlib.sha256).hex()
