"""Which sessions are a workflow's, and how one is marked (formats/atomic-sessions.md section 14)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.errors import UsageError
from atomic_sessions.formats.internal import VARIABLE, from_environment, marked, to_environment
from atomic_sessions.formats.upgrade import Marking, marking, members, read_header
from strategies import json_values

WHOLE = {"runId": "r1", "stageId": "s1", "stageName": "Review"}
MARKING = Marking("r1", "s1", "Review")


def _header(**more: Any) -> bytes:
    return json.dumps(
        {"type": "session", "version": 4, "id": "x", "createdAt": "2026-11-30T00:00:00.000Z", **more}
    ).encode()


@pytest.mark.parametrize(
    ("more", "internal"),
    [
        ({"internal": True, "workflow": WHOLE}, True),
        ({"internal": True, "workflow": WHOLE | {"new": [1]}}, True),
        ({"internal": True, "workflow": WHOLE | {"stageName": " x "}}, True),
        ({}, False),
        ({"internal": True}, False),
        ({"workflow": WHOLE}, False),
        ({"internal": False, "workflow": WHOLE}, False),
        ({"internal": 1, "workflow": WHOLE}, False),
        ({"internal": "true", "workflow": WHOLE}, False),
        ({"internal": None, "workflow": WHOLE}, False),
        ({"internal": [True], "workflow": WHOLE}, False),
        ({"internal": True, "workflow": None}, False),
        ({"internal": True, "workflow": "r1"}, False),
        ({"internal": True, "workflow": [WHOLE]}, False),
        ({"internal": True, "workflow": {}}, False),
        *(
            ({"internal": True, "workflow": {k: v for k, v in WHOLE.items() if k != gone}}, False)
            for gone in WHOLE
        ),
        *(
            ({"internal": True, "workflow": WHOLE | {name: bad}}, False)
            for name in WHOLE
            for bad in ("", " \t\n", 7, None, True)
        ),
        ({"parentSession": "x", "origin": "workflow"}, False),
    ],
)
def test_classified(more: dict[str, Any], internal: bool) -> None:
    """Exactly true and three texts that say something; anything else is a session that people see."""
    for version in (4, 3):
        assert read_header(_header(**more | {"version": version})).internal is internal


@given(st.dictionaries(st.sampled_from(["internal", "workflow", "a", "id2"]), json_values))
def test_marked_whatever_it_held(more: dict[str, Any]) -> None:
    """Marking makes it internal, keeps all other members byte for byte and in order, and does nothing twice."""
    before = _header(**more)
    after = marked(before, MARKING)
    old, new = members(before), members(after)
    assert old is not None
    assert new is not None
    assert marking(new) is not None
    assert read_header(after).internal
    kept = [(name, bytes(raw)) for name, raw in old.items() if name not in {"internal", "workflow"}]
    assert [(name, bytes(raw)) for name, raw in new.items() if name not in {"internal", "workflow"}] == kept
    assert marked(after, Marking("other", "other", "other")) == after


def test_a_valid_marking_is_never_overwritten() -> None:
    """The very bytes stay."""
    header = b'{ "type":"session", "id":"x", "internal":true, "workflow":' + json.dumps(WHOLE).encode() + b"}"
    assert marked(header, Marking("r2", "s2", "n2")) is header


def test_an_invalid_marking_is_made_whole() -> None:
    """What else its members held stays."""
    after = json.loads(marked(_header(internal="yes", workflow={"runId": "", "new": 1.50}), MARKING))
    assert after["internal"] is True
    assert after["workflow"] == {"runId": "r1", "new": 1.5, "stageId": "s1", "stageName": "Review"}


@pytest.mark.parametrize("bad", [Marking("", "s", "n"), Marking("r", " ", "n"), Marking("r", "s", "\n")])
def test_nothing_is_marked_with_blanks(bad: Marking) -> None:
    """A marking that would hide nothing is refused, as is a line that is no header."""
    with pytest.raises(UsageError, match="none of them blank"):
        marked(_header(), bad)
    with pytest.raises(UsageError, match="no session header"):
        marked(b"[1]", MARKING)


def test_from_the_environment() -> None:
    """A child process gets what its parent said; nothing where nothing is set."""
    assert from_environment(to_environment(MARKING)) == MARKING
    assert from_environment(json.dumps(WHOLE | {"more": 1})) == MARKING
    assert from_environment(None) is from_environment("") is None


MALFORMED = [
    "{",
    "null",
    "[]",
    "{}",
    '{"runId":"secret"}',
    '{"runId":"r","stageId":"s","stageName":" "}',
    '{"runId":1,"stageId":"s","stageName":"n"}',
    "\ud800",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_variable(text: str) -> None:
    """One sentence that names the variable and repeats nothing of it."""
    with pytest.raises(UsageError) as caught:
        from_environment(text)
    assert VARIABLE in caught.value.message
    assert "secret" not in str(caught.value)
