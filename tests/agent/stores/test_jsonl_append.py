"""Appending to a session file: half lines, full disks, other programs that write to it too."""

import os
import resource
import signal
from pathlib import Path

import pytest

from agent.stores.jsonl_made import Folder, line, said
from agent.stores.port.children import ended, living
from agent.stores.port.kinds import NOW
from agent.stores.port.said import UUID, facts, turn
from atomic_agent.cache import claims
from atomic_agent.stores import jsonl_intent
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.port import Store, branch
from atomic_sessions.errors import StoreWriteError
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)
HEADER4 = line(type="session", version=4, id=UUID, createdAt="2026-11-30T00:00:00.000Z", cwd="/p")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def ids(store: Store) -> list[str]:
    return [entry.id for entry in store.read(KEY)]


@pytest.mark.parametrize("cut", [1, 2, 10, 40, 90])
def test_half_a_line_at_the_end(folder: Folder, cut: int) -> None:
    """It is cut off and kept aside, and the next turn loses neither itself nor its parent."""
    torn = said("lost", "a", "half", NOW + 1)[:-1][:-cut]
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"), torn)
    store = folder.store()
    assert store.leaf(KEY) == "a"
    store.append(KEY, turn(1, "a"))
    assert path.read_bytes().startswith(HEADER4 + said("a", None, "one"))
    assert torn not in path.read_bytes()
    assert folder.aside() == [torn]
    assert ids(folder.store()) == ["a", "u1", "a1.1"]
    assert [entry.id for entry in branch(store, KEY, store.leaf(KEY))] == ["a", "u1", "a1.1"]


@pytest.mark.parametrize(
    "torn",
    [
        b'{"type":"message","id":"x","parentId":"a","message":{"role":"user","content":[{"type":"text","text":"x"}',
        b'{"type":"message","id":"x","parentId":"a","message":{"role":"user","content":"x"}',
        b'{"type":"message","id":"x","message":{"content":[{"type":"toolCall","id":"c","name":"n","arguments":{}}',
    ],
)
def test_what_is_whole_inside_half_a_line_is_no_record(folder: Folder, torn: bytes) -> None:
    """A cut behind a block or a message leaves an object at the line's end, which is not taken for an entry."""
    folder.put("x.jsonl", HEADER4, said("a", None, "one"), torn)
    store = folder.store()
    store.append(KEY, turn(1, store.leaf(KEY)))
    assert ids(folder.store()) == ["a", "u1", "a1.1"]
    assert folder.aside() == [torn]


@pytest.mark.parametrize("last", [said("b", "a", "whole"), b"rubbish" + said("b", "a", "whole")])
def test_a_whole_line_without_its_end(folder: Folder, last: bytes) -> None:
    """A sound record that only lacks its line's end, behind a damaged one perhaps, stays and gets it."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"), last[:-1])
    store = folder.store()
    assert store.leaf(KEY) == "b"
    store.append(KEY, turn(1, "b"))
    assert path.read_bytes().startswith(HEADER4 + said("a", None, "one") + last)
    assert ids(folder.store()) == ["a", "b", "u1", "a1.1"]
    assert folder.aside() == []


def test_a_header_without_its_end(folder: Folder) -> None:
    """A file that is a header alone, cut before its line's end, takes a turn."""
    folder.put("x.jsonl", HEADER4[:-1])
    store = folder.store()
    store.append(KEY, turn(0, None))
    assert ids(folder.store()) == ["u0", "a0.1"]


def test_a_torn_tail_is_left_to_who_writes_it(folder: Folder) -> None:
    """Reading does not mend: the line may be on its way from another program, and is read once it is whole."""
    whole = said("b", "a", "two", NOW + 1)
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"), whole[:30])
    store = folder.store()
    assert store.leaf(KEY) == "a"
    with path.open("ab") as stream:
        stream.write(whole[30:])
    assert store.leaf(KEY) == "b"
    assert folder.aside() == []


def test_a_turn_that_is_there_is_not_written_again(folder: Folder) -> None:
    """Whoever enters a turn that was entered before its writer was killed leaves the file as it is."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    store = folder.store()
    store.append(KEY, turn(1, "a"))
    before = path.read_bytes()
    store.append(KEY, turn(1, "a"))
    folder.store().append(KEY, turn(1, "a"))
    assert path.read_bytes() == before


def test_a_file_written_over_in_its_place(folder: Folder) -> None:
    """What another program puts into the same file is read from its beginning, though the file only seems grown."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    store = folder.store()
    store.open(KEY)
    path.write_bytes(HEADER4 + said("b", None, "other") + said("c", "b", "more", NOW + 5))
    assert ids(store) == ["b", "c"]
    assert next(store.listed()).first_message == "other"


class Full:
    """Writes of a process that go no further than a size: a full disk as the system makes one."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __enter__(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.parametrize("room", [0, 1, 500, 1500])
def test_a_full_disk(folder: Folder, room: int) -> None:
    """The file is as long as before, byte for byte, the error is a typed one; with room again the turn goes in."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "x" * 20_000))
    before = path.read_bytes()

    def fill() -> None:
        store = folder.store()
        store.open(KEY)
        with Full(len(before) + room), pytest.raises(StoreWriteError):
            store.append(KEY, turn(1, "a", lines=12))
        assert path.read_bytes() == before
        assert store.leaf(KEY) == "a"
        assert jsonl_intent.load(folder.path, path) is None
        store.append(KEY, turn(1, "a", lines=12))
        assert len(ids(store)) == 13

    assert ended(fill) == 0
    assert len(ids(folder.store())) == 13


