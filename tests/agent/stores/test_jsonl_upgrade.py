"""Older formats in an explicit JSONL store: read as format 4, put into it when opened, and only that file (B16)."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agent.stores.jsonl_made import Folder, header3, line, said
from agent.stores.port.children import Counter, ended
from agent.stores.port.kinds import NOW
from agent.stores.port.said import OTHER, UUID, turn
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.jsonl_append import rewrite, writing
from atomic_agent.stores.jsonl_index import Index
from atomic_agent.stores.port import branch
from atomic_sessions import context
from atomic_sessions.entry import Node, Text
from atomic_sessions.errors import BusyError
from atomic_sessions.formats import pi
from atomic_sessions.formats.upgrade import members
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)
V1 = line(
    type="session",
    id=UUID,
    timestamp="2025-12-03T14:00:00.000Z",
    cwd="/p",
    provider="anthropic",
    modelId="m1",
    thinkingLevel="low",
    branchedFrom="/q/old.jsonl",
)
AT = "1970-01-01T00:00:00.001Z"
USED = {
    "role": "assistant",
    "content": [{"type": "text", "text": "two"}],
    "provider": "anthropic",
    "model": "m1",
}


def example(first_kept: int = 2, *, broken: bytes = b"") -> tuple[bytes, ...]:
    """The records of section 17 of formats/atomic-sessions.md."""
    hook = {"role": "hookMessage", "customType": "x", "content": "note", "display": True, "timestamp": 3}
    return (
        V1,
        line(type="message", timestamp=AT, message={"role": "user", "content": "one", "timestamp": 1}),
        broken,
        line(type="message", timestamp=AT, message=USED | {"stopReason": "stop", "timestamp": 2}),
        line(type="message", timestamp=AT, message=hook),
        line(type="compaction", timestamp=AT, summary="S", firstKeptEntryIndex=first_kept, tokensBefore=900),
        line(type="message", timestamp=AT, message={"role": "user", "content": "three", "timestamp": 4}),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def parsed(path: Path) -> list[dict[str, Any]]:
    found = [members(raw) for raw in path.read_bytes().split(b"\n")]
    return [{key: json.loads(bytes(value)) for key, value in parts.items()} for parts in found if parts]


@pytest.mark.parametrize("broken", [b"", b"\n \n", b'{"type":"mess\n'])
@pytest.mark.parametrize("opened", [False, True])
def test_the_worked_example(folder: Folder, broken: bytes, opened: bool) -> None:
    """Section 17, read from the old file and from the upgraded one: tree, leaf, row, context."""
    path = folder.put("s.jsonl", *example(broken=broken))
    store = folder.store()
    if opened:
        store.open(KEY)
        header, *records = parsed(path)
        assert (header["version"], header["id"], header["cwd"]) == (4, UUID, "/p")
        assert (header["provider"], header["modelId"], header["thinkingLevel"]) == ("anthropic", "m1", "low")
        assert (header["createdAt"], header["parentSession"]) == ("2025-12-03T14:00:00.000Z", "/q/old.jsonl")
        assert records[2]["message"]["role"] == "custom"
        assert records[3]["firstKeptEntryId"] == records[1]["id"]
        assert all("firstKeptEntryIndex" not in record for record in records)
    store = folder.store()
    entries = [entry for entry in store.read(KEY) if not entry.loose]
    ids = [entry.id for entry in entries]
    assert len(set(ids)) == 5
    assert all(len(identity) == 8 for identity in ids)
    assert [entry.parent for entry in entries] == [None, *ids[:-1]]
    assert store.leaf(KEY) == ids[-1]
    path_ = [Node(e.id, e.parent, e.stamp, pi.view(e.raw)) for e in branch(store, KEY, ids[-1])]
    assert context.settings(path_) == context.Settings("anthropic", "m1", "")
    sent = context.build(path_, [], "next", provider="anthropic")
    texts = [block.text for message in sent for block in message.blocks if isinstance(block, Text)]
    assert texts == ["one", "two", "note", "three", "next"]
    (row,) = store.listed()
    # The example says 4 ms; here an entry's stamp is always later than its parent's (the old compaction's is 4).
    assert (row.first_message, row.messages, row.newest_at, row.name, row.summary) == ("one", 4, 5, "", "")


@pytest.mark.parametrize("index", [0, 5, 99])
def test_a_kept_index_that_names_nothing(folder: Folder, index: int) -> None:
    """The header, an entry ahead, or none: the field ends up missing."""
    path = folder.put("s.jsonl", *example(index))
    folder.store().open(KEY)
    record = parsed(path)[4]
    assert record["type"] == "compaction"
    assert not {"firstKeptEntryId", "firstKeptEntryIndex"} & record.keys()


def test_two_machines_make_one_tree(tmp_path: Path) -> None:
    """Upgrading the same file on two machines gives the same bytes, and upgrading again changes nothing."""
    made = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        folder = Folder(tmp_path / str(number))
        path = folder.put("s.jsonl", *example())
        folder.store().open(KEY)
        made.append(path.read_bytes())
        before = folder.snapshot()
        folder.store().open(KEY)
        assert folder.snapshot() == before
    assert made[0] == made[1]


def test_upgraded_once_by_two_processes(folder: Folder) -> None:
    """Who read the file before another put it into format 4 does not give its entries ids again."""
    path = folder.put("s.jsonl", *example())
    late = Index(folder.path, path, lambda: NOW)
    folder.store().open(KEY)
    with writing(folder.path):
        before = folder.snapshot()
        rewrite(folder.path, late)
        assert folder.snapshot() == before


OLD = {
    "version 1": example(),
    "version 2": (
        line(type="session", version=2, id=UUID, timestamp="2026-01-01T00:00:00.000Z", cwd="/p"),
        said("a", None, "one"),
        line(
            type="message",
            id="b",
            parentId="a",
            timestamp=AT,
            message={"role": "hookMessage", "content": "h"},
        ),
    ),
    "version 3": (
        header3(extra={"kept": [1.50]}),
        said("a", None, "one"),
        b'{"type":"new","id":"n","x": 1}\n',
    ),
    "alpha": (
        line(
            type="session", version=4, id=UUID, timestamp="2026-10-01T00:00:00.000Z", cwd="/p", internal=False
        ),
        said("a", None, "one"),
    ),
}


@pytest.mark.parametrize("old", OLD)
def test_only_the_opened_file_is_rewritten(folder: Folder, old: str) -> None:
    """It becomes format 4 with its mode, its ids and its other bytes; no other file is touched."""
    path = folder.put("s.jsonl", *OLD[old])
    path.chmod(0o640)
    folder.put("other.jsonl", *[OLD["version 1"][0].replace(UUID.encode(), OTHER.encode()), *example()[1:]])
    before = folder.snapshot()
    read = [(entry.id, entry.parent, entry.raw) for entry in folder.store().read(KEY)]
    folder.store().open(KEY)
    assert parsed(path)[0]["version"] == 4
    assert parsed(path)[0]["createdAt"]
    assert path.stat().st_mode & 0o777 == 0o640
    after = folder.snapshot()
    assert {name for name in after if after[name] != before.get(name)} - {".atomic/lock"} == {"s.jsonl"}
    assert after["s.jsonl"][0] != before["s.jsonl"][0], "replaced, not written over"
    assert [(entry.id, entry.parent, entry.raw) for entry in folder.store().read(KEY)] == read
    if old not in {"version 1", "version 2"}:
        assert path.read_bytes().split(b"\n", 1)[1] == b"".join(OLD[old][1:])


def test_a_turn_upgrades_first(folder: Folder) -> None:
    """A turn appended to an old file finds it in format 4, and hangs where the tree ends."""
    path = folder.put("s.jsonl", *example())
    store = folder.store()
    leaf = store.leaf(KEY)
    store.append(KEY, turn(1, leaf))
    assert parsed(path)[0]["version"] == 4
    assert len(branch(folder.store(), KEY, "a1.1")) == 7


def test_nothing_is_lost_on_the_way(folder: Folder) -> None:
    """A record behind a damaged beginning becomes an entry; the damaged bytes are kept aside."""
    glued = b'{"type":"mess' + said("x", None, "glued")
    folder.put("s.jsonl", *example()[:2], glued, *example()[3:])
    store = folder.store()
    store.open(KEY)
    assert len([entry for entry in store.read(KEY) if not entry.loose]) == 6
    assert folder.aside() == [glued.rstrip(b"\n")]


def test_killed_at_every_step_of_an_upgrade(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is the old one or the new one, whole, and the next opening makes it the new one."""
    path = folder.put("s.jsonl", *example())
    old = path.read_bytes()
    folder.store().open(KEY)
    new = path.read_bytes()
    at = 0
    while True:
        at += 1
        path.write_bytes(old)

        def victim(at: int = at) -> None:
            counter = Counter(at)
            for name in ("fsync", "replace", "unlink", "open", "chmod"):
                real = getattr(os, name)

                def call(*values: object, _real: Any = real, **more: object) -> object:
                    counter()
                    return _real(*values, **more)

                monkeypatch.setattr(os, name, call)
            folder.store().open(KEY)

        killed = ended(victim)
        assert path.read_bytes() in {old, new}
        assert [row.facts.id for row in folder.store().listed()] == [UUID]
        folder.store().open(KEY)
        assert path.read_bytes() == new
        if killed != signal.SIGKILL:
            break
    assert at > 8


