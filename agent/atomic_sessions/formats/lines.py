"""Bytes of a line-based session file to lines and JSON, as native-agents.md section 0 asks. Pure.

Lines end at \\n only; a \\r stays part of its line. A line that is no JSON is damage and is kept; when
a whole object stands at its end (two records glued by a kill), that object is what the line says.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.unreadable import UNREADABLE

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_LINE = 256 * 1024 * 1024
MAX_SALVAGE_TRIES = 64
MAX_SALVAGE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 200
_NOTHING = (b"", b"null")
"""What stands for a member that is not there; common, so it must cost nothing."""


class Line(Struct, frozen=True, gc=False):
    """One physical line without its \\n. `end` is the offset just after it in the file; a line that
    is not `whole` had no \\n yet."""

    raw: bytes
    end: int
    whole: bool = True


def split(chunks: Iterable[bytes], start: int = 0) -> Iterator[Line]:
    """Lines of a file given in chunks; `start` is the offset of the first byte. BadSessionFileError for a
    line of more than MAX_LINE bytes, which no agent writes."""
    rest: list[bytes] = []
    held = 0
    at = start
    for chunk in chunks:
        lines = chunk.split(b"\n")
        held += len(lines[0])
        if held > MAX_LINE:
            raise BadSessionFileError(f"It holds a line of more than {MAX_LINE >> 20} MiB.")
        if len(lines) == 1:
            rest.append(chunk)
            continue
        held = len(lines[-1])
        rest.append(lines[0])
        lines[0] = b"".join(rest)
        rest = [lines.pop()] if lines[-1] else []
        if not rest:
            lines.pop()
        for raw in lines:
            at += len(raw) + 1
            yield Line(raw, at)
    if tail := b"".join(rest):
        yield Line(tail, at + len(tail), whole=False)


class Reader(Protocol[T_co]):
    """A msgspec JSON decoder of one type."""

    @property
    def type(self) -> Any: ...  # msgspec's own

    def decode(self, buf: bytes, /) -> T_co: ...


def decode(raw: bytes, decoder: Reader[T_co]) -> tuple[T_co | None, bool]:
    """What a line says and whether it was damaged; (None, True) when nothing can be read from it.

    Lone surrogates, which msgspec refuses and JSON allows, are read as U+FFFD.
    """
    try:
        return decoder.decode(raw), False
    except UNREADABLE:
        if raw in _NOTHING:
            return None, True
    if (loose := _tolerant(raw)) is not None:
        return _converted(loose, decoder.type), False
    suffix = salvage(raw)
    return (None if suffix is None else _converted(_tolerant(suffix), decoder.type)), True


def _converted(loose: Any, kind: type[T]) -> T | None:  # JSON of any shape
    """The value as `kind`; a struct's members of a wrong type are left at their defaults."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return cast(T, loose if isinstance(loose, str) else _raws(loose))
    if not isinstance(loose, dict):
        return None
    fitting: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in loose:
            value = loose[field.encode_name]
            try:
                fitting[field.name] = (
                    Raw(_dump(value)) if field.type is Raw else msgspec.convert(value, field.type)
                )
            except UNREADABLE:
                continue
    return kind(**fitting)


def _raws(value: Any) -> list[Raw] | None:  # JSON of any shape
    return [Raw(_dump(item)) for item in value] if isinstance(value, list) else None


def _dump(value: Any) -> bytes:  # JSON of any shape
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _tolerant(raw: bytes) -> Any:  # JSON of any shape
    """The value of a line by the standard library's rules, None when it is not JSON."""
    try:
        found = json.loads(raw.decode("utf-8", "strict"))
    except (ValueError, RecursionError):
        return None
    return replace_surrogates(found)


def replace_surrogates(value: Any) -> Any:  # JSON values of any shape
    """The same JSON value with lone surrogates as U+FFFD, safe to encode. At most MAX_DEPTH deep."""
    return _clean(value, MAX_DEPTH)


def _clean(value: Any, depth: int) -> Any:  # JSON values of any shape
    if depth == 0:
        return None
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {plain(key): _clean(item, depth - 1) for key, item in value.items()}
    return value


def plain(text: str) -> str:
    """Text without lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def salvage(raw: bytes) -> bytes | None:
    """The whole object at the end of a damaged line: NUL runs of a power cut are skipped, and of two
    glued records the one that reaches the line's end is taken. None when there is none."""
    if len(raw) > MAX_SALVAGE_BYTES:
        return None
    if b"\x00" in raw:
        stripped = raw.rsplit(b"\x00", 1)[1]
        if isinstance(_tolerant(stripped), dict):
            return stripped
    at = raw.find(b'{"', 1)
    for _ in range(MAX_SALVAGE_TRIES):
        if at < 0:
            return None
        if isinstance(_tolerant(raw[at:]), dict):
            return raw[at:]
        at = raw.find(b'{"', at + 1)
    return None
