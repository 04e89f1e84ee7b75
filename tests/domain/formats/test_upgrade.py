"""Older formats to format 4: deterministic, idempotent, nothing lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.errors import BadSessionFileError, FutureFormatError
from atomic_sessions.formats.pi import view
from atomic_sessions.formats.upgrade import read_header, upgrade
from strategies import json_values

WORKED = [
    '{"type":"session","id":"s","timestamp":"2025-12-03T14:00:00.000Z","cwd":"/p","provider":"anthropic","modelId":"m1","thinkingLevel":"low","branchedFrom":"/q/old.jsonl"}',
    '{"type":"message","timestamp":"2025-12-03T14:00:01.000Z","message":{"role":"user","content":"one","timestamp":1}}',
    '{"type":"message","timestamp":"2025-12-03T14:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"two"}],"provider":"anthropic","model":"m1","stopReason":"stop","timestamp":2}}',
    '{"type":"message","timestamp":"2025-12-03T14:00:03.000Z","message":{"role":"hookMessage","customType":"x","content":"note","display":true,"timestamp":3}}',
    '{"type":"compaction","timestamp":"2025-12-03T14:00:04.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":900}',
    '{"type":"message","timestamp":"2025-12-03T14:00:05.000Z","message":{"role":"user","content":"three","timestamp":4}}',
]


def _upgraded(lines: list[str]) -> list[dict[str, object]]:
    header = read_header(lines[0].encode())
    return [
        json.loads(header.raw),
        *(json.loads(raw) for raw in upgrade(header, (s.encode() for s in lines[1:]))),
    ]


def test_the_worked_example() -> None:
    """formats/atomic-sessions.md section 17, line by line."""
    header, a, b, c, d, e = _upgraded(WORKED)
    assert header["version"] == 4
    assert header["createdAt"] == "2025-12-03T14:00:00.000Z"
    assert (header["provider"], header["modelId"], header["thinkingLevel"]) == ("anthropic", "m1", "low")
    assert header["parentSession"] == "/q/old.jsonl"
    assert [x["parentId"] for x in (a, b, c, d, e)] == [None, a["id"], b["id"], c["id"], d["id"]]
    assert c["message"]["role"] == "custom"  # type: ignore[index]  # JSON
    assert d["firstKeptEntryId"] == b["id"]
    assert "firstKeptEntryIndex" not in d
    assert not view(json.dumps(d).encode()).in_context


@pytest.mark.parametrize(
    ("index", "kept"), [(0, False), (1, True), (3, True), (4, False), (5, False), (99, False)]
)
def test_the_kept_index_points_at_records_before_it(index: int, *, kept: bool) -> None:
    """The header, later records and records that are not there leave the field missing."""
    lines = [*WORKED[:4], WORKED[4].replace('Index":2', f'Index":{index}'), WORKED[5]]
    assert ("firstKeptEntryId" in _upgraded(lines)[4]) is kept


def test_blank_and_broken_lines_change_no_other() -> None:
    """Ids come from content and position among parsed records."""
    broken = [*WORKED[:2], "", '{"type":"mess', *WORKED[2:]]
    header = read_header(broken[0].encode())
    lines = list(upgrade(header, (s.encode() for s in broken[1:])))
    assert [json.loads(x) for x in lines if x != b'{"type":"mess'] == _upgraded(WORKED)[1:]
    assert b'{"type":"mess' in lines


def test_two_machines_get_one_tree() -> None:
    """The upgrade is a function of the file."""
    assert _upgraded(WORKED) == _upgraded(WORKED)


@given(
    st.lists(st.dictionaries(st.text(min_size=1, max_size=8), json_values, max_size=4), max_size=6),
    st.sampled_from([1, 2, 3]),
)
def test_upgrading_twice_is_upgrading_once(lines: list[dict[str, object]], version: int) -> None:
    """Idempotent for any lines, and every member that has no new name stays."""
    head = {"type": "session", "version": version, "id": "", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p"}
    first = read_header(json.dumps(head).encode())
    once = list(upgrade(first, (json.dumps(line).encode() for line in lines)))
    again = read_header(first.raw)
    assert again.raw == first.raw
    assert list(upgrade(again, once)) == once
    if version >= 2:
        for old, new in zip(lines, once, strict=True):
            assert {k: v for k, v in json.loads(new).items() if k != "message"} == {
                k: v for k, v in old.items() if k != "message"
            }


def test_numbers_keep_their_form() -> None:
    """1.0 stays 1.0 and a number beyond 64 bits stays whole when a line must change."""
    line = '{"type":"message","x":1.0,"y":123456789012345678901234567890,"message":{"role":"hookMessage","z":1e5}}'
    header = read_header(
        b'{"type":"session","version":2,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}'
    )
    (found,) = upgrade(header, [line.encode()])
    assert b'"x":1.0' in found
    assert b"123456789012345678901234567890" in found
    assert b"1e5" in found


def test_the_early_alpha_header_is_read() -> None:
    """Version 4 with `timestamp` gets our creation time and keeps the rest."""
    found = read_header(
        b'{"type":"session","version":4,"id":"x","timestamp":"2026-08-01T00:00:00.000Z","cwd":"/p","extra":[1]}'
    )
    assert json.loads(found.raw)["createdAt"] == "2026-08-01T00:00:00.000Z"
    assert json.loads(found.raw)["extra"] == [1]


def test_our_own_header_stays_byte_for_byte() -> None:
    """A format 4 header is not rewritten."""
    raw = b'{"type":"session", "version":4,"id":"","createdAt":"2026-08-01T00:00:00.000Z","cwd":"/p"}'
    assert read_header(raw).raw == raw


def test_a_parent_path_becomes_an_id() -> None:
    """The id in the file name is the parent; a path without one stays."""
    uuid = "01a22c81-7192-70af-aa13-6f2a524f0b20"
    head = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"}
    assert (
        read_header(
            json.dumps(head | {"parentSession": f"/h/2026-01-01T00-00-00-000Z_{uuid}.jsonl"}).encode()
        ).parent
        == uuid
    )
    assert read_header(json.dumps(head | {"parentSession": "/h/x.jsonl"}).encode()).parent == "/h/x.jsonl"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"type":"session"}', b'{"type":"session","id":7}', b"\xff"]
)
def test_what_is_no_header_is_refused(raw: bytes) -> None:
    """A session begins with a header that has an id."""
    with pytest.raises(BadSessionFileError):
        read_header(raw)


def test_a_future_version_is_refused() -> None:
    """Nothing is guessed about formats that do not exist yet."""
    with pytest.raises(FutureFormatError):
        read_header(b'{"type":"session","version":5,"id":"x"}')


@pytest.mark.parametrize("message", [b"5", b"null", b'"x"', b"[1]"])
def test_a_message_that_is_no_object(message: bytes) -> None:
    """A line of an older format whose message is none goes through as it is, but for its id."""
    header = read_header(b'{"type":"session","version":2,"id":"s","timestamp":"2026-01-01T00:00:00Z"}')
    line = b'{"type":"message","id":"a","parentId":null,"message":' + message + b"}"
    assert list(upgrade(header, [line])) == [line]
