"""Bytes to lines, and what can be saved from damaged ones."""

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.json import Decoder

from atomic_sessions.formats.lines import decode, salvage, split


class Probe(Struct):
    """A line with two members."""

    type: str = ""
    n: int = 0


PROBE = Decoder(Probe)


@given(st.binary(), st.lists(st.integers(1, 7)))
def test_lines_joined_are_the_file(content: bytes, sizes: list[int]) -> None:
    """However the file is read in chunks, its bytes come back."""
    chunks, at = [], 0
    for size in sizes:
        chunks.append(content[at : at + size])
        at += size
    chunks.append(content[at:])
    lines = list(split(c for c in chunks if c))
    assert b"".join(line.raw + (b"\n" if line.whole else b"") for line in lines) == content
    assert not lines or lines[-1].end == len(content)


def test_only_newlines_end_a_line() -> None:
    """U+2028, NEL, form feed and carriage returns are part of their line."""
    text = "a\u2028b\x85c\x0cd\r\ne\n".encode()
    assert [line.raw for line in split([text])] == ["a\u2028b\x85c\x0cd\r".encode(), b"e"]


def test_the_record_behind_a_stub_is_read() -> None:
    """Two records glued by a kill: the whole one at the end counts, and the line is marked damaged."""
    found, damaged = decode(b'{"type":"user","te{"type":"whole","n":7}', PROBE)
    assert found == Probe("whole", 7)
    assert damaged


def test_runs_of_nul_are_skipped() -> None:
    """A power cut leaves NULs before a record."""
    found, damaged = decode(b'\x00\x00\x00{"type":"after","n":1}', PROBE)
    assert found == Probe("after", 1)
    assert damaged


def test_lone_surrogates_are_read_and_replaced() -> None:
    """JSON may hold them; text made of them must be storable."""
    found, damaged = decode(b'{"type":"a\\ud83d","n":2}', PROBE)
    assert found == Probe("a\ufffd", 2)
    assert not damaged


def test_a_member_of_a_wrong_type_costs_only_itself() -> None:
    """Hostile or future lines keep what can be read."""
    found, _ = decode(b'{"type":"x","n":"seven"}', PROBE)
    assert found == Probe("x", 0)


@given(st.binary(max_size=200))
def test_salvage_never_raises(content: bytes) -> None:
    """Any bytes give an object's bytes or nothing."""
    found = salvage(content)
    assert found is None or isinstance(json.loads(found), dict)


def test_deep_nesting_is_damage_not_a_crash() -> None:
    """A million brackets neither crash nor hang."""
    assert decode(b'{"type":' + b"[" * 1_000_000, PROBE) == (None, True)
