"""A folder of session files: names, rights, rows, copies, and what only looks like a session."""

import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest

from agent.stores.jsonl_made import Folder, header3, line, said
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, OTHER, THERE, UUID, facts, turn
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores import jsonl_intent, marks
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.port import branch
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import (
    CacheRefusedError,
    NotFoundError,
    SessionExistsError,
    StoreUnavailableError,
    StoreWriteError,
    UnsupportedError,
)
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_named_and_private(tmp_path: Path) -> None:
    """A new file is called by time and id, 0600 in a 0700 folder, whatever the umask says; so is what lies aside."""
    before = os.umask(0)
    try:
        store = JsonlStore(tmp_path / "a" / "b", lambda: NOW)
        row = store.create(facts(store), turn(0, None))
        store.claim(row.key, NOW)
        store.append(row.key, turn(1, "a0.1"))
    finally:
        os.umask(before)
    assert Path(row.place).name == f"2026-11-30T13-05-07-321Z_{UUID}.jsonl"
    for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert Path(row.place).read_bytes().endswith(b"}\n")


def test_one_turn_is_one_write(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines of a turn go into the session's file at once, and are on the disk before it returns."""
    store = folder.store()
    row = store.create(facts(store), turn(0, None))
    calls: list[str] = []
    real_write, real_sync = os.write, os.fsync

    def is_it(handle: int) -> bool:
        return os.path.samestat(os.fstat(handle), Path(row.place).stat())

    def write(handle: int, data: bytes) -> int:
        calls.append("write") if is_it(handle) else None
        return real_write(handle, data)

    def sync(handle: int) -> None:
        calls.append("fsync") if is_it(handle) else None
        real_sync(handle)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fsync", sync)
    store.append(row.key, turn(1, "a0.1", lines=9))
    assert calls == ["write", "fsync"]


def test_looking_changes_nothing(folder: Folder) -> None:
    """Listing, searching, finding, reading and a miss leave every file as it is, and make none."""
    folder.put("old.jsonl", header3(), said("a", None, "one"))
    folder.put("v1.jsonl", line(type="session", id=OTHER, timestamp="2025-12-03T14:00:00.000Z", cwd="/p"))
    folder.put("torn.jsonl", header3("t"), said("a", None, "one"), b'{"type":"mess')
    before = folder.snapshot()
    store = folder.store()
    for row in store.listed():
        list(store.read(row.key))
        branch(store, row.key, store.leaf(row.key))
        store.entry(row.key, "a")
        store.get(row.key)
    list(store.search("one"))
    store.pending()
    with pytest.raises(NotFoundError):
        store.find("nobody", "")
    with pytest.raises(NotFoundError):
        store.append(SessionKey("atomic", "nobody"), turn(0, None))
    assert folder.snapshot() == before
    assert not (folder.path / ".atomic").exists()


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """It lists nothing and is not made by looking."""
    store = JsonlStore(tmp_path / "none", lambda: NOW)
    assert list(store.listed()) == []
    assert store.pending() == []
    assert not (tmp_path / "none").exists()


def test_what_is_no_folder(tmp_path: Path) -> None:
    """A file in a folder's place is a typed error."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailableError):
        JsonlStore(tmp_path / "file", lambda: NOW)


def test_a_folder_others_can_write_to(folder: Folder) -> None:
    """It is read, and never written to."""
    folder.path.chmod(0o777)
    store = folder.store()
    with pytest.raises(CacheRefusedError):
        store.create(facts(store))
    assert list(store.listed()) == []


def test_what_is_no_session_harms_nobody(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, FIFOs, loops of links, empty, foreign, damaged, newer and unreadable files are passed over; what is
    no file is not even opened, since that alone would wake who writes to a FIFO."""
    (folder.path / "folder.jsonl").mkdir()
    os.mkfifo(folder.path / "fifo.jsonl")
    (folder.path / "loop.jsonl").symlink_to("loop.jsonl")
    (folder.path / "around").symlink_to(folder.path)
    (folder.path / "gone.jsonl").symlink_to("nowhere")
    (folder.path / "device.jsonl").symlink_to("/dev/zero")
    folder.put("empty.jsonl")
    folder.put("blank.jsonl", b"\n\n \n")
    folder.put("text.jsonl", b"hello\n")
    folder.put("binary.jsonl", os.urandom(50_000))
    folder.put("array.jsonl", b"[1]\n")
    folder.put(
        "newer.jsonl", line(type="session", version=99, id="n", createdAt="2026-01-01T00:00:00Z", cwd="")
    )
    folder.put("foreign.jsonl", line(kind="header", version=4, id="f", createdAt=1, cwd="/"))
    folder.put("claude.jsonl", line(type="user", uuid="u", sessionId=UUID, message={}))
    folder.put("no-id.jsonl", line(type="session", version=3, timestamp="2026-01-01T00:00:00Z", cwd="/"))
    folder.put("huge-header.jsonl", b'{"type":"session","id":"' + b"x" * 9_000_000)
    folder.put("sound.txt", header3("txt"))
    folder.put(".hidden.jsonl", header3("hidden"))
    folder.put("sound.jsonl", header3(), said("a", None, "one"))
    before = folder.snapshot()
    found: list[str] = []
    opened: list[str] = []
    real = os.open

    def recording(path: str, *rest: int) -> int:
        opened.append(Path(path).name)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", recording)
    work = threading.Thread(target=lambda: found.extend(row.facts.id for row in folder.store().listed()))
    work.start()
    work.join(20)
    assert found == [UUID]
    assert not {"fifo.jsonl", "device.jsonl", "folder.jsonl"} & set(opened)
    store = folder.store()
    store.append(KEY, turn(1, "a"))
    store.delete(KEY)
    after = folder.snapshot()
    assert {name: after[name] for name in before if name != "sound.jsonl"} == {
        name: kept for name, kept in before.items() if name != "sound.jsonl"
    }


def test_headers_of_every_age(folder: Folder) -> None:
    """Formats 1 to 4 and the early alpha are listed with the folder and time of their headers."""
    for version in (None, 2, 3, 4):
        parts = {"version": version} if version else {}
        folder.put(
            f"{version}.jsonl",
            line(type="session", id=f"v{version}", timestamp="2025-12-03T14:00:00.000Z", cwd="/p", **parts),
        )
    folder.put(
        "4b.jsonl", line(type="session", version=4, id="v4b", createdAt="2025-12-03T14:00:00.000Z", cwd="/p")
    )
    rows = list(folder.store().listed(project="path:/p"))
    assert {row.facts.id for row in rows} == {"vNone", "v2", "v3", "v4", "v4b"}
    assert {row.newest_at for row in rows} == {1764770400000}


def test_a_header_of_a_megabyte(folder: Folder) -> None:
    """A long header is read all the same, and its session goes on."""
    folder.put("long.jsonl", header3(extra="x" * 1_500_000), said("a", None, "one"))
    store = folder.store()
    (row,) = store.listed()
    assert (row.facts.id, row.first_message) == (UUID, "one")
    store.append(KEY, turn(1, "a"))
    assert folder.store().leaf(KEY) == "a1.1"


def test_a_large_file_is_listed_by_its_ends(folder: Folder) -> None:
    """Over 32 KiB the row comes from the first message and the newest entries; opened, from all."""
    middle = b"".join(said(f"m{n}", f"m{n - 1}" if n else "a", "x" * 500, NOW + n) for n in range(400))
    folder.put(
        "large.jsonl",
        header3(),
        said("a", None, "how it began"),
        middle,
        said("z", "m399", "end", NOW + 9000),
    )
    store = folder.store()
    (row,) = store.listed()
    assert (row.partial, row.first_message, row.newest_at) == (True, "how it began", NOW + 9000)
    assert row.messages < 100
    store.open(row.key)
    (row,) = store.listed()
    assert (row.partial, row.messages, row.newest_at) == (False, 402, NOW + 9000)


def test_long_lines_at_the_ends_of_a_large_file(folder: Folder) -> None:
    """A long line before the first prompt, and a tool's megabyte after the newest answer, hide neither."""
    system = said("s", None, "i" * 100_000, NOW, role="system")
    middle = said("m", "a", "o" * 2_000_000, NOW + 1, role="toolResult")
    tool = said("t", "b", "o" * 1_000_000, NOW + 6, role="toolResult")
    folder.put(
        "first.jsonl", header3(), system, said("a", "s", "first"), middle, said("b", "m", "last", NOW + 5)
    )
    folder.put(
        "last.jsonl", header3(OTHER), said("a", None, "first"), middle, said("b", "m", "last", NOW + 5), tool
    )
    for row in folder.store().listed():
        assert (row.first_message, row.newest_id, row.partial) == ("first", "b", True)


def test_unchanged_files_are_read_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second listing opens only what changed since, seen by size and time."""
    for number in range(5):
        folder.put(f"{number}.jsonl", header3(f"s{number}"), *[said("a", None, "x" * 5_000)] * 20)
    store = folder.store()
    assert all(row.partial for row in store.listed())
    list(store.listed())
    opened: list[str] = []
    real = os.open

    def counting(path: str, *rest: int) -> int:
        if str(path).endswith(".jsonl"):
            opened.append(Path(path).name)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", counting)
    list(store.listed())
    assert opened == []
    folder.put("3.jsonl", header3("s3"), said("a", None, "y" * 50_001))
    assert {row.first_message[0] for row in store.listed()} == {"x", "y"}
    assert opened == ["3.jsonl"]


def test_of_several_copies_the_newest_counts(folder: Folder) -> None:
    """Conflict copies of a sync tool are one session: the one with the newest message is listed and goes on,
    whatever its file's name and time; the others stay as they are."""
    first = header3(), said("a", None, "one", NOW)
    folder.put("x.jsonl", *first, mtime=2_000_000_000)
    newest = folder.put(
        "x.sync-conflict-1.jsonl", *first, said("b", "a", "two", NOW + 9), mtime=1_000_000_000
    )
    folder.put("sub/x (copy).jsonl", *first, said("c", "a", "other", NOW + 5))
    before = folder.snapshot()
    store = folder.store()
    (row,) = store.listed()
    assert (row.place, row.copies, row.newest_id) == (str(newest), 3, "b")
    assert store.leaf(KEY) == "b"
    store.open(KEY)
    store.append(KEY, turn(1, "b"))
    after = folder.snapshot()
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {newest.name}
    store.delete(KEY)
    assert list(folder.store().listed()) == []


def test_an_open_session_stays_in_its_file(folder: Folder) -> None:
    """A copy that gets ahead meanwhile does not take the conversation over."""
    mine = folder.put("x.jsonl", header3(), said("a", None, "one"))
    store = folder.store()
    store.open(KEY)
    folder.put("x.conflict.jsonl", header3(), said("a", None, "one"), said("b", "a", "ahead", NOW + 999))
    store.append(KEY, turn(0, "a"))
    assert mine.read_bytes().count(b"\n") == 4
    assert store.leaf(KEY) == "a0.1"


def test_a_link_stays_a_link(folder: Folder, tmp_path: Path) -> None:
    """A session behind a link is upgraded and appended to where it lies; a linked folder is read."""
    real = tmp_path / "elsewhere" / "real.jsonl"
    real.parent.mkdir()
    real.write_bytes(header3() + said("a", None, "one"))
    (folder.path / "linked.jsonl").symlink_to(real)
    (folder.path / "project").symlink_to(real.parent)
    store = folder.store()
    (row,) = store.listed()
    assert row.copies == 1
    store.open(KEY)
    store.append(KEY, turn(0, "a"))
    assert (folder.path / "linked.jsonl").is_symlink()
    assert real.read_bytes().count(b"\n") == 4


def test_the_trash_command_is_used(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a `trash` on the path the file goes there whole; without one, or when it fails, it is removed."""
    bin_folder, can = tmp_path / "bin", tmp_path / "can"
    bin_folder.mkdir()
    can.mkdir()
    program = bin_folder / "trash"
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    content = header3() + said("a", None, "one")
    for script, left in ((f'mv -- "$1" {can}/', [content]), ("exit 1", []), (None, [])):
        program.unlink(missing_ok=True)
        if script:
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        folder.put("-x.jsonl", content)
        store = folder.store()
        store.delete(KEY)
        assert list(store.listed()) == []
        assert not (folder.path / "-x.jsonl").exists()
        assert [path.read_bytes() for path in can.iterdir()] == left
        for path in can.iterdir():
            path.unlink()


def test_sessions_of_other_agents(folder: Folder) -> None:
    """Their lines are no format 4: refused by name, nothing is written."""
    store = folder.store()
    with pytest.raises(UnsupportedError):
        store.create(Facts("claude-code", UUID, "", "/p", "path:/p", NOW))
    with pytest.raises(StoreWriteError):
        store.create(facts(store), [Entry("a", None, 0, 0, b"two\nlines")])
    assert list(folder.path.glob("*.jsonl")) == []


def test_a_deleted_file_is_not_made_again(folder: Folder) -> None:
    """A file that goes under an open session is gone: a turn is refused, no headless file appears."""
    store = folder.store()
    row = store.create(facts(store), turn(0, None))
    Path(row.place).unlink()
    with pytest.raises(NotFoundError):
        store.append(row.key, turn(1, "a0.1"))
    assert list(folder.path.glob("*.jsonl")) == []
    folder.put(Path(row.place).name, header3("another"), said("a", None, "x"))
    with pytest.raises(NotFoundError):
        store.append(row.key, turn(1, "a0.1"))


def test_a_file_replaced_under_an_open_session(folder: Folder) -> None:
    """What another program put in its place is gone on with: nothing of it is lost."""
    store = folder.store()
    row = store.create(facts(store), turn(0, None))
    path = Path(row.place)
    more = path.read_bytes() + said("x", "a0.1", "theirs", NOW + 500)
    path.with_name("new").write_bytes(more)
    path.with_name("new").replace(path)
    store.append(row.key, turn(1, "a0.1"))
    assert path.read_bytes().startswith(more)
    assert [entry.id for entry in store.read(row.key)] == ["u0", "a0.1", "x", "u1", "a1.1"]


def test_rows_follow_names_and_folders(folder: Folder) -> None:
    """A rename shows in the next listing; files lie in any folder, the header says which project."""
    folder.put("--work-there--/x.jsonl", header3(cwd=HERE), said("a", None, "one"))
    folder.put("--work-here--/y.jsonl", header3(OTHER, cwd=THERE), said("a", None, "two"))
    store = folder.store()
    (row,) = store.listed(project=store.project_of(HERE))
    assert row.facts.id == UUID
    marks.rename(store, KEY, "named", NOW)
    assert next(folder.store().listed(project=store.project_of(HERE))).name == "named"


def test_what_lies_aside_may_have_lost_its_rights(folder: Folder) -> None:
    """A folder that was copied with other rights still offers its turns in flight, and still hides half a turn."""
    store = folder.store()
    row = store.create(facts(store), turn(0, None))
    store.begin("t1", row.key, Begun(facts(store), "prompt", NOW, turn(1, "a0.1")[:1]))
    store.answer("t1", Answered(turn(1, "a0.1")[1:], last=True))
    lines = turn(1, "a0.1")[0].raw + b"\n" + turn(1, "a0.1")[1].raw
    jsonl_intent.note(folder.path, Path(row.place), Path(row.place).stat().st_size, lines)
    with Path(row.place).open("ab") as stream:
        stream.write(lines[: lines.index(b"\n") + 1])
    for path in (folder.path / ".atomic").iterdir():
        path.chmod(0o644)
    again = folder.store()
    assert again.leaf(row.key) == "a0.1"
    (flight,) = again.pending()
    again.append(row.key, flight.entries, done=[flight.turn])
    assert [entry.id for entry in again.read(row.key)] == ["u0", "a0.1", "u1", "a1.1"]
    assert again.pending() == []


def test_the_header_says_whose_a_new_file_is(folder: Folder) -> None:
    """Whatever the facts beside it claim: the row is what the next listing shows."""
    store = folder.store()
    wrong = msgspec.structs.replace(facts(store, "notes"), project="git:h/p", scope="git:h/p")
    row = store.create(wrong)
    assert list(folder.store().listed()) == [row]
    for again in (facts(store, "notes"), wrong):
        with pytest.raises(SessionExistsError):
            store.create(again)
