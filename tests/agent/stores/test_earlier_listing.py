"""Earlier sessions in lists: beside the database's, from as little of their files as is enough."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.stores.earlier_made import KEY, Earlier, format1, session, stage
from agent.stores.jsonl_made import header3, line, said
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, OTHER, THERE, UUID, facts, made
from atomic_agent import projects
from atomic_agent.cache.open import BUSY_SECONDS, transaction
from atomic_agent.stores import earlier_files
from atomic_agent.stores.earlier import EarlierStore
from atomic_agent.stores.rows import Row
from atomic_sessions.clock import iso

LARGE = 40 * 1024


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Earlier]:
    found = Earlier(tmp_path)
    yield found
    found.close()


def ids(store: EarlierStore, **chosen: Any) -> list[str]:
    return [row.facts.id for row in store.listed(**chosen)]


def only(store: EarlierStore) -> Row:
    (row,) = store.listed()
    return row


def kept(store: EarlierStore) -> list[str]:
    """The names of the files whose rows are in the database."""
    rows = store.cache.connection.execute("SELECT path FROM session_earlier ORDER BY path").fetchall()
    return [Path(os.fsdecode(path)).name for (path,) in rows]


def large(*texts: str, at: int = NOW) -> list[bytes]:
    """A session of more than 32 KiB between the first text and the others."""
    lines = session(UUID, "first words", at=at - 10_000)
    parent = "e1"
    for number in range(8):
        lines.append(said(f"m{number}", parent, f"middle{number} " + "x" * (LARGE // 8), at - 9000 + number))
        parent = f"m{number}"
    for number, text in enumerate(texts):
        lines.append(said(f"n{number}", parent, text, at + number, "assistant"))
        parent = f"n{number}"
    return lines


def test_beside_the_databases_own(place: Earlier) -> None:
    """One list of both, the newest message first whosever it is."""
    store = place.store()
    for number in range(3):
        made(store, f"d{number}", at=NOW + number * 20_000)
        place.put(f"--p--/f{number}.jsonl", *session(f"f{number}", at=NOW + number * 20_000 + 10_000))
    assert ids(store) == ["f2", "d2", "f1", "d1", "f0", "d0"]
    assert ids(place.store(), limit=2, offset=1) == ["d2", "f1"]
    assert next(place.database().listed(limit=1)).facts.id == "d2"


def test_the_newest_of_a_project_is_an_earlier_one(place: Earlier) -> None:
    """What `-c` takes: the first row of the project, from a file where that is the newest."""
    store = place.store()
    made(store, "old", at=NOW - 50_000)
    place.put("a/x.jsonl", *session(UUID))
    place.put("a/y.jsonl", *session(OTHER, cwd=THERE, at=NOW + 9000))
    assert ids(store, project=store.project_of(HERE), folder=HERE, limit=1) == [UUID]


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        (format1(), 3),
        ([line(type="session", version=2, id=UUID, timestamp=iso(NOW), cwd=HERE), said("a", None, "one")], 1),
        ([header3(), said("a", None, "one")], 1),
        ([line(type="session", version=4, id=UUID, timestamp=iso(NOW), cwd=HERE), said("a", None, "one")], 1),
        ([line(type="session", version=4, id=UUID, timestamp=NOW, cwd=HERE), said("a", None, "one")], 1),
        ([line(type="session", version=4, id=UUID, createdAt=iso(NOW), cwd=HERE), said("a", None, "one")], 1),
    ],
    ids=["1", "2", "3", "alpha", "alpha-number", "4"],
)
def test_every_format_is_listed(place: Earlier, lines: list[bytes], messages: int) -> None:
    """Formats 1 to 4 and the early alpha's header, with what a list shows of them."""
    place.put("--work-here--/x.jsonl", *lines)
    row = only(place.store())
    assert (row.key, row.facts.cwd, row.facts.created_at) == (KEY, HERE, NOW)
    assert (row.first_message, row.messages, row.partial) == ("one", messages, False)


