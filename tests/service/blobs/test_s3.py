"""S3 as it is attacked: other keys, bent addresses, wrong bytes, sixteen writers at once, big objects."""

import asyncio
import hashlib
import secrets
import subprocess
import sys
from collections.abc import Iterator

import httpx
import msgspec
import pytest
from botocore.exceptions import ClientError

from atomic_service.blobs.port import object_key
from atomic_service.blobs.s3 import S3Blobs
from atomic_service.blobs.signing import Signed
from atomic_service.settings import S3Settings
from s3.server import HAS_RADOSGW, NO_RADOSGW

needs_signatures = pytest.mark.skipif(not HAS_RADOSGW, reason=NO_RADOSGW)
BIG = 64 * 1024 * 1024
MAX_GROWTH = 4 * 1024 * 1024
"""Some chunks of 256 KiB."""


@pytest.fixture
def store(s3_settings: S3Settings) -> Iterator[S3Blobs]:
    found = S3Blobs(s3_settings)
    yield found
    found.close()


def thing(size: int = 1000) -> tuple[str, bytes]:
    """A key of an account of its own and the object it names."""
    body = secrets.token_bytes(size)
    return object_key("blob", secrets.token_bytes(16), hashlib.sha256(body).digest()), body


async def send(method: str, signed: Signed, body: bytes | None = None, **headers: str) -> httpx.Response:
    """One request by a signed address; `headers` replace those that go along."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.request(method, signed.url, content=body, headers={**signed.headers, **headers})


@needs_signatures
async def test_wrong_secret_opens_nothing(s3_settings: S3Settings, store: S3Blobs) -> None:
    """With another secret the service can neither read, write nor check, and neither can its addresses."""
    key, body = thing()
    await store.put(key, body)
    thief = S3Blobs(msgspec.structs.replace(s3_settings, secret_key="another"))
    for call in (thief.check(), thief.stat(key), thief.get(key), thief.put(*thing()), thief.delete([key])):
        with pytest.raises(ClientError, match=r"403|SignatureDoesNotMatch"):
            await call
    assert (await send("GET", await thief.presign_get(key, 60))).status_code == 403
    assert (await send("PUT", await thief.presign_put(key, len(body), 60), body)).status_code == 403
    thief.close()
    assert await store.get(key) == body


@needs_signatures
async def test_bent_address_opens_nothing(store: S3Blobs) -> None:
    """Another key, method, lifetime or signature, or none, is refused; the address itself works."""
    (key, body), (other, other_body) = thing(), thing()
    await store.put(key, body)
    await store.put(other, other_body)
    signed = await store.presign_get(key, 60)
    bent = (
        signed.url.replace(key, other),
        signed.url.replace("X-Amz-Expires=60", "X-Amz-Expires=600"),
        signed.url.replace("X-Amz-Signature=", "X-Amz-Signature=0"),
        signed.url.replace("X-Amz-Date=2", "X-Amz-Date=3"),
        signed.url.partition("?")[0],
    )
    for url in bent:
        reply = await send("GET", Signed(url, {}))
        assert reply.status_code in {400, 403}
        assert body not in reply.content
    for method in ("PUT", "DELETE"):
        assert (await send(method, signed, b"")).status_code == 403
    assert (await send("GET", signed)).content == body


@needs_signatures
async def test_address_ends_with_its_time(store: S3Blobs) -> None:
    """A second after its end an address neither reads nor writes."""
    key, body = thing()
    put, get = await store.presign_put(key, len(body), 1), await store.presign_get(key, 1)
    async with asyncio.timeout(20):
        while (await send("GET", get)).status_code != 403:
            pass
    assert (await send("PUT", put, body)).status_code == 403
    assert await store.stat(key) is None


@needs_signatures
async def test_upload_cannot_change_what_was_signed(store: S3Blobs) -> None:
    """Size, checksum and the first write are part of the signature: changed or left out, nothing is stored."""
    key, body = thing()
    signed = await store.presign_put(key, len(body), 60)
    for wrong in (body + b"x", body[:-1], b""):
        assert (await send("PUT", signed, wrong)).status_code == 403
    for name in signed.headers:
        left_out = {header: value for header, value in signed.headers.items() if header != name}
        assert (await send("PUT", Signed(signed.url, left_out), body)).status_code == 403
        assert (await send("PUT", signed, body, **{name: "other"})).status_code == 403
    assert await store.stat(key) is None
    assert (await send("PUT", signed, body)).status_code == 200


async def test_sixteen_writers_have_one_winner_and_the_object_is_whole(store: S3Blobs) -> None:
    """Of sixteen uploads of one object at once one is taken, the others are told that it is there."""
    for _ in range(3):
        key, body = thing(200_000)
        signed = [await store.presign_put(key, len(body), 60) for _ in range(16)]
        replies = await asyncio.gather(*(send("PUT", one, body) for one in signed))
        assert sorted(reply.status_code for reply in replies) == [200] + [412] * 15
        assert await store.get(key) == body


@needs_signatures
async def test_wrong_bytes_under_a_name_are_found_and_removed(store: S3Blobs) -> None:
    """A store that keeps no checksums takes other bytes of the same size; nobody is told that they are the object,
    and the right ones can come in afterwards."""
    key, body = thing()
    signed = await store.presign_put(key, len(body), 60)
    assert (await send("PUT", signed, body[::-1])).status_code == 200
    assert not await store.holds(key, len(body))
    assert (await send("PUT", signed, body)).status_code == 200
    assert await store.holds(key, len(body))
    assert await store.get(key) == body


STREAM = """
import asyncio, sys, tracemalloc, msgspec
from atomic_service.blobs.s3 import S3Blobs
from atomic_service.settings import S3Settings

async def main():
    store = S3Blobs(msgspec.json.decode(sys.argv[1], type=S3Settings))
    await store.check()
    async for _ in store.stream(sys.argv[3]): pass
    tracemalloc.start()
    size = 0
    async for chunk in store.stream(sys.argv[2]): size += len(chunk)
    held = await store.holds(sys.argv[2], size)
    store.close()
    print(size, held, tracemalloc.get_traced_memory()[1])

asyncio.run(main())
"""


async def test_big_object_is_never_held_whole(s3_settings: S3Settings, store: S3Blobs) -> None:
    """64 MiB pass through a process, and are hashed in it, without its memory growing by more than some chunks."""
    (big, body), (small, small_body) = thing(BIG), thing(1_000_000)
    await store.put(small, small_body)
    signed = await store.presign_put(big, BIG, 60)
    assert (await send("PUT", signed, body)).status_code == 200
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", STREAM, msgspec.json.encode(s3_settings).decode(), big, small],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    await store.delete([big])
    size, held, growth = done.stdout.split()
    assert (int(size), held) == (BIG, "True")
    assert int(growth) < MAX_GROWTH
