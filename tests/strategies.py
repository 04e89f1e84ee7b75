"""Hypothesis strategies: entries, trees, clocks, damaged files. Shared by all packages' tests."""

import json
from typing import Any

from hypothesis import strategies as st

from atomic_sessions.entry import Entry, Node, View

TIMES = st.integers(min_value=0, max_value=2_000_000_000_000)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def forests(draw: st.DrawFn, *, size: int = 12) -> list[Entry]:
    """Entries of one session in write order: each hangs below an earlier one, or is a root."""
    count = draw(st.integers(0, size))
    entries: list[Entry] = []
    for index in range(count):
        parent = draw(st.none() | st.sampled_from(entries)) if entries else None
        role = draw(st.sampled_from(["user", "assistant", "toolResult"]))
        native = draw(TIMES)
        stamp = max(native, (parent.stamp if parent else 0) + 1)
        raw = json.dumps(
            {
                "type": "message",
                "id": f"e{index:03d}",
                "parentId": parent.id if parent else None,
                "message": {"role": role, "content": f"text {index}", "timestamp": native},
            }
        ).encode()
        entries.append(Entry(f"e{index:03d}", parent.id if parent else None, index, stamp, raw))
    return entries


@st.composite
def clashing(draw: st.DrawFn) -> list[dict[str, Entry]]:
    """Three copies of one session that share some entries, differ in places and stamps, and sometimes
    carry different lines under one id."""
    copies: list[dict[str, Entry]] = []
    pool = [
        Entry(f"e{n}", None, draw(st.integers(0, 9)), draw(st.integers(0, 99)), f"line {n} {v}".encode())
        for n in range(3)
        for v in range(3)
    ]
    for _ in range(3):
        copy: dict[str, Entry] = {}
        for entry in draw(st.lists(st.sampled_from(pool), max_size=6)):
            moved = Entry(entry.id, None, draw(st.integers(0, 9)), draw(st.integers(0, 99)), entry.raw)
            from atomic_sessions.merge import add

            add(copy, moved)
        copies.append(copy)
    return copies


def node(entry_id: str, parent: str | None, stamp: int, role: str = "user") -> Node:
    """A message node for trees."""
    view = View(kind="message", role=role, id=entry_id, parent=parent)  # type: ignore[arg-type]  # a role's text
    return Node(entry_id, parent, stamp, view)


@st.composite
def broken_files(draw: st.DrawFn) -> bytes:
    """Bytes near a session file: whole lines, cut lines, glued lines, NULs, noise."""
    pieces = draw(
        st.lists(
            st.one_of(
                st.builds(
                    lambda v: json.dumps({"type": "message", "id": "x", "message": v}).encode() + b"\n",
                    json_values,
                ),
                st.builds(
                    lambda v: (
                        json.dumps({"uuid": "u", "sessionId": "s", "type": "user", "message": v}).encode()
                        + b"\n"
                    ),
                    json_values,
                ),
                st.just(
                    b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/p"}\n'
                ),
                st.binary(max_size=40),
                st.sampled_from(
                    [
                        b"\n",
                        b"\r\n",
                        b"\x00" * 8,
                        b'{"a',
                        b'{"type":"mess',
                        b"\xef\xbb\xbf",
                        "\u2028".encode(),
                    ]
                ),
            ),
            max_size=10,
        )
    )
    return b"".join(pieces)
