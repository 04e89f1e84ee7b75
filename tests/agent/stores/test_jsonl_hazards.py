"""The defects that formats/atomic-sessions.md marks [HAZARD] and that concern a store or a file: not here.

Each test is named after one, with the section it stands in. Section 10.4 (labels in a fork) and 16.2 (labels in
a page) concern those who copy and draw sessions, not where they are kept.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.stores.jsonl_made import Folder, header3, line, said
from agent.stores.port.children import living
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, OTHER, UUID, brought_in, exported, facts, turn
from atomic_agent.stores import marks
from atomic_agent.stores.memory import MemoryStore
from atomic_agent.stores.port import branch
from atomic_sessions.errors import BadSessionFileError, NotFoundError, SessionExistsError
from atomic_sessions.formats.upgrade import read_header
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)
V1 = (
    line(type="session", id=UUID, timestamp="2025-12-03T14:00:00.000Z", cwd=HERE),
    line(type="message", timestamp="2025-12-03T14:00:01.000Z", message={"role": "user", "content": "same"}),
    line(type="message", timestamp="2025-12-03T14:00:01.000Z", message={"role": "user", "content": "same"}),
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_1_2_projects_that_share_a_folder_do_not_see_each_other(folder: Folder) -> None:
    """/a/b-c and /a-b/c have one folder name; each lists its own sessions, by the headers."""
    folder.put("--a-b-c--/x.jsonl", header3("one", "/a/b-c"), said("a", None, "x"))
    folder.put("--a-b-c--/y.jsonl", header3("two", "/a-b/c"), said("a", None, "x"))
    store = folder.store()
    for session, cwd in (("one", "/a/b-c"), ("two", "/a-b/c")):
        assert [row.facts.id for row in store.listed(project=store.project_of(cwd), folder=cwd)] == [session]


def test_2_a_rewrite_replaces_the_file_whole(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads while a file is put into format 4 reads the old one to its end, never a part of both."""
    path = folder.put("x.jsonl", *V1)
    old = path.read_bytes()
    reader = path.open("rb")
    folder.store().open(KEY)
    assert path.read_bytes() != old
    assert reader.read() == old
    reader.close()

    path.write_bytes(old)
    real = os.replace

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(Exception, match="No space left"):
        folder.store().open(KEY)
    monkeypatch.setattr(os, "replace", real)
    assert path.read_bytes() == old


def test_2_a_second_writer_is_told(folder: Folder) -> None:
    """Two processes on one session: the second learns of the first before it writes; both branches stay."""
    folder.put("x.jsonl", header3(), said("a", None, "one"))
    with living(lambda: folder.store().claim(KEY, NOW)) as child:
        held = folder.store().claim(KEY, NOW)
        assert held is not None
        assert held.process.pid == child
    one, two = folder.store(), folder.store()
    one.append(KEY, turn(1, "a"))
    two.append(KEY, turn(2, "a"))
    assert [e.id for e in one.read(KEY)] == ["a", "u1", "a1.1", "u2", "a2.1"]


@pytest.mark.parametrize("tail", [b'{"type":"message","id":"torn","par', said("whole", "a", "x")[:-1]])
def test_2_a_torn_tail_takes_no_entry_with_it(folder: Folder, tail: bytes) -> None:
    """The next entry is not glued to half a line, and its history does not drop out of the conversation."""
    folder.put("x.jsonl", header3(), said("a", None, "one"), tail)
    store = folder.store()
    store.open(KEY)
    store.append(KEY, turn(1, store.leaf(KEY)))
    path = next(iter(folder.path.glob("x.jsonl")))
    assert path.read_bytes().endswith(b"\n")
    again = folder.store()
    found = [entry.id for entry in branch(again, KEY, again.leaf(KEY))]
    assert found[0] == "a"
    assert found[-2:] == ["u1", "a1.1"]


@pytest.mark.parametrize("content", [b"no session\n", b'{"type":"mess', b'{"kind":"header","id":"x"}\n'])
def test_2_a_file_that_is_no_session_is_not_overwritten(folder: Folder, content: bytes) -> None:
    """Not by an open, not by a new session whose file would be called the same."""
    store = folder.store()
    name = Path(store.create(facts(store), turn(0, None)).place).name
    store.delete(KEY)
    path = folder.put(name, content)
    row = folder.store().create(facts(store), turn(0, None))
    assert row.place != str(path)
    assert path.read_bytes() == content
    with pytest.raises(BadSessionFileError):
        read_header(content.rstrip(b"\n"))


