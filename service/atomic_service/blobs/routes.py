"""`/v1/blobs/…`: moves objects of a store without addresses of its own. The signed address is the only right.

Mounted only with such a store; with S3 the clients talk to S3.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from litestar import Request, Response, Router, get, put
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from atomic_service.blobs.port import KEY, LocalBlobs, WrongBytes
from atomic_service.blobs.signing import Method
from atomic_service.clock import Clock
from atomic_service.problems import Refused
from atomic_sessions.wire import ErrorCode

Sig = Annotated[str, QueryParameter(max_length=64)]


def blob_routes(blobs: LocalBlobs, clock: Clock) -> Router:
    """The two routes over one store."""

    def checked(method: Method, key: str, size: int, until: int, sig: str) -> str:
        key = key.removeprefix("/")
        if not KEY.fullmatch(key) or not blobs.signer.holds(method, key, size, until, sig, clock()):
            raise Refused(ErrorCode.FORBIDDEN, "The address is not signed or has expired.")
        return key

    @put("/{key:path}", status_code=204, request_max_body_size=None, name="put_blob")
    async def put_blob(
        request: Request[Any, Any, Any],
        key: FromPath[str],
        size: FromQuery[int],
        until: FromQuery[int],
        sig: Sig,
    ) -> None:
        """Store an object; its bytes must have the signed size and the SHA-256 of its name."""
        try:
            await blobs.receive(checked("PUT", key, size, until, sig), size, request.stream())
        except WrongBytes as error:
            raise Refused(
                ErrorCode.BAD_HASH, "The bytes are not the object they were announced as."
            ) from error

    @get("/{key:path}", media_type="application/octet-stream", name="get_blob")
    async def get_blob(
        key: FromPath[str], size: FromQuery[int], until: FromQuery[int], sig: Sig
    ) -> Response[Any]:
        """The object's bytes."""
        key = checked("GET", key, size, until, sig)
        length = await blobs.stat(key)
        if length is None:
            raise Refused(ErrorCode.NOT_FOUND)
        return object_reply(blobs.stream(key), length)

    return Router("/v1/blobs", route_handlers=[put_blob, get_blob], tags=["blobs"])


def object_reply(chunks: AsyncIterator[bytes], length: int) -> Stream:
    """An object on its way out, never held whole."""
    return Stream(chunks, media_type="application/octet-stream", headers={"content-length": str(length)})