def test_what_cannot_be_read_is_skipped(place: Earlier) -> None:
    """Neither an error nor a row: damage, foreign files, pipes, folders, newer formats, names that only look right."""
    for name, content in {
        "empty": b"",
        "blank": b"\n\n",
        "noise": os.urandom(900),
        "nul": bytes(40_000),
        "half": b'{"type":"session","version":3,"id":"x"',
        "array": b"[1]\n",
        "future": header3().replace(b'"version": 3', b'"version": 99'),
        "number": header3().replace(b'"version": 3', b'"version": "three"'),
        "no-id": line(type="session", version=3, timestamp=iso(NOW), cwd=HERE),
        "surrogate": header3().replace(UUID.encode(), b"\\ud83d"),
        "other": line(kind="header", version=4, id=UUID),
        "message": said("a", None, "no header"),
    }.items():
        place.put(f"a/{name}.jsonl", content)
    os.mkfifo(place.folder.path / "a" / "pipe.jsonl")
    (place.folder.path / "a" / "folder.jsonl").mkdir()
    (place.folder.path / "a" / "loop.jsonl").symlink_to("loop.jsonl")
    (place.folder.path / "a" / "gone.jsonl").symlink_to("nowhere.jsonl")
    place.put("a/session.jsonl.bak", *session())
    place.put("a/deep/er.jsonl", *session())
    assert ids(place.store()) == []
    place.put("b/good.jsonl", *session(OTHER))
    assert ids(place.store()) == [OTHER]


@pytest.mark.parametrize(
    "lines",
    [
        [b"\xef\xbb\xbf" + header3(), said("a", None, "one")],
        [header3()[:-1] + b"\r\n", said("a", None, "one")[:-1] + b"\r\n"],
        [b"\n\n", header3(), b"\n", said("a", None, "one"), b"\n"],
        [header3(), bytes(300), said("a", None, "one")],
        [header3(), b"{broken\n", said("a", None, "one"), said("b", "a", "torn", NOW + 9)[:-20]],
        [header3(), said("a", None, "one")[:-1]],
        [header3(padding="p" * (1 << 20) + "q"), said("a", None, "one")],
        [
            header3(),
            line(type="context_window_change", id="c", parentId=None, timestamp=NOW - 9, contextWindow=1),
            b'{"type":"context_window_change","id":"d","parentId":null,"timestamp":1e999,"contextWindow":1e999}\n',
            b"[" * 100_000 + b"\n",
            b'{"a":' * 100_000 + b"\n",
            said("a", "c", "one"),
        ],
    ],
    ids=["bom", "crlf", "blank", "nul", "damaged", "no-newline", "header-1-mib", "beyond-measure"],
)
def test_odd_files_are_listed(place: Earlier, lines: list[bytes]) -> None:
    """As far as their lines can be read, before they are opened and after."""
    place.put("a/x.jsonl", *lines)
    before = place.everything()
    store = place.store()
    row = only(store)
    assert (row.key, row.first_message, row.messages) == (KEY, "one", 1)
    opened = store.open(KEY)
    assert (opened.first_message, opened.messages, opened.newest_at) == ("one", 1, row.newest_at)
    assert place.everything() == before


def test_texts_of_any_kind(place: Earlier) -> None:
    """A lone surrogate, a NUL and separators of other lines stay within their line."""
    text = "a\u2028b\u2029c\x00d\x85e"
    place.put(
        "a/x.jsonl", header3(), said("a", None, text), said("b", "a", "z").replace(b'"z"', b'"\\ud83d"')
    )
    store = place.store()
    assert only(store).first_message.startswith("a b c")
    assert store.open(KEY).messages == 2
    assert [entry.id for entry in store.read(KEY)] == ["a", "b"]
    assert b"\\ud83d" in list(store.read(KEY))[1].raw


def test_a_large_file_is_listed_from_its_ends(place: Earlier) -> None:
    """Over 32 KiB the row is made from the first message and the newest entries; once opened it is exact."""
    place.put("a/x.jsonl", *large("last words", at=NOW))
    store = place.store()
    row = only(store)
    assert (row.partial, row.first_message, row.newest_at, row.newest_id) == (True, "first words", NOW, "n0")
    assert row.messages < 10
    opened = store.open(KEY)
    assert (opened.partial, opened.messages, opened.newest_id) == (False, 10, "n0")
    assert only(store) == opened == only(place.store())


