"""Damage for bytes and JSON, from a seed: far cheaper a case than a shrinking generator.

A failing case names its test's seed and number; `cases` with that seed and number gives the same bytes.
"""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

WEIRD: tuple[bytes, ...] = (
    b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b"1e999", b"-0.0", b"99999999999999999999", b"NaN",
    b'"\\ud800"', b'"\\u0000"', b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xff\xfe", b"\r", b"\n", b'"', b"\\",
    b"[" * 3000, b'{"a":' * 1200, b'{"type":"user"}', b"\xc0\x80", b"\xed\xa0\x80", b"\x1b[2J",
    b"\x91" * 3000, b"\x81\xa1a" * 1200, b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\xa2\xff\xfe",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 70, 1.5, "", "x" * 5000, "\ud800", "\x00", [], {}, [[]], [None], {"type": "text"},
    [{"type": "text", "text": 5}], "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", ["a", 1, None], "\u2028",
)  # fmt: skip


def cases(corpus: Sequence[bytes], count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """(name, damaged bytes), `count` of them."""
    for number in range(count):
        draw = random.Random(seed * 1_000_003 + number)
        raw = draw.choice(corpus)
        if draw.random() < 0.5:
            raw = reshaped(raw, draw)
        for _ in range(draw.choice((0, 1, 1, 2, 5))):
            raw = damaged(raw, draw, corpus)
        yield f"seed {seed}, case {number}", raw


def damaged(raw: bytes, draw: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One change to some bytes."""
    at, end = sorted((draw.randint(0, len(raw)), draw.randint(0, len(raw))))
    match draw.randrange(8):
        case 0 if raw:
            at = draw.randrange(len(raw))
            return raw[:at] + bytes([raw[at] ^ 1 << draw.randrange(8)]) + raw[at + 1 :]
        case 1:
            return raw[:at] + raw[end:]
        case 2:
            return raw[:end] + raw[at:]
        case 3:
            return raw[:at] + draw.choice(WEIRD) + raw[at:]
        case 4:
            return raw[:at] + draw.choice(WEIRD) + raw[end:]
        case 5:
            return raw[:at] + draw.choice(corpus)[at:]
        case 6:
            return raw[:at] + draw.randbytes(draw.randrange(1, 9)) + raw[end:]
    return raw[:end]


def reshaped(raw: bytes, draw: random.Random) -> bytes:
    """A JSON line with one value, somewhere in it, that has another type; other bytes as they are."""
    try:
        found = json.loads(raw)
    except ValueError:
        return raw
    places: list[tuple[Any, Any]] = []
    _walk(found, places)
    if places:
        holder, key = draw.choice(places)
        if draw.random() < 0.15:
            del holder[key]
        elif draw.random() < 0.3:
            other, name = draw.choice(places)
            holder[key] = json.loads(json.dumps(other[name])) if name in _keys(other) else None
        else:
            holder[key] = draw.choice(VALUES)
    return json.dumps(found).encode()


def _keys(holder: Any) -> Any:  # JSON
    return holder if isinstance(holder, dict) else range(len(holder))


def _walk(value: Any, places: list[tuple[Any, Any]]) -> None:  # JSON
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        places.append((value, key))
        _walk(inner, places)
