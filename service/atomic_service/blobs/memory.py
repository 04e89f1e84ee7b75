"""The double of the storage port: objects in a dict. Passes the same contract tests as the adapters."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator

from atomic_service.blobs.port import CHUNK, NoObject, WrongBytes, name_of
from atomic_service.blobs.signing import Signed, UrlSigner
from atomic_service.clock import Clock


class MemoryBlobs:
    """Objects for as long as the process lives."""

    def __init__(self, signer: UrlSigner, clock: Clock) -> None:
        self.signer = signer
        self._clock = clock
        self.objects: dict[str, bytes] = {}

    async def put(self, key: str, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != name_of(key):
            raise WrongBytes
        self.objects[key] = body

    async def receive(self, key: str, size: int, chunks: AsyncIterable[bytes]) -> None:
        body = b"".join([chunk async for chunk in chunks])
        if len(body) != size:
            raise WrongBytes
        await self.put(key, body)

    async def get(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError as error:
            raise NoObject from error

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        body = await self.get(key)
        for start in range(0, len(body), CHUNK):
            yield body[start : start + CHUNK]

    async def stat(self, key: str) -> int | None:
        body = self.objects.get(key)
        return None if body is None else len(body)

    async def holds(self, key: str, size: int) -> bool:
        return await self.stat(key) == size  # nothing comes in unchecked

    async def delete(self, keys: list[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    async def presign_put(self, key: str, size: int, seconds: int) -> Signed:
        return self.signer.sign("PUT", key, size, self._clock() + seconds * 1000)

    async def presign_get(self, key: str, seconds: int) -> Signed:
        return self.signer.sign("GET", key, 0, self._clock() + seconds * 1000)

    async def check(self) -> None:
        return None

    def close(self) -> None:
        """Nothing is held."""