def test_searched_by_what_a_list_reads(place: Earlier) -> None:
    """Of a large file the first message and the newest entries; all of it once it is opened."""
    place.put("a/x.jsonl", *large("last words", "very last"))
    place.put("a/y.jsonl", *session(OTHER, "small one", "two small", at=NOW - 60_000))
    store = place.store()

    def found(query: str) -> list[str]:
        return [hit.entry for hit in store.search(query)]

    assert (found("first words"), found("very last")) == (["e1"], ["n1"])
    assert [found(f"middle{number}") for number in range(5)] == [[]] * 5
    assert (found("small"), found("wor"), found("words"), found("")) == (["e1"], ["e1"], ["e1"], [])
    assert len(list(store.search("words", limit=0))) == 0
    hit = next(store.search("very last"))
    assert (hit.row.key, hit.snippet) == (KEY, "very last")
    store.open(KEY)
    assert found("middle3") == ["m3"]
    made(store, "d", at=NOW + 5)
    assert [hit.row.facts.id for hit in store.search("prompt")] == ["d"]


def test_a_large_file_of_format_1_is_searched(place: Earlier) -> None:
    """Its entries have no ids until all of them are read, so a hit names none."""
    lines = format1()
    filler = line(
        type="message",
        timestamp=iso(NOW),
        message={"role": "toolResult", "content": "x" * LARGE, "timestamp": NOW},
    )
    place.put("a/x.jsonl", *lines[:-1], filler, lines[-1])
    store = place.store()
    assert only(store).partial
    assert [(hit.row.key, hit.entry) for query in ("one", "two") for hit in store.search(query)] == [
        (KEY, "")
    ] * 2
    store.open(KEY)
    assert all(store.entry(KEY, hit.entry) for query in ("one", "two") for hit in store.search(query))


def test_search_joins_both(place: Earlier) -> None:
    """One order, one hit a session, no more than asked for."""
    store = place.store()
    for number in range(3):
        made(store, f"d{number}", at=NOW + number * 20_000)
        place.put(f"a/{number}.jsonl", *session(f"f{number}", "prompt", at=NOW + number * 20_000 + 10_000))
    assert [hit.row.facts.id for hit in store.search("prompt")] == ["f2", "d2", "f1", "d1", "f0", "d0"]
    assert [hit.row.facts.id for hit in store.search("prompt", limit=3)] == ["f2", "d2", "f1"]


@pytest.mark.parametrize("newest", [0, 1, 2])
def test_the_copy_with_the_newest_message_is_listed(place: Earlier, newest: int) -> None:
    """One row for all copies, whatever they are called and whichever file was touched last."""
    names = ("x.jsonl", "x (conflicted copy).jsonl", "x.sync-conflict-20260101-120000-ABCDEFG.jsonl")
    for number, name in enumerate(names):
        at = NOW + 1000 * (number == newest)
        place.put(f"a/{name}", *session(UUID, f"copy {number}", at=at), mtime=5000 - 9 * (number == newest))
    row = only(place.store())
    assert (row.first_message, row.copies, Path(row.place).name) == (f"copy {newest}", 3, names[newest])
    assert place.store().open(KEY).first_message == f"copy {newest}"


def test_a_link_is_no_copy(place: Earlier) -> None:
    """Linked project folders are read, and a file that can be reached twice is one."""
    away = place.root / "away"
    away.mkdir()
    (away / "x.jsonl").write_bytes(b"".join(session()))
    (place.folder.path / "--linked--").symlink_to(away)
    (place.folder.path / "--again--").symlink_to(away)
    os.link(away / "x.jsonl", place.folder.path / "hard.jsonl")
    row = only(place.store())
    assert (row.key, row.copies) == (KEY, 1)


def test_the_header_alone_tells_the_project(place: Earlier) -> None:
    """Two projects whose folders have one name do not see each other's sessions."""
    place.put("--a-b-c--/x.jsonl", *session("one", cwd="/a/b-c"))
    place.put("--a-b-c--/y.jsonl", *session("two", cwd="/a-b/c", at=NOW + 1))
    place.put("--a-b-c--/z.jsonl", *session("none", cwd="", at=NOW + 2))
    store = place.store()
    for identity, cwd in (("one", "/a/b-c"), ("two", "/a-b/c")):
        assert ids(store, project=store.project_of(cwd), folder=cwd) == [identity]
        assert ids(store, project=store.project_of(cwd), folder="") == [identity]
    assert ids(store, project="", folder="") == []
    assert ids(store) == ["none", "two", "one"]


