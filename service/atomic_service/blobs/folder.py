"""The storage port over a folder: the embedded default, on one machine. Serves nothing itself: see routes.py.

A write goes to a temporary file, is synced, checked against its name and renamed: an object is there
whole or not at all.
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from atomic_service.blobs.port import CHUNK, KEY, NoObject, WrongBytes, name_of
from atomic_service.blobs.signing import Signed, UrlSigner
from atomic_service.clock import Clock


class FolderBlobs:
    """Objects as files under `root`, one folder for each part of the key."""

    def __init__(self, root: Path, signer: UrlSigner, clock: Clock) -> None:
        self._root = root
        self.signer = signer
        self._clock = clock
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, key: str) -> Path:
        """The file of a key. Refuses anything that is not exactly a key, whoever made it."""
        if not KEY.fullmatch(key):
            raise NoObject
        return self._root / key

    async def put(self, key: str, body: bytes) -> None:
        async def once() -> AsyncIterator[bytes]:
            yield body

        await self.receive(key, len(body), once())

    async def receive(self, key: str, size: int, chunks: AsyncIterable[bytes]) -> None:
        """Store an object as it arrives; WrongBytes leaves nothing behind."""
        path = self.path(key)
        file = await asyncio.to_thread(_open_beside, path)
        try:
            digest, received = hashlib.sha256(), 0
            async for chunk in chunks:
                received += len(chunk)
                if received > size:
                    raise WrongBytes
                digest.update(chunk)
                await asyncio.to_thread(file.write, chunk)
            if received != size or digest.hexdigest() != name_of(key):
                raise WrongBytes
            await asyncio.to_thread(_settle, file, path)
        finally:
            await asyncio.to_thread(_discard, file)

    async def get(self, key: str) -> bytes:
        try:
            return await asyncio.to_thread(self.path(key).read_bytes)
        except FileNotFoundError as error:
            raise NoObject from error

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        try:
            file = await asyncio.to_thread(self.path(key).open, "rb")
        except FileNotFoundError as error:
            raise NoObject from error
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                yield chunk

    async def stat(self, key: str) -> int | None:
        try:
            return (await asyncio.to_thread(self.path(key).stat)).st_size
        except FileNotFoundError:
            return None

    async def holds(self, key: str, size: int) -> bool:
        return await self.stat(key) == size  # nothing comes in unchecked

    async def delete(self, keys: list[str]) -> None:
        def remove() -> None:
            for key in keys:
                self.path(key).unlink(missing_ok=True)

        await asyncio.to_thread(remove)

    async def presign_put(self, key: str, size: int, seconds: int) -> Signed:
        return self.signer.sign("PUT", key, size, self._clock() + seconds * 1000)

    async def presign_get(self, key: str, seconds: int) -> Signed:
        return self.signer.sign("GET", key, 0, self._clock() + seconds * 1000)

    async def check(self) -> None:
        await asyncio.to_thread(self._root.stat)

    def close(self) -> None:
        """Nothing is held."""


def _open_beside(path: Path) -> "tempfile._TemporaryFileWrapper[bytes]":
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.NamedTemporaryFile(dir=path.parent, prefix=".part-", delete=False)


def _discard(file: "tempfile._TemporaryFileWrapper[bytes]") -> None:
    file.close()
    Path(file.name).unlink(missing_ok=True)


def _settle(file: "tempfile._TemporaryFileWrapper[bytes]", path: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    Path(file.name).replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
