"""How lines of rollouts hang together beyond one below the other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.entry import Entry, Node, View
from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_log import (
    History,
    copies,
    history_of,
    kept_after,
    rolled_back,
    told_before,
)
from atomic_sessions.formats.scan import Scanner, ScanState
from strategies import json_values

SID = "01a22c7e-f3ec-7c20-b047-8c8a507b4011"
NOW = 1_796_040_000_000


def _raw(kind: str, payload: object) -> bytes:
    return json.dumps({"timestamp": "2026-11-30T12:00:00.000Z", "type": kind, "payload": payload}).encode()


def _meta(**base: object) -> bytes:
    return _raw("session_meta", {"id": SID, "history_base": base or None})


def _said(role: str, text: str) -> bytes:
    return _raw("response_item", {"type": "message", "role": role, "content": [{"type": "x", "text": text}]})


def _entries(*lines: bytes) -> list[Entry]:
    scanner = Scanner("codex", ScanState(), now=NOW, stamp_of=lambda _: 0)
    return [scanner.read(line)[0] for line in lines]


def _upward(*lines: bytes) -> list[Node]:
    return [Node(e.id, e.parent, e.stamp, codex.view(e.raw)) for e in reversed(_entries(*lines))]


@pytest.mark.parametrize(
    ("turns", "kept"), [(1, 6), (2, 2), (3, 1), (99, 1)], ids=["one", "two", "all", "more than there are"]
)
def test_where_a_turn_began(turns: int, kept: int) -> None:
    """At its start where that is noted, else ahead of the prompt; what was injected is no turn."""
    lines = (
        _meta(),
        _raw("turn_context", {}),
        _said("user", "first"),
        _said("user", "second, sent at once"),
        _said("user", "<turn_aborted>"),
        _said("assistant", "answer"),
        _raw("event_msg", {"type": "task_complete"}),
        _raw("event_msg", {"type": "task_started"}),
        _raw("turn_context", {}),
        _said("user", "<environment_context>"),
        _said("user", "third"),
        _said("assistant", "answer"),
    )
    assert kept_after(_upward(*lines), turns) == _entries(*lines)[kept].id


def test_nothing_to_take_back() -> None:
    """Without a prompt nothing stays that could be gone on from."""
    assert kept_after([], 1) is None
    assert kept_after(_upward(_said("user", "only")), 1) is None


def test_history_of() -> None:
    """Only the first line's own, complete pointer counts."""
    whole = {"thread_id": SID, "end_ordinal_exclusive": 5, "end_byte_offset": 99}
    assert history_of(_meta(**whole)) == History(SID, 5, 99)
    assert history_of(_meta()) is None
    for odd in (
        {"end_ordinal_exclusive": 0},
        {"end_ordinal_exclusive": "5"},
        {"thread_id": ""},
        {"thread_id": 1},
    ):
        assert history_of(_meta(**{**whole, **odd})) is None
    assert history_of(b"damaged") is None
    assert history_of(_raw("turn_context", {"history_base": whole})) is None


def test_copies_are_the_same_wherever_they_are_made() -> None:
    """Their ids come from the lines and the pointer alone; the last has the id the fork waits for."""
    lines = _entries(_meta(), _said("user", "a"), _said("assistant", "b"), _said("user", "after"))
    history = History(SID, 3, 0)
    told = told_before(history, lines)
    assert told == lines[:3]
    made = list(copies(history, told or []))
    assert [entry.raw for entry in made] == [entry.raw for entry in lines[:3]]
    assert [entry.pos for entry in made] == [1, 2, 3]
    assert [entry.parent for entry in made] == [None, made[0].id, made[1].id]
    assert made[-1].id == history.joint
    assert not {entry.id for entry in made} & {entry.id for entry in lines}
    assert told_before(History(SID, 9, 0), lines) is None
    assert told_before(history, lines[1:]) is None
    assert told_before(history, []) is None


@given(
    st.sampled_from(["session_meta", "event_msg", "x"]),
    st.dictionaries(st.sampled_from(["type", "num_turns", "history_base", "thread_id"]), json_values),
    json_values,
)
def test_no_values_break_it(kind: str, payload: dict[str, Any], base: object) -> None:
    """Whatever stands where."""
    for raw in (_raw(kind, payload), _raw(kind, {**payload, "history_base": base}), _raw(kind, base)):
        assert rolled_back(raw) >= 0
        history_of(raw)
        node = Node("i", None, 0, View("message"))
        kept_after([node], rolled_back(raw))