def test_one_custom_id_in_two_projects(place: Earlier) -> None:
    """They are two sessions, each with its own copy in the database."""
    place.put("a/x.jsonl", *session("notes", "here"))
    place.put("b/x.jsonl", *session("notes", "there", cwd=THERE))
    store = place.store()
    here, there = store.find("notes", store.project_of(HERE)), store.find("notes", store.project_of(THERE))
    assert (here.first_message, there.first_message) == ("here", "there")
    assert store.open(here.key).first_message == "here"
    assert {row.first_message for row in place.store().listed()} == {"here", "there"}


def test_stages_are_hidden_and_found(place: Earlier) -> None:
    """A workflow stage's session is in no list, and opens by its id."""
    place.put("a/x.jsonl", *session())
    place.put("a/stage.jsonl", *stage(OTHER, UUID))
    store = place.store()
    assert (ids(store), set(ids(store, internal=True))) == ([UUID], {UUID, OTHER})
    row = store.find(OTHER[:8], "")
    assert (row.facts.internal, row.facts.parent) == (True, UUID)
    assert store.open(row.key).facts.internal
    assert ids(store) == [UUID]


def test_short_names_count_both(place: Earlier) -> None:
    """Eight characters are enough where neither a file nor the database has another session of that beginning."""
    near = UUID[:-1] + "f"
    place.put("a/x.jsonl", *session())
    place.put("a/y.jsonl", *session(OTHER))
    store = place.store()
    made(store, near)
    named = dict(zip(ids(store), store.called(list(store.listed())), strict=True))
    assert named == {UUID: UUID, near: near, OTHER: OTHER[:8]}