def test_a_disk_that_cannot_promise(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written whole and not synced was not promised, so it is taken back."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    before = path.read_bytes()
    store = folder.store()
    store.open(KEY)
    real = os.fsync

    def refuse(handle: int) -> None:
        if os.path.samestat(os.fstat(handle), path.stat()) and path.stat().st_size > len(before):
            raise OSError(5, "Input/output error")
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(StoreWriteError):
            store.append(KEY, turn(1, "a"))
    assert path.read_bytes() == before
    store.append(KEY, turn(1, "a"))
    assert ids(folder.store()) == ["a", "u1", "a1.1"]


def test_a_disk_that_takes_nothing_back(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the taking back fails too, both failures are said, no reader sees the half, and the next writer mends it."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    store = folder.store()
    store.open(KEY)
    real = os.write

    def half(handle: int, data: bytes) -> int:
        if os.path.samestat(os.fstat(handle), path.stat()):
            if len(data) > 300:
                return real(handle, data[:250])
            raise OSError(28, "No space left on device")
        return real(handle, data)

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(StoreWriteError) as caught:
            store.append(KEY, turn(1, "a", lines=2))
    assert "No space left" in caught.value.message
    assert "Input/output error" in caught.value.message
    assert b'"u1"' in path.read_bytes()
    assert ids(store) == ids(folder.store()) == ["a"]
    assert next(folder.store().listed()).messages == 1
    folder.store().append(KEY, turn(2, "a"))
    assert ids(folder.store()) == ["a", "u2", "a2.1"]


def test_readers_never_see_half_a_turn(folder: Folder) -> None:
    """A writer that stands still in the middle of a turn shows nothing of it, in lists neither."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))

    def stand_still() -> None:
        lines = b"".join(entry.raw + b"\n" for entry in turn(1, "a", lines=3))
        jsonl_intent.note(folder.path, path, path.stat().st_size, lines)
        with path.open("ab") as stream:
            stream.write(lines[: lines.index(b"\n") + 20])

    (folder.path / ".atomic").mkdir(mode=0o700)
    with living(stand_still):
        store = folder.store()
        assert (ids(store), store.leaf(KEY), next(store.listed()).messages) == (["a"], "a", 1)
        assert list(store.search("prompt")) == []


def test_what_others_append_is_never_cut(folder: Folder) -> None:
    """A line that another program put behind an interrupted turn stays, whole, and the next turn too."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    (folder.path / ".atomic").mkdir(mode=0o700)
    lines = b"".join(entry.raw + b"\n" for entry in turn(1, "a", lines=3))
    jsonl_intent.note(folder.path, path, path.stat().st_size, lines)
    theirs = said("theirs", "a", "from another program", NOW + 5)
    with path.open("ab") as stream:
        stream.write(lines[:50] + b"\n" + theirs)
    store = folder.store()
    assert "theirs" in ids(store)
    store.append(KEY, turn(2, "theirs"))
    assert theirs in path.read_bytes()
    assert ids(folder.store())[-3:] == ["theirs", "u2", "a2.1"]


def test_a_failed_append_leaves_what_others_wrote_meanwhile(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rolling back takes our own beginning away, never a line of another program behind it."""
    path = folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    theirs = said("theirs", "a", "from another program", NOW + 5)
    store = folder.store()
    store.open(KEY)
    real = os.write

    def meanwhile(handle: int, data: bytes) -> int:
        if os.path.samestat(os.fstat(handle), path.stat()):
            real(handle, data[:30])
            with path.open("ab") as stream:
                stream.write(b"\n" + theirs)
            raise OSError(28, "No space left on device")
        return real(handle, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", meanwhile)
        with pytest.raises(StoreWriteError):
            store.append(KEY, turn(1, "a"))
    assert theirs in path.read_bytes()
    store.append(KEY, turn(1, "a"))
    assert ids(folder.store())[-3:] == ["theirs", "u1", "a1.1"]


def test_reading_goes_on_where_it_stopped(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn costs the turn: of a grown file only the new part is read again."""
    store = folder.store()
    store.create(facts(store), turn(0, None))
    path = Path(next(store.listed()).place)
    with path.open("ab") as stream:
        stream.write(b"".join(said(f"m{n}", f"m{n - 1}" if n else "a0.1", "x" * 900) for n in range(2000)))
    assert store.leaf(KEY) == "m1999"
    read = 0
    real = os.pread

    def counting(handle: int, size: int, at: int) -> bytes:
        nonlocal read
        found = real(handle, size, at)
        read += len(found)
        return found

    monkeypatch.setattr(os, "pread", counting)
    store.append(KEY, turn(1, "m1999"))
    assert store.leaf(KEY) == "a1.1"
    assert read < 10_000


def test_a_read_only_folder(folder: Folder) -> None:
    """Where nothing can be written the store still lists and reads; a turn is a typed error."""
    folder.put("x.jsonl", HEADER4, said("a", None, "one"))
    folder.path.chmod(0o500)

    def as_nobody() -> None:
        os.chown(folder.path, 65534, 65534)
        os.chown(folder.path / "x.jsonl", 65534, 65534)
        claims.myself()  # loads what an interpreter in a closed folder cannot load as nobody
        os.seteuid(65534)
        store = JsonlStore(folder.path, lambda: NOW)
        assert ids(store) == ["a"]
        for call in (
            lambda: store.append(KEY, turn(1, "a")),
            lambda: store.create(facts(store, "new")),
            lambda: store.claim(KEY, NOW),
            lambda: store.move(KEY, None),
        ):
            with pytest.raises(StoreWriteError):
                call()
        assert ids(store) == ["a"]

    if os.geteuid() == 0:
        for parent in (folder.path.parent, *folder.path.parent.parents):
            if "/pytest-" in str(parent):
                parent.chmod(0o755)
        assert ended(as_nobody) == 0
