"""The storage port: immutable objects named by the SHA-256 of their bytes. Knows no account and no client.

Keys are made here and never chosen by a client. A key's last part is the hex SHA-256 of the object,
so a second put of a key can only bring the same bytes.
"""

import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Literal, Protocol

from atomic_service.blobs.signing import Signed, UrlSigner

KEY = re.compile(r"(?:up|share)/[0-9a-f]{2}/[0-9a-f]{32}/[0-9a-f]{64}")
CHUNK = 256 * 1024
FOLDERS: dict[str, str] = {"blob": "up", "share": "share"}


class Blobs(Protocol):
    """What the service asks of an object store."""

    async def put(self, key: str, body: bytes) -> None:
        """Store the object. Doing it twice is doing it once."""

    async def get(self, key: str) -> bytes:
        """The whole object; NoObject when there is none."""

    def stream(self, key: str) -> AsyncIterator[bytes]:
        """The object in chunks; NoObject before the first one when there is none."""

    async def stat(self, key: str) -> int | None:
        """The object's size, None when there is none."""

    async def holds(self, key: str, size: int) -> bool:
        """True when the object is there with its size and the bytes its name promises.

        Other bytes of that size are removed: they would block the right ones for ever.
        """

    async def delete(self, keys: list[str]) -> None:
        """Remove objects; those that are not there are no error."""

    async def presign_put(self, key: str, size: int, seconds: int) -> Signed:
        """Where a client may put this one object, of this size."""

    async def presign_get(self, key: str, seconds: int) -> Signed:
        """Where a client may read this one object."""

    async def check(self) -> None:
        """Raises unless the store can be reached."""

    def close(self) -> None:
        """Let go of threads and connections."""


class LocalBlobs(Blobs, Protocol):
    """A store without addresses of its own: routes.py moves its objects under signed ones."""

    @property
    def signer(self) -> UrlSigner:
        """What made the addresses."""

    async def receive(self, key: str, size: int, chunks: AsyncIterable[bytes]) -> None:
        """Store an object as it arrives; WrongBytes leaves nothing behind."""


class NoObject(Exception):
    """There is no object by this key."""


class WrongBytes(Exception):
    """What was sent does not have the size or the hash its name promises."""


def object_key(purpose: Literal["blob", "share"], account: bytes, object_id: bytes) -> str:
    """Where an object lies. The two hex digits spread accounts over the store's partitions."""
    spread = hashlib.sha256(account).hexdigest()[:2]
    return f"{FOLDERS[purpose]}/{spread}/{account.hex()}/{object_id.hex()}"


def name_of(key: str) -> str:
    """The hex SHA-256 that an object by this key must have."""
    return key.rsplit("/", 1)[1]