def test_a_second_list_reads_no_file(place: Earlier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are kept in the database by time, size and inode; what changed is read again, what went is forgotten."""
    for number in range(4):
        place.put(f"a/{number}.jsonl", *session(f"s{number}", at=NOW + number))
    place.put("a/noise.jsonl", b"noise\n")
    told: list[tuple[int, int]] = []
    first = place.store(progress=lambda done, total: told.append((done, total)))
    rows = list(first.listed())
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    told.clear()
    assert list(place.store(progress=lambda done, total: told.append((done, total))).listed()) == rows
    assert told == []
    place.put("a/0.jsonl", *session("s0", "changed", at=NOW + 99))
    (place.folder.path / "a" / "1.jsonl").unlink()
    later = place.store(progress=lambda done, total: told.append((done, total)))
    assert ids(later) == ["s0", "s3", "s2"]
    assert told == [(1, 1)]
    assert kept(later) == ["0.jsonl", "2.jsonl", "3.jsonl", "noise.jsonl"]
    (place.folder.path / "a" / "2.jsonl").unlink()
    assert ids(place.store()) == ["s0", "s3"]
    assert kept(later) == ["0.jsonl", "3.jsonl", "noise.jsonl"]
    monkeypatch.setattr(earlier_files, "READER", 2)
    told.clear()
    list(place.store(progress=lambda done, total: told.append((done, total))).listed())
    assert len(told) == 3


def test_a_newer_format_is_looked_at_again(place: Earlier) -> None:
    """A newer program will know it, so that it is no session now is not kept."""
    place.put("a/future.jsonl", header3().replace(b'"version": 3', b'"version": 99'))
    place.put("a/noise.jsonl", b"noise")
    store = place.store()
    assert (ids(store), kept(store)) == ([], ["noise.jsonl"])


def test_a_held_database_stops_no_list(place: Earlier) -> None:
    """While another process writes, rows are not kept, and nobody waits for it."""
    place.put("a/x.jsonl", *session())
    holder, store = place.database(), place.store()
    with transaction(holder.cache.connection):
        begun = time.monotonic()
        assert ids(store) == [UUID]
        assert time.monotonic() - begun < BUSY_SECONDS / 2
        assert [hit.row.facts.id for hit in store.search("hello")] == [UUID]
    assert store.cache.connection.execute("PRAGMA busy_timeout").fetchone()[0] > 1000
    assert ids(place.store()) == [UUID]


def test_a_list_within_other_work_keeps_nothing(place: Earlier) -> None:
    """What could not be kept must not take back what it was asked for in the middle of."""
    place.put("a/x.jsonl", *session())
    store = place.store()
    with transaction(store.cache.connection):
        assert ids(store) == [UUID]
    assert kept(store) == []


def test_rows_are_kept_encrypted_only(place: Earlier) -> None:
    """What files say is in no other file in plain."""
    place.put("a/x.jsonl", *session(UUID, "pelican-7f3a9"))
    store = place.store()
    assert only(store).first_message == "pelican-7f3a9"
    store.open(KEY)
    for path in (place.root / "kept").rglob("*"):
        assert b"pelican" not in path.read_bytes()


def test_no_folder_and_an_unreadable_one(place: Earlier, tmp_path: Path) -> None:
    """The database's sessions are listed all the same."""
    made(place.store())
    for folder in (tmp_path / "nowhere", tmp_path / "kept" / "sessions.sqlite"):
        assert ids(EarlierStore(place.database().cache, folder, lambda: NOW)) == [UUID]
    assert not (tmp_path / "nowhere").exists()


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_projects_are_told_by_git_once(
    place: Earlier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository's session is in its project from any folder; git is asked again only when the folder is another."""
    work = tmp_path / "work"
    inner = work / "inner"
    inner.mkdir(parents=True)
    git(work, "init", "-q")
    git(work, "remote", "add", "origin", "https://h.x/o/p.git")
    place.put("a/x.jsonl", *session(cwd=str(inner)))
    asked: list[str] = []
    real = projects.project_of.__wrapped__

    def project_of(folder: str) -> str:
        asked.append(folder)
        return real(folder)

    monkeypatch.setattr(projects, "project_of", project_of)
    for _ in range(2):
        assert ids(place.store(syncs=True), project="git:h.x/o/p", folder="/elsewhere") == [UUID]
    assert asked == [str(inner)]
    git(work, "remote", "set-url", "origin", "https://h.x/o/renamed.git")
    assert ids(place.store(syncs=True), project="git:h.x/o/p", folder="/elsewhere") == []
    assert ids(place.store(syncs=True), project="git:h.x/o/renamed", folder="/elsewhere") == [UUID]
    assert len(asked) == 2
    work.rename(tmp_path / "moved")
    assert ids(place.store(syncs=True), project="git:h.x/o/renamed", folder="/elsewhere") == [UUID]
    inner.mkdir(parents=True)
    assert ids(place.store(syncs=True), project="git:h.x/o/renamed", folder="/elsewhere") == []
    assert ids(place.store(syncs=True), project=f"path:{inner}", folder="/elsewhere") == [UUID]


def test_a_folder_without_a_remote(place: Earlier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is asked once of a plain folder too, and again of a repository when it has its first commit."""
    plain, work = tmp_path / "plain", tmp_path / "work"
    for folder in (plain, work):
        folder.mkdir()
        place.put(f"{folder.name}/x.jsonl", *session(folder.name, cwd=str(folder)))
    git(work, "init", "-q")
    asked: list[str] = []
    real = projects.project_of.__wrapped__

    def project_of(folder: str) -> str:
        asked.append(Path(folder).name)
        return real(folder)

    monkeypatch.setattr(projects, "project_of", project_of)
    for _ in range(2):
        found = {row.facts.id: row.facts.project for row in place.store(syncs=True).listed()}
        assert found == {"plain": f"path:{plain}", "work": f"path:{work}"}
    assert sorted(asked) == ["plain", "work"]
    git(work, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "first")
    found = {row.facts.id: row.facts.project for row in place.store(syncs=True).listed()}
    assert found["work"].startswith("root:")
    assert sorted(asked) == ["plain", "work", "work"]


def test_many_in_the_database_are_not_read_for_a_page(
    place: Earlier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page takes of the database what can be on it, and git is asked for no project that is further down."""
    store = place.store()
    for number in range(30):
        store.create(facts(store, f"d{number:02}", at=NOW - number * 10))
    for number in range(3):
        place.put(
            f"a/{number}.jsonl",
            *session(UUID[:-1] + str(number), cwd=f"/f{number}", at=NOW - number * 100 - 5),
        )
    asked: list[str] = []

    def of(cwd: str) -> str:
        asked.append(cwd)
        return "p"

    monkeypatch.setattr(store._projects, "of", of)
    whole = ids(store)
    for offset in range(34):
        assert ids(store, limit=4, offset=offset) == whole[offset : offset + 4]
    asked.clear()
    assert ids(store, project=store.project_of(HERE), folder=HERE, limit=1) == ["d00"]
    assert asked == []
