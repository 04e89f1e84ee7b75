"""What the agents' current and old versions write, taken in and shown as what it is."""

from pathlib import Path

import pytest

from agent.capture.files import (
    OTHER,
    PI_ID,
    SID,
    Record,
    append,
    capture,
    claude,
    exported,
    lines,
    pi,
    pi_header,
    the_row,
    write,
)
from atomic_agent.cache import entries, leaf
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.search import search
from atomic_sessions import tree
from atomic_sessions.formats import claude as claude_format
from atomic_sessions.formats import pi as pi_format

LOOSE: list[Record] = [
    {
        "type": "queue-operation",
        "operation": "enqueue",
        "timestamp": "2026-11-30T12:00:00.000Z",
        "sessionId": SID,
        "content": "q",
    },
    {"type": "mode", "mode": "normal", "sessionId": SID},
    {"type": "permission-mode", "permissionMode": "default", "sessionId": SID},
    {"type": "atis-latch", "atis": True, "sessionId": SID},
    {"type": "tools-used", "tools": ["Bash"], "sessionId": SID},
    {"type": "api-request-shape", "shapeHash": "h", "shape": {"system": "canary prompt"}},
    {"type": "api-request-blob", "hash": "b", "message": {"role": "user", "content": "canary blob"}},
    {
        "type": "api-request",
        "id": "r",
        "querySource": "x",
        "shapeHash": "h",
        "params": {},
        "keep": 0,
        "tail": ["b"],
    },
    {
        "type": "file-history-snapshot",
        "messageId": "m",
        "snapshot": {"trackedFileBackups": {}},
        "isSnapshotUpdate": False,
    },
    {"type": "last-prompt", "leafUuid": "x", "sessionId": SID},
    {"type": "cost-state", "cost": 1.5, "sessionId": SID},
    {"type": "pr-link", "url": "u", "sessionId": SID},
]


def test_claude_codes_loose_records(cache: Cache, tmp_path: Path) -> None:
    """Records without a uuid are kept in their places, show nowhere, and repeat as often as they stand."""
    path = write(
        tmp_path / f"{SID}.jsonl",
        *LOOSE,
        claude(0, "question"),
        *LOOSE,
        claude(1, "answer"),
        *LOOSE,
        LOOSE[1],
        LOOSE[1],
    )
    capture(cache, path)
    row = the_row(cache)
    assert exported(cache) == path.read_bytes()
    assert (row.messages, row.label, row.cwd) == (2, "question", "/home/dev/proj")
    assert sum(entry.loose for entry in lines(cache)) == 3 * len(LOOSE) + 2
    assert leaf.leaf(cache, row.key) == "00000001-0000-4000-8000-000000000000"
    assert not list(search(cache, "canary"))


