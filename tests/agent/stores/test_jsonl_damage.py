"""Damaged session files: never a crash, never a sound line lost, never another file touched."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings

from agent.stores.jsonl_made import Folder, header3, line, said
from agent.stores.port.kinds import NOW
from agent.stores.port.said import UUID, turn
from atomic_agent.stores import marks
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.port import branch
from atomic_sessions.errors import AtomicError
from atomic_sessions.formats.upgrade import members, read_header
from fuzz.cases import share
from fuzz.corpus import LINES
from fuzz.mutations import cases
from strategies import broken_files

HEADER4 = line(type="session", version=4, id=UUID, createdAt="2026-11-30T00:00:00.000Z", cwd="/p")
MAKE: tuple[Callable[[bytes], bytes], ...] = (
    lambda content: content,
    lambda content: header3() + content,
    lambda content: HEADER4 + said("a", None, "x" * 40_000) + content,
)


def sound(content: bytes) -> list[bytes]:
    """The lines behind the header that hold an object."""
    lines = [raw for raw in content.split(b"\n") if raw.strip()]
    return [raw for raw in lines[1:] if members(raw) is not None]


def use(folder: Folder, content: bytes) -> None:
    """Everything that can be done with a file, and what must hold after it."""
    path = folder.put("x.jsonl", content)
    store = folder.store()
    for row in list(store.listed(internal=True)):
        key = row.key
        list(store.search("text"))
        read = list(store.read(key))
        branch(store, key, store.leaf(key))
        assert path.read_bytes() == content, "looking changed the file"
        store.open(key)
        assert [(e.id, e.parent, e.raw) for e in store.read(key)] == [(e.id, e.parent, e.raw) for e in read]
        leaf = store.leaf(key)
        store.append(key, turn(1, leaf))
        marks.rename(store, key, "named", NOW)
        store.move(key, leaf)
        again = folder.store()
        assert [entry.id for entry in branch(again, key, "a1.1")][-2:] == ["u1", "a1.1"]
        assert again.leaf(key) == leaf
        kept = path.read_bytes()
        lines = set(kept.split(b"\n"))
        first, *old = [raw for raw in content.split(b"\n") if raw.strip()]
        if read_header(first).version >= 3:
            aside = folder.aside()
            assert [raw for raw in old if raw not in lines and raw not in aside] == [], "bytes lost"
            assert {raw for raw in sound(content) if raw not in lines} == set()
        else:
            assert len(sound(kept)) >= len(sound(content))
        assert again.find(key.id, "").name == "named"


@settings(max_examples=100, deadline=None)
@given(content=broken_files())
@example(content=b"")
@example(content=b'{"type":"session","version":3,"id":"","timestamp":"","cwd":null}')
def test_any_broken_file(content: bytes) -> None:
    """Cut and glued lines, NULs, marks of byte order, noise: alone, behind a header, at the end of a large file."""
    with TemporaryDirectory() as root:
        for number, make in enumerate(MAKE):
            use(Folder(Path(root) / str(number)), make(content))


@pytest.mark.parametrize("agent", ["pi", "atomic"])
def test_mutated_files(agent: str, tmp_path: Path) -> None:
    """Sound sessions with a few bytes changed, moved, cut out or put in."""
    lines = LINES[agent]
    for number in range(share(0.15)):
        draw = random.Random(number)
        picked = [draw.choice(lines) for _ in range(draw.randrange(1, 10))]
        made = [raw for _, raw in cases(picked, draw.randrange(1, 4), seed=number)]
        content = b"\n".join([*lines[:1], *picked, *made]) + (b"\n" if draw.random() < 0.5 else b"")
        use(Folder(tmp_path / str(number)), content)


def test_a_hundred_thousand_deep(tmp_path: Path) -> None:
    """A chain of 100,000 entries, and one that ends in a circle, are read and gone on with."""
    folder = Folder(tmp_path)
    count = 100_000
    entries = (
        b'{"type":"message","id":"%d","parentId":"%d","message":{"role":"user","content":"x"}}\n' % (n, n - 1)
        for n in range(count)
    )
    folder.put("x.jsonl", HEADER4, *entries)
    store = folder.store()
    (row,) = store.listed()
    assert store.leaf(row.key) == str(count - 1)
    assert len(branch(store, row.key, str(count - 1))) == count
    folder.put("x.jsonl", HEADER4, said("a", "b", "1"), said("b", "a", "2"))
    assert folder.store().leaf(row.key) in {"a", "b"}


def test_a_line_of_a_hundred_megabytes(tmp_path: Path) -> None:
    """It is listed without being read, and its session goes on."""
    folder = Folder(tmp_path)
    folder.put(
        "x.jsonl", HEADER4, said("a", None, "one"), said("big", "a", "x" * 100_000_000, role="toolResult")
    )
    store = folder.store()
    (row,) = store.listed()
    assert (row.first_message, row.partial) == ("one", True)
    store.append(row.key, turn(1, "big"))
    assert [entry.id for entry in branch(store, row.key, store.leaf(row.key))] == ["a", "big", "u1", "a1.1"]


def test_a_file_that_changes_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that vanish, shrink or grow between the look at the folder and the reading harm no listing."""
    folder = Folder(tmp_path)
    for number in range(4):
        folder.put(f"{number}.jsonl", HEADER4.replace(UUID.encode(), b"s%d" % number), said("a", None, "x"))
    real = os.open
    opened: list[str] = []

    def meanwhile(path: str, *rest: int) -> int:
        name = Path(path).name
        if name.endswith(".jsonl") and name not in opened:
            opened.append(name)
            if name == "1.jsonl":
                Path(path).unlink()
            elif name == "2.jsonl":
                os.truncate(path, 30)
            elif name == "3.jsonl":
                with Path(path).open("ab") as stream:
                    stream.write(said("b", "a", "y", NOW + 9))
        return real(path, *rest)

    store = JsonlStore(folder.path, lambda: NOW)
    monkeypatch.setattr(os, "open", meanwhile)
    found = {row.facts.id: row.messages for row in store.listed()}
    assert found == {"s0": 1, "s3": 2}
    try:
        store.open(store.find("s3", "").key)
    except AtomicError:
        pytest.fail("a grown file opens")
