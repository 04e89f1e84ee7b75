"""The storage port over S3, with boto3 in a bounded pool of threads. Off the hot paths: clients move bytes themselves.

Names are content hashes and correctness lies in Postgres, so a store that ignores `If-None-Match` or
checksums (radosgw, older SeaweedFS) can waste a write but not corrupt an object.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import ClientError

from atomic_service.blobs.port import CHUNK, NoObject, name_of
from atomic_service.blobs.signing import Signed
from atomic_service.settings import S3Settings

THREADS = 8
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
        def head() -> int | None:
            try:
                return int(self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"])
            except ClientError as error:
                if _code(error) in MISSING:
                    return None
                raise

        return await self._run(head)

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
            read_timeout=20,
            max_pool_connections=THREADS,
            retries={"mode": "standard", "max_attempts": 3},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