def test_a_compaction_keeps_one_tree(cache: Cache, tmp_path: Path) -> None:
    """The boundary hangs below what it follows by its logical parent; the summary is no prompt."""
    boundary = {
        **claude(2, ""),
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "parentUuid": None,
        "logicalParentUuid": "00000001-0000-4000-8000-000000000000",
        "compactMetadata": {"trigger": "auto", "preTokens": 1},
    }
    del boundary["message"]
    summary = claude(3, "", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    summary |= {"type": "user", "message": {"role": "user", "content": "the summary"}}
    path = write(
        tmp_path / f"{SID}.jsonl",
        claude(0, "before"),
        claude(1, "answer"),
        boundary,
        summary,
        claude(4, "after"),
    )
    capture(cache, path)
    whole = list(entries.read(cache, the_row(cache).key))
    nodes = entries.nodes(whole, [claude_format.view(stored.entry.raw) for stored in whole])
    assert list(tree.build(nodes).children[None]) == ["00000000-0000-4000-8000-000000000000"]
    opened = leaf.leaf(cache, the_row(cache).key)
    assert [e.id[:8] for e in [*entries.climb(cache, the_row(cache).key, opened)][::-1]] == [
        f"{n:08d}" for n in range(5)
    ]
    views = {
        stored.entry.id[:8]: view
        for stored, view in zip(whole, [claude_format.view(s.entry.raw) for s in whole], strict=True)
    }
    assert views["00000003"].role == "summary"
    assert the_row(cache).first_message == "before"


PI_NEW: list[Record] = [
    {
        "type": "model_change",
        "id": "m1",
        "parentId": None,
        "timestamp": "2026-11-30T12:00:00.000Z",
        "provider": "p",
        "modelId": "m",
    },
    {"type": "thinking_level_change", "id": "t1", "parentId": "m1", "thinkingLevel": "off"},
    {
        "type": "message",
        "id": "s1",
        "parentId": "t1",
        "message": {
            "role": "system",
            "content": "",
            "sections": {"preamble": "canary"},
            "toolsAdded": [{"name": "read", "parameters": {}}],
            "timestamp": 1,
        },
    },
    {
        "type": "message",
        "id": "u1",
        "parentId": "s1",
        "message": {"role": "user", "content": [{"type": "text", "text": "ask"}], "timestamp": 2},
    },
    {
        "type": "message",
        "id": "a1",
        "parentId": "u1",
        "message": {
            "role": "assistant",
            "content": [{"type": "text", "text": "say"}],
            "usage": {
                "input": 5,
                "output": 7,
                "reasoning": 3,
                "cost": {"total": 0.5, "totalFromProvider": 1},
            },
            "durationMs": 3,
            "timestamp": 3,
        },
    },
    {
        "type": "usage",
        "id": "g1",
        "parentId": "a1",
        "kind": "summary",
        "provider": "p",
        "model": "m",
        "usage": {"input": 1},
    },
    {"type": "context_edit", "id": "c1", "parentId": "g1", "targetId": "u1", "replacement": None},
    {
        "type": "compaction",
        "id": "k1",
        "parentId": "c1",
        "summary": "so far",
        "firstKeptEntryId": "k1",
        "tokensBefore": 9,
        "details": {"readFiles": []},
        "fromHook": False,
        "usage": {},
        "systemMessage": {"role": "system", "content": "", "sections": {}},
    },
    {"type": "custom", "id": "v1", "parentId": "k1", "customType": "pi.virtual-model-state", "data": {}},
    {"type": "something-new", "id": "z1", "parentId": "v1", "x": [1]},
    {"type": "session_info", "id": "n1", "parentId": "z1", "name": " Named here "},
]


@pytest.mark.parametrize("newest", [True, False])
def test_pi_of_today(cache: Cache, tmp_path: Path, *, newest: bool) -> None:
    """pi 1.6's system messages, context edits, usage records and checkpoints, and 0.73's shape without them."""
    kept = PI_NEW if newest else [r for r in PI_NEW if r["id"] in {"m1", "t1", "u1", "a1", "n1"}]
    above = [None, *(r["id"] for r in kept)]
    records = [{**r, "parentId": parent} for r, parent in zip(kept, above, strict=False)]
    path = write(tmp_path / "2026.jsonl", pi_header(), *records)
    capture(cache, path)
    row = the_row(cache)
    assert (row.agent, row.id, row.name, row.first_message) == ("pi", PI_ID, "Named here", "ask")
    assert row.messages == 2 + newest
    assert leaf.leaf(cache, row.key) == "n1"
    assert exported(cache) == path.read_bytes()
    assert not list(search(cache, "canary"))
    views = {entry.id: pi_format.view(entry.raw) for entry in lines(cache)}
    usage = views["a1"].usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cost) == (5, 7, 0.5)
    if newest:
        assert not views["s1"].in_context
        assert not views["k1"].in_context
        assert views["k1"].role == "summary"


def test_atomics_own_format(cache: Cache, tmp_path: Path) -> None:
    """A format 4 file is Atomic's; its header is a line like any other in a captured session."""
    header = {
        "type": "session",
        "version": 4,
        "id": "my-notes",
        "createdAt": "2026-11-30T12:00:00.000Z",
        "cwd": "/nowhere",
    }
    path = write(tmp_path / "x.jsonl", header, pi(0, "q"))
    capture(cache, path)
    row = the_row(cache)
    assert (row.agent, row.id, row.scope) == ("atomic", "my-notes", "path:/nowhere")
    assert exported(cache) == path.read_bytes()


def test_a_format_1_file_is_a_line_of_records(cache: Cache, tmp_path: Path) -> None:
    """Records without ids hang one below the other, and are the same after another capture."""
    old = [
        {
            "type": "message",
            "timestamp": f"2025-01-01T00:00:0{n}Z",
            "message": {"role": "user", "content": f"{n}"},
        }
        for n in range(3)
    ]
    path = write(
        tmp_path / "x.jsonl",
        {"type": "session", "id": OTHER, "timestamp": "2025-01-01T00:00:00Z", "cwd": "/p"},
        *old[:2],
    )
    capture(cache, path)
    append(path, old[2])
    capture(cache, path)
    opened = leaf.leaf(cache, the_row(cache).key)
    assert len([*entries.climb(cache, the_row(cache).key, opened)][::-1]) == 3
    assert exported(cache) == path.read_bytes()
