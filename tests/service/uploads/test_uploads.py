"""Uploads: objects by their hash, only one's own, gone with their session."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from atomic_service.settings import S3Settings
from atomic_sessions import wire
from atomic_sessions.envelope import Kind
from s3.server import HAS_RADOSGW
from service.devices import Device, Refusal, visit
from service.running import RunningService

SESSION = b"s" * 16


def fetch(device: Device, object_id: bytes) -> bytes:
    transfer = device.get(f"/v1/uploads/{object_id.hex()}", wire.Transfer)
    assert (transfer.method, transfer.exists) == ("GET", True)
    return visit(transfer.url, headers=transfer.headers).raise_for_status().content


def files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]


def test_object_comes_back_byte_for_byte(storing_service: RunningService) -> None:
    """What one device puts, another device of the account gets."""
    device = storing_service.device()
    body = bytes(range(256)) * 4000
    object_id = device.upload(body, "blob", SESSION)
    assert fetch(device.new_mate(), object_id) == body


def test_upload_is_announced_any_number_of_times(storing_service: RunningService) -> None:
    """A retry counts no space twice, and after the bytes arrived there is nothing to send."""
    device = storing_service.device()
    request = wire.UploadRequest(hashlib.sha256(b"body").digest(), 4, "blob", SESSION)
    assert not device.post("/v1/uploads", request, wire.Transfer).exists
    assert not device.post("/v1/uploads", request, wire.Transfer).exists
    device.upload(b"body", "blob", SESSION)
    assert device.post("/v1/uploads", request, wire.Transfer).exists
    with pytest.raises(Refusal, match="400 bad_request"):
        device.post("/v1/uploads", wire.UploadRequest(request.id, 5, "blob", SESSION), wire.Transfer)


def test_announced_object_that_never_arrived_is_not_found(storing_service: RunningService) -> None:
    """An address to read is given only for bytes that are there."""
    device = storing_service.device()
    request = wire.UploadRequest(hashlib.sha256(b"body").digest(), 4, "blob", SESSION)
    device.post("/v1/uploads", request, wire.Transfer)
    with pytest.raises(Refusal, match="404 not_found"):
        fetch(device, request.id)


@pytest.mark.parametrize("body", [b"bode", b"bod", b"body and more"])
def test_other_bytes_than_announced_are_refused(
    own_service: RunningService, tmp_path: Path, body: bytes
) -> None:
    """Size and SHA-256 are checked, and nothing of a wrong upload stays."""
    device = own_service.device()
    request = wire.UploadRequest(hashlib.sha256(b"body").digest(), 4, "blob", SESSION)
    transfer = device.post("/v1/uploads", request, wire.Transfer)
    assert visit(transfer.url, "PUT", content=body).status_code == 422
    assert files(tmp_path) == []


def test_objects_are_their_accounts(storing_service: RunningService) -> None:
    """Knowing an object's id gives another account nothing."""
    device, other = storing_service.device(), storing_service.device()
    object_id = device.upload(b"body", "blob", SESSION)
    with pytest.raises(Refusal, match="404"):
        fetch(other, object_id)


def test_addresses_are_signed_and_expire(own_service: RunningService) -> None:
    """Another method, key, size, time or signature makes an address worthless, and so does an hour."""
    device = own_service.device()
    device.upload(b"body", "blob", SESSION)
    url = device.get(f"/v1/uploads/{hashlib.sha256(b'body').hexdigest()}", wire.Transfer).url
    assert visit(url, "PUT", content=b"body").status_code == 403
    for old, new in (("size=0", "size=4"), ("until=1", "until=9"), ("/up/", "/share/"), ("sig=", "sig=0")):
        assert visit(url.replace(old, new, 1)).status_code in {400, 403}
    assert visit(url).status_code == 200
    own_service.clock.forward(seconds=wire.OBJECT_URL_SECONDS + 1)
    assert visit(url).status_code == 403


@pytest.mark.parametrize(
    "key", ["../../server-secret", "up/../../x", "%2e%2e/x", "up/00/" + "0" * 32 + "/short"]
)
def test_keys_are_never_paths(service: RunningService, key: str) -> None:
    """No form of a path in the address reaches a file."""
    reply = visit(f"{service.url}/v1/blobs/{key}?size=0&until=99999999999999&sig=00")
    assert reply.status_code in {403, 404}


def test_objects_die_with_their_session(own_storing_service: RunningService) -> None:
    """A tombstone takes the session's objects and their bytes along, and no new ones come in."""
    device = own_storing_service.device()
    writer, other = device.writer(), device.writer()
    device.push(writer.seal(), other.seal())
    gone, kept = device.upload(b"gone", "blob", writer.session), device.upload(b"kept", "blob", other.session)
    device.push(writer.seal(Kind.TOMBSTONE))
    with pytest.raises(Refusal, match="404"):
        fetch(device, gone)
    assert fetch(device, kept) == b"kept"
    assert own_storing_service.stored(device.account) == [kept.hex()]
    with pytest.raises(Refusal, match="410 session_dead"):
        device.upload(b"late", "blob", writer.session)


def test_what_no_object_can_be(service: RunningService) -> None:
    """Sizes, ids and sessions are checked before anything is stored."""
    device = service.device()
    for request, code in (
        (wire.UploadRequest(b"short", 4, "blob", SESSION), "400"),
        (wire.UploadRequest(b"i" * 32, 0, "blob", SESSION), "400"),
        (wire.UploadRequest(b"i" * 32, 4, "blob", b""), "400"),
        (wire.UploadRequest(b"i" * 32, 4, "share", SESSION), "400"),
        (wire.UploadRequest(b"i" * 32, wire.MAX_OBJECT_BYTES + 1, "blob", SESSION), "413"),
    ):
        with pytest.raises(Refusal, match=code):
            device.post("/v1/uploads", request, wire.Transfer)


def test_objects_live_in_s3_the_same_way(
    start_service: Callable[..., RunningService], s3_settings: S3Settings
) -> None:
    """With an S3 server the clients move bytes there, under keys the service chose, and deletion reaches them."""
    service = start_service(s3=s3_settings)
    device = service.device()
    writer = device.writer()
    device.push(writer.seal())
    object_id = device.upload(b"body", "blob", writer.session)
    transfer = device.get(f"/v1/uploads/{object_id.hex()}", wire.Transfer)
    assert transfer.url.startswith(f"{s3_settings.endpoint}/{s3_settings.bucket}/up/")
    assert fetch(device.new_mate(), object_id) == b"body"
    assert device.http.get("/readyz").status_code == 200
    assert device.http.get("/v1/blobs/up/x").status_code == 404
    device.push(writer.seal(Kind.TOMBSTONE))
    assert visit(transfer.url, headers=transfer.headers).status_code == 404


def test_upload_of_wrong_bytes_is_not_the_object(storing_service: RunningService) -> None:
    """Whatever a client puts under a hash, the next one that announces the object is asked for it, and mends it."""
    if storing_service.settings.s3 is not None and not HAS_RADOSGW:
        pytest.skip("moto believes the checksum that a client claims")
    device = storing_service.device()
    request = wire.UploadRequest(hashlib.sha256(b"body").digest(), 4, "blob", SESSION)
    transfer = device.post("/v1/uploads", request, wire.Transfer)
    visit(transfer.url, "PUT", content=b"bode", headers=transfer.headers)
    assert not device.post("/v1/uploads", request, wire.Transfer).exists
    device.upload(b"body", "blob", SESSION)
    assert device.post("/v1/uploads", request, wire.Transfer).exists
    assert fetch(device, request.id) == b"body"