def test_5_1_upgraded_ids_are_of_content_and_place(folder: Folder, tmp_path: Path) -> None:
    """Equal records get different ids, and another machine gives the same ones."""
    folder.put("x.jsonl", *V1)
    other = Folder(tmp_path / "other")
    other.put("y.jsonl", *V1)
    found = [[entry.id for entry in one.store().read(KEY)] for one in (folder, other)]
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


def test_5_3_a_copy_of_an_old_session_has_ids(folder: Folder) -> None:
    """What is read of a format 1 file for a fork, an export or another store is format 4, ids and all."""
    folder.put("x.jsonl", *V1)
    store, other = folder.store(), MemoryStore()
    key = brought_in(other, exported(store, KEY))
    found = list(other.read(key))
    assert [entry.parent for entry in found] == [None, found[0].id]
    assert all(b'"parentId"' in entry.raw for entry in found)
    assert b'"version":4' in exported(other, key)[0]


def test_7_4_opening_writes_nothing(folder: Folder) -> None:
    """A session that is opened and closed again is as it was, byte for byte; nothing lies beside it."""
    header = line(type="session", version=4, id=UUID, createdAt="2026-11-30T00:00:00.000Z", cwd=HERE)
    folder.put("x.jsonl", header, said("a", None, "one"))
    before = folder.snapshot()
    store = folder.store()
    store.open(KEY)
    list(store.read(KEY))
    store.close()
    assert folder.snapshot() == before


def test_8_2_a_rename_does_not_move_who_has_it_open(folder: Folder) -> None:
    """Renamed by another process while the person stands elsewhere in the tree: they still stand there."""
    folder.put("x.jsonl", header3(), said("a", None, "one"), said("b", "a", "two", NOW + 1))
    mine, theirs = folder.store(), folder.store()
    mine.open(KEY)
    mine.move(KEY, "a")
    marks.rename(theirs, KEY, "renamed", NOW)
    assert mine.leaf(KEY) == theirs.leaf(KEY) == folder.store().leaf(KEY) == "a"
    mine.append(KEY, turn(1, "a"))
    assert [entry.id for entry in branch(mine, KEY, mine.leaf(KEY))] == ["a", "u1", "a1.1"]
    assert next(mine.listed()).name == "renamed"


def test_11_the_newest_message_is_newest_not_the_file(folder: Folder) -> None:
    """A touched, renamed or labelled session does not come before one with a later message."""
    old = folder.put("old.jsonl", header3(), said("a", None, "one", NOW), mtime=2_000_000_000)
    folder.put("new.jsonl", header3(OTHER), said("a", None, "two", NOW + 5), mtime=1_000_000_000)
    store = folder.store()
    assert next(store.listed()).facts.id == OTHER
    marks.rename(store, KEY, "renamed", NOW + 999_999)
    os.utime(old)
    assert [row.facts.id for row in folder.store().listed()] == [OTHER, UUID]


def test_11_an_import_overwrites_no_file(folder: Folder) -> None:
    """An id that is there is refused; another session whose file has the name already gets another name."""
    store = folder.store()
    row = store.create(facts(store), turn(0, None))
    before = Path(row.place).read_bytes()
    with pytest.raises(SessionExistsError):
        store.create(facts(store), turn(5, None))
    moved = Path(row.place).read_bytes().replace(UUID.encode(), OTHER.encode())
    Path(row.place).write_bytes(moved)
    second = folder.store().create(facts(store), turn(0, None))
    assert Path(row.place).read_bytes() == moved
    assert Path(second.place).read_bytes() == before


def test_19_2_a_file_deleted_under_its_program_is_not_made_again(folder: Folder) -> None:
    """No file without a header appears in the place of a deleted session."""
    path = folder.put("x.jsonl", header3(), said("a", None, "one"))
    store = folder.store()
    store.open(KEY)
    path.unlink()
    calls: list[Callable[[], object]] = [
        lambda: store.append(KEY, turn(1, "a")),
        lambda: store.move(KEY, None),
        lambda: marks.rename(store, KEY, "x", NOW),
    ]
    for call in calls:
        with pytest.raises(NotFoundError):
            call()
    assert not path.exists()
