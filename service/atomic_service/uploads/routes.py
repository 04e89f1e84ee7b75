"""`/v1/uploads`: where a client puts and gets objects that are too large for the log. Moves no bytes itself."""

from litestar import Router
from litestar.di import Provide
from litestar.params import FromPath

from atomic_service.accounts.callers import Asking, caller_of, require_device
from atomic_service.blobs.port import object_key
from atomic_service.bodies import Packed, hexed, packed_get, packed_post, sized
from atomic_service.problems import Refused
from atomic_service.replica import Here
from atomic_service.uploads.store import announce_object, find_object
from atomic_sessions import wire


def check_request(request: wire.UploadRequest) -> None:
    """An object is named by a SHA-256, has a size, and a session exactly when it is a blob of one."""
    sized(request.id, 32, "object id")
    sized(request.session, 16 if request.purpose == "blob" else 0, "session")
    if request.size < 1:
        raise Refused(wire.ErrorCode.BAD_REQUEST, "An object has at least one byte.")
    if request.size > wire.MAX_OBJECT_BYTES:
        raise Refused(wire.ErrorCode.TOO_LARGE, f"An object has at most {wire.MAX_OBJECT_BYTES} bytes.")


@packed_post("/v1/uploads")
async def post_upload(data: Packed[wire.UploadRequest], caller: Asking, replica: Here) -> wire.Transfer:
    """Where to PUT an object, or word that it is there already."""
    check_request(data)
    async with replica.db.transaction() as connection:
        await announce_object(connection, caller.account, data, replica.clock())
    key = object_key(data.purpose, caller.account, data.id)
    if await replica.blobs.holds(key, data.size):
        return wire.Transfer("", "PUT", {}, exists=True)
    signed = await replica.blobs.presign_put(key, data.size, wire.OBJECT_URL_SECONDS)
    return wire.Transfer(signed.url, "PUT", signed.headers)


@packed_get("/v1/uploads/{object_id:str}")
async def get_upload(object_id: FromPath[str], caller: Asking, replica: Here) -> wire.Transfer:
    """Where to GET an object of one's own account."""
    key_id = hexed(object_id, 32, "object id")
    async with replica.db.connection() as connection:
        found = await find_object(connection, caller.account, "blob", key_id)
        found = found or await find_object(connection, caller.account, "share", key_id)
    if found is None:
        raise Refused(wire.ErrorCode.NOT_FOUND)
    key = object_key(found.purpose, caller.account, key_id)
    if await replica.blobs.stat(key) is None:
        raise Refused(wire.ErrorCode.NOT_FOUND, "The object was announced and has not arrived.")
    signed = await replica.blobs.presign_get(key, wire.OBJECT_URL_SECONDS)
    return wire.Transfer(signed.url, "GET", signed.headers, exists=True)


upload_routes = Router(
    "/",
    route_handlers=[post_upload, get_upload],
    guards=[require_device],
    dependencies={"caller": Provide(caller_of)},
    tags=["sync"],
)
