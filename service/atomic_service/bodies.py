"""msgpack in and out of routes, and checks of what came in. Knows no route.

Handlers take `Packed[SomeRequest]` and return a struct; the schema then shows both. Litestar's own
msgpack support answers under a media type of its own, which is why the two classes below exist.
"""

from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import BodyKwarg

from atomic_service.problems import Refused
from atomic_sessions.wire import CONTENT_TYPE, ErrorCode

T = TypeVar("T")
Packed: TypeAlias = Annotated[T, BodyKwarg(media_type=CONTENT_TYPE)]


class PackedRequest(Request[Any, Any, Any]):
    """Litestar reads a body of an unknown media type with `json`; ours are msgpack."""

    async def json(self) -> Any:  # builtins, which Litestar then converts to the handler's struct
        try:
            return msgspec.msgpack.decode(await self.body())
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Refused(
                ErrorCode.BAD_REQUEST, "The body is not msgpack of what this route takes."
            ) from error


class PackedResponse(Response[Any]):
    """A struct as msgpack."""

    def render(self, content: Any, media_type: str, enc_hook: Any = None) -> bytes:  # Litestar's signature
        return b"" if content is None else msgspec.msgpack.encode(content)


packed_get = partial(get, media_type=CONTENT_TYPE, response_class=PackedResponse)
packed_post = partial(post, media_type=CONTENT_TYPE, response_class=PackedResponse, status_code=200)
empty_post = partial(post, status_code=204)
empty_delete = partial(delete, status_code=204)


def sized(value: bytes, size: int, what: str) -> bytes:
    """The value, if it has the size that an id or key of its kind has."""
    if len(value) != size:
        raise Refused(ErrorCode.BAD_REQUEST, f"The {what} is not {size} bytes long.")
    return value


def hexed(text: str, size: int, what: str) -> bytes:
    """Bytes of a fixed size from the hex of a path or query."""
    try:
        value = bytes.fromhex(text)
    except ValueError as error:
        raise Refused(ErrorCode.BAD_REQUEST, f"The {what} is not hex.") from error
    return sized(value, size, what)


def at_most(value: bytes, size: int, what: str) -> bytes:
    """The value, if it is no longer than its kind may be."""
    if len(value) > size:
        raise Refused(ErrorCode.TOO_LARGE, f"The {what} is longer than {size} bytes.")
    return value
