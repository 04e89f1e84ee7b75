"""One contract for every blob store: S3 over HTTP, a folder, and the double in memory."""

import base64
import contextlib
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from litestar import Litestar

from atomic_service.blobs.folder import FolderBlobs
from atomic_service.blobs.memory import MemoryBlobs
from atomic_service.blobs.port import KEY, Blobs, LocalBlobs, NoObject, WrongBytes, object_key
from atomic_service.blobs.routes import blob_routes
from atomic_service.blobs.s3 import S3Blobs
from atomic_service.blobs.signing import UrlSigner
from atomic_service.clock import now_ms
from atomic_service.edge import answer_error
from atomic_service.server import listen
from atomic_service.settings import S3Settings
from service.running import wait_for

ACCOUNT = b"a" * 16


@contextlib.contextmanager
def served(make: Callable[[UrlSigner], LocalBlobs]) -> Iterator[Blobs]:
    """A store whose addresses this process answers."""
    import threading

    listener = listen("127.0.0.1", 0)
    blobs = make(UrlSigner(secrets.token_bytes(32), f"http://127.0.0.1:{listener.getsockname()[1]}"))
    app = Litestar(
        [blob_routes(blobs, now_ms)], exception_handlers={Exception: answer_error}, openapi_config=None
    )
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield blobs
    server.should_exit = True
    thread.join(20)
    listener.close()


@pytest.fixture(params=["s3", "folder", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blobs]:
    """Each store in turn."""
    if request.param == "s3":
        store = S3Blobs(request.getfixturevalue("s3_settings"))
        yield store
        store.close()
    elif request.param == "folder":
        with served(lambda signer: FolderBlobs(tmp_path / "blobs", signer, now_ms)) as local:
            yield local
    else:
        with served(lambda signer: MemoryBlobs(signer, now_ms)) as local:
            yield local


def thing(size: int = 1000) -> tuple[str, bytes]:
    """A key and the object it names."""
    body = secrets.token_bytes(size)
    return object_key("blob", ACCOUNT, hashlib.sha256(body).digest()), body


async def test_put_object_is_there_whole(blobs: Blobs) -> None:
    """get, stream and stat agree on what was put; twice is once."""
    key, body = thing(600_000)
    await blobs.put(key, body)
    await blobs.put(key, body)
    assert await blobs.get(key) == body
    assert b"".join([chunk async for chunk in blobs.stream(key)]) == body
    assert await blobs.stat(key) == len(body)


async def test_missing_object_is_named_as_such(blobs: Blobs) -> None:
    """stat says None, get and stream raise NoObject, delete does not mind."""
    key, _ = thing()
    assert await blobs.stat(key) is None
    with pytest.raises(NoObject):
        await blobs.get(key)
    with pytest.raises(NoObject):
        _ = [chunk async for chunk in blobs.stream(key)]
    await blobs.delete([key])


async def test_deleted_object_is_gone(blobs: Blobs) -> None:
    """delete takes many keys and leaves the others."""
    (one, body_one), (two, body_two), (three, body_three) = thing(), thing(), thing()
    for key, body in ((one, body_one), (two, body_two), (three, body_three)):
        await blobs.put(key, body)
    await blobs.delete([one, two])
    assert await blobs.stat(one) is None
    assert await blobs.stat(two) is None
    assert await blobs.get(three) == body_three


async def test_object_is_held_only_with_its_own_size_and_bytes(blobs: Blobs) -> None:
    """holds is what a client is told by: not there, there, and never for another size."""
    key, body = thing()
    assert not await blobs.holds(key, len(body))
    await blobs.put(key, body)
    assert await blobs.holds(key, len(body))
    assert not await blobs.holds(key, len(body) + 1)
    assert await blobs.get(key) == body


async def test_signed_addresses_move_the_object(blobs: Blobs) -> None:
    """A client without any other right puts and gets by the addresses alone; a second put is harmless."""
    key, body = thing(300_000)
    put = await blobs.presign_put(key, len(body), 60)
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        assert (await client.put(put.url, content=body, headers=put.headers)).status_code in {200, 204}
        assert (await client.put(put.url, content=body, headers=put.headers)).status_code in {200, 204, 412}
        get = await blobs.presign_get(key, 60)
        assert (await client.get(get.url, headers=get.headers)).content == body
    assert await blobs.get(key) == body


async def test_store_can_be_reached(blobs: Blobs) -> None:
    """check passes when the store is there."""
    await blobs.check()


async def test_local_stores_refuse_bytes_that_are_not_the_objects(tmp_path: Path) -> None:
    """Wrong bytes leave nothing; the object that was there stays."""
    signer = UrlSigner(b"k" * 32, "http://here")
    key, body = thing()

    async def chunks(content: bytes) -> AsyncIterator[bytes]:
        yield content

    for store in (FolderBlobs(tmp_path, signer, now_ms), MemoryBlobs(signer, now_ms)):
        with pytest.raises(WrongBytes):
            await store.receive(key, len(body), chunks(body[::-1]))
        with pytest.raises(WrongBytes):
            await store.receive(key, len(body) + 1, chunks(body))
        assert await store.stat(key) is None
        await store.put(key, body)
        with pytest.raises(WrongBytes):
            await store.receive(key, len(body), chunks(bytes(len(body))))
        assert await store.get(key) == body
    assert _names(tmp_path) == [key.rsplit("/", 1)[1]]


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


async def test_s3_addresses_bind_size_hash_and_first_write(s3_settings: S3Settings) -> None:
    """The signature covers length, checksum and If-None-Match, so a client cannot leave them out."""
    key, body = thing()
    store = S3Blobs(s3_settings)
    signed = await store.presign_put(key, len(body), 60)
    store.close()
    headers = "content-length%3Bhost%3Bif-none-match%3Bx-amz-checksum-sha256"
    assert f"X-Amz-SignedHeaders={headers}" in signed.url
    assert signed.headers == {
        "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(body).digest()).decode(),
        "if-none-match": "*",
    }


def test_keys_have_one_form() -> None:
    """A key names purpose, account and hash, spread by a hash of the account."""
    key = object_key("share", ACCOUNT, b"i" * 32)
    assert KEY.fullmatch(key)
    assert key.startswith("share/")
    assert key.split("/")[2:] == [ACCOUNT.hex(), (b"i" * 32).hex()]