def test_what_is_appended_during_an_upgrade_stays(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that another program appends while the new file is written is in it."""
    path = folder.put("s.jsonl", header3(), said("a", None, "one"))
    real = os.fsync
    late = [said("late", "a", "late", NOW + 5)]

    def meanwhile(handle: int) -> None:
        real(handle)
        if late:
            with path.open("ab") as stream:
                stream.write(late.pop())

    monkeypatch.setattr(os, "fsync", meanwhile)
    store = folder.store()
    store.open(KEY)
    assert b'"late"' in path.read_bytes()
    assert parsed(path)[0]["version"] == 4
    assert store.leaf(KEY) == "late"


def test_a_file_that_is_written_to_all_the_while(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left in its format, with a typed error, and holds every line that came."""
    path = folder.put("s.jsonl", header3(), said("a", None, "one"))
    real = os.fsync
    count = 0

    def meanwhile(handle: int) -> None:
        nonlocal count
        real(handle)
        count += 1
        with path.open("ab") as stream:
            stream.write(said(f"late{count}", "a", "late"))

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(BusyError):
        folder.store().open(KEY)
    assert parsed(path)[0]["version"] == 3
    assert len(parsed(path)) == count + 2
    assert list(folder.path.glob("*.jsonl")) == [path]


def test_opening_what_is_current_writes_nothing(tmp_path: Path) -> None:
    """Opening and closing a session of format 4 changes no byte and no time."""
    store = JsonlStore(tmp_path / "s", lambda: NOW)
    folder = Folder(tmp_path / "t")
    assert store.name
    header = line(type="session", version=4, id=UUID, createdAt="2026-11-30T00:00:00.000Z", cwd="/p")
    folder.put("x.jsonl", header, said("a", None, "one"), b'{"half')
    before = folder.snapshot()
    opened = folder.store()
    opened.open(KEY)
    opened.close()
    assert folder.snapshot() == before
