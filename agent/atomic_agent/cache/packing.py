"""Raw lines as they lie in the cache: compressed one by one, so that one can be read without the others."""

import threading
from collections.abc import Sequence

import zstandard

from atomic_sessions.errors import CacheDamagedError

SMALL = 160
"""Lines of up to this many bytes do not get smaller by compression."""
MANY = 1 << 20
"""From this many bytes on, work on several cores is worth its beginning."""

Packed = tuple[int, bytes]
"""(codec, bytes): 0 as it is, 1 zstd."""


class _Codecs(threading.local):
    """One of each a thread: two threads in one of them damage what comes out, or the process."""

    def __init__(self) -> None:
        self.small = zstandard.ZstdCompressor(level=3)
        self.plain = zstandard.ZstdDecompressor()


_CODECS = _Codecs()


def squeezed(content: bytes) -> bytes:
    """The content, compressed."""
    return _CODECS.small.compress(content)


def unsqueezed(content: bytes) -> bytes:
    """What `squeezed` was given; CacheDamagedError for bytes that it did not make."""
    try:
        return _CODECS.plain.decompress(content)
    except zstandard.ZstdError as error:
        raise CacheDamagedError("The cache holds a damaged entry.") from error


def pack(raw: bytes) -> Packed:
    """A raw line as it is kept."""
    return (0, raw) if len(raw) <= SMALL else _smaller(raw, squeezed(raw))


def pack_all(raws: Sequence[bytes]) -> list[Packed]:
    """`pack` of many lines, on all cores where that is worth it; the same bytes."""
    large: list[bytes | bytearray | memoryview] = [raw for raw in raws if len(raw) > SMALL]
    if sum(map(len, large)) < MANY or not hasattr(_CODECS.small, "multi_compress_to_buffer"):
        return [pack(raw) for raw in raws]
    many = iter(_CODECS.small.multi_compress_to_buffer(large, threads=-1))
    return [(0, raw) if len(raw) <= SMALL else _smaller(raw, next(many).tobytes()) for raw in raws]


def _smaller(raw: bytes, small: bytes) -> Packed:
    return (1, small) if len(small) < len(raw) else (0, raw)


def unpack(codec: int, stored: bytes) -> bytes:
    """The raw line again."""
    return bytes(stored) if codec == 0 else unsqueezed(stored)
