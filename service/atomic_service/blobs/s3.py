"""The storage port over S3, with boto3 in a bounded pool of threads. Off the hot paths: clients move bytes themselves.

Names are content hashes and correctness lies in Postgres, so a store that ignores `If-None-Match` can waste
a write. One that ignores checksums (radosgw, older SeaweedFS) can take wrong bytes under a name: nobody is told
that an object is there before the store vouched for its SHA-256 or its bytes were read (`holds`).
"""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import ClientError

from atomic_service.blobs.port import CHUNK, NoObject, name_of
from atomic_service.blobs.signing import Signed
from atomic_service.settings import S3Settings

THREADS = 8
HASHED_AT_ONCE = 2
"""An object has up to 512 MiB; the other threads stay for everything else."""
MISSING = {"404", "NoSuchKey", "NotFound"}
EXISTS = {"412", "PreconditionFailed", "ConditionalRequestConflict"}
Client = Any  # boto3 ships no types; it builds its clients from data files at run time

P = ParamSpec("P")
R = TypeVar("R")


class S3Blobs:
    """Objects in one bucket."""

    def __init__(self, settings: S3Settings) -> None:
        self._bucket = settings.bucket
        self._client = _client(settings, settings.endpoint)
        # Signed addresses name the host the client uses, and the signature covers it.
        self._public = _client(settings, settings.public_endpoint)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="s3")
        self._hashing = asyncio.Semaphore(HASHED_AT_ONCE)

    async def _run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(*args, **kwargs))

    async def put(self, key: str, body: bytes) -> None:
        def send() -> None:
            try:
                self._client.put_object(**self._put_parameters(key, len(body)), Body=body)
            except ClientError as error:
                if _code(error) not in EXISTS:
                    raise

        await self._run(send)

    async def get(self, key: str) -> bytes:
        return b"".join([chunk async for chunk in self.stream(key)])

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        try:
            reply = await self._run(lambda: self._client.get_object(Bucket=self._bucket, Key=key))
        except ClientError as error:
            raise (NoObject() if _code(error) in MISSING else error) from error
        body = reply["Body"]
        try:
            while chunk := await self._run(body.read, CHUNK):
                yield chunk
        finally:
            body.close()

    async def stat(self, key: str) -> int | None:
        found = await self._run(self._head, key)
        return None if found is None else int(found["ContentLength"])

    async def holds(self, key: str, size: int) -> bool:
        found = await self._run(self._head, key)
        if found is None or found["ContentLength"] != size:
            return False
        kept = found.get("ChecksumSHA256")
        if kept is None:
            async with self._hashing:
                kept = await self._run(self._hash, key)
        if kept == self._put_parameters(key, size)["ChecksumSHA256"]:
            return True
        await self.delete([key])
        return False

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._client.head_object(
                Bucket=self._bucket, Key=key, ChecksumMode="ENABLED"
            )
        except ClientError as error:
            if _code(error) in MISSING:
                return None
            raise
        return found

    def _hash(self, key: str) -> str:
        """The SHA-256 of what lies there, in base64 as S3 writes it."""
        digest = hashlib.sha256()
        with contextlib.closing(self._client.get_object(Bucket=self._bucket, Key=key)["Body"]) as body:
            while chunk := body.read(CHUNK):
                digest.update(chunk)
        return base64.b64encode(digest.digest()).decode()

    async def delete(self, keys: list[str]) -> None:
        def remove() -> None:
            # One by one where a batch is not answered by every store; deletions are rare.
            for key in keys:
                self._client.delete_object(Bucket=self._bucket, Key=key)

        await self._run(remove)

    async def presign_put(self, key: str, size: int, seconds: int) -> Signed:
        parameters = self._put_parameters(key, size)
        url = await self._run(
            lambda: str(
                self._public.generate_presigned_url("put_object", Params=parameters, ExpiresIn=seconds)
            )
        )
        return Signed(url, {"x-amz-checksum-sha256": parameters["ChecksumSHA256"], "if-none-match": "*"})

    async def presign_get(self, key: str, seconds: int) -> Signed:
        parameters = {"Bucket": self._bucket, "Key": key}
        url = await self._run(
            lambda: str(
                self._public.generate_presigned_url("get_object", Params=parameters, ExpiresIn=seconds)
            )
        )
        return Signed(url, {})

    async def check(self) -> None:
        await self._run(lambda: self._client.head_bucket(Bucket=self._bucket))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        self._public.close()

    def _put_parameters(self, key: str, size: int) -> dict[str, Any]:
        return {
            "Bucket": self._bucket,
            "Key": key,
            "ContentLength": size,
            "ChecksumSHA256": base64.b64encode(bytes.fromhex(name_of(key))).decode(),
            "IfNoneMatch": "*",
        }


def _client(settings: S3Settings, endpoint: str) -> Client:
    # 0.35 s of imports that a service with a folder does not need.
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            connect_timeout=3,
            read_timeout=10,
            max_pool_connections=THREADS,
            # The caller is told to come back: 20 s is the longest a store that says nothing holds a request.
            retries={"mode": "standard", "total_max_attempts": 2},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
