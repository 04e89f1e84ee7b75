"""Following one file: what is appended, odd, glued, moved or gone. Rewrites and half lines: tests/faults."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.cache.stored import Emptied
from agent.capture.files import (
    OTHER,
    SID,
    append,
    capture,
    claude,
    exported,
    lines,
    pi,
    pi_header,
    raw,
    rows,
    text_of,
    the_row,
)
from atomic_agent.cache import entries, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.cache.search import search
from atomic_agent.capture import follow
from strategies import broken_files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A Claude Code session of two records."""
    path = tmp_path / "files" / f"{SID}.jsonl"
    path.parent.mkdir()
    path.write_bytes(text_of([claude(0, "first question"), claude(1, "first answer")]))
    return path


def test_what_is_appended_comes_in_once(cache: Cache, file: Path) -> None:
    """Capture, append, capture: new lines only, and a third look reads nothing."""
    report = capture(cache, file.parent)
    assert (report.new, report.entries) == (1, 2)
    append(file, claude(2, "second question"))
    report = capture(cache, file.parent)
    assert (report.new, report.updated, report.entries) == (0, 1, 1)
    assert report.bytes == len(raw(claude(2, "second question")))
    report = capture(cache, file.parent)
    assert (report.unchanged, report.entries, report.bytes) == (1, 0, 0)
    assert exported(cache) == file.read_bytes()
    row = the_row(cache)
    assert (row.messages, row.first_message, row.agent) == (3, "first question", "claude-code")
    assert [hit.session.id for hit in search(cache, "second")] == [SID]


def test_a_touched_file_is_unchanged(cache: Cache, file: Path) -> None:
    """Another mtime or inode with the same content brings nothing in."""
    capture(cache, file.parent)
    os.utime(file, ns=(1, 1))
    assert capture(cache, file.parent).unchanged == 1
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    report = capture(cache, file.parent)
    assert (report.unchanged, report.rewritten, report.entries) == (1, 0, 0)


@pytest.mark.parametrize(
    "rest", [b"\r\n", b'{"type":"mode","mode":"plan","sessionId":"x"}\n', b" \n", b"\x00\x00\n", b"}\n"]
)
def test_a_last_line_that_grows_after_it_was_taken_in(cache: Cache, file: Path, rest: bytes) -> None:
    """What was taken in early and turns out to be only the beginning of a line gives way to the line."""
    append(file, raw(claude(2, "taken in early")))
    capture(cache, file.parent)
    append(file, rest)
    capture(cache, file.parent)
    assert exported(cache) == file.read_bytes()
    assert the_row(cache).messages == 3 - (rest[:1] in {b"{", b"\x00", b"}"})


def test_what_was_sent_is_not_taken_back(cache: Cache, file: Path) -> None:
    """An early last line that is in a record already stays, though the line grew: others may have it."""
    append(file, raw(claude(2, "sent early")))
    capture(cache, file.parent)
    cache.connection.execute("UPDATE session_entries SET sealed = 1")
    append(file, b'{"glued":1}\n')
    capture(cache, file.parent)
    assert [hit.session.id for hit in search(cache, '"sent early"')] == [SID]
    assert len(lines(cache)) == 4


ODD = [
    b"",
    b"   ",
    b"\r",
    b"\x00" * 300,
    b"\x00" * 9 + raw(claude(2, "after the power cut")),
    raw(claude(3, "stub"))[:50] + raw(claude(4, "glued whole")),
    raw(claude(5, "one")) + raw(claude(6, "two")),
    raw(claude(7, "line\u2028separator\u2029and\x85next")),
    raw(claude(8, "with carriage return")) + b"\r",
    b"not json at all",
    b'{"type":"user"',
    b"\xff\xfe\xfa",
    b"[1,2]",
    b"12",
    b'"text"',
    b"null",
    b"{}",
    b'{"type":"user","uuid":"9","message":{"role":"user","content":"half \\ud83d character"}}',
]


def test_odd_lines_are_kept_byte_for_byte(cache: Cache, file: Path) -> None:
    """NULs, blanks, CRLF, U+2028, glued and broken lines: the export is the file."""
    append(file, text_of(ODD), claude(9, "the end"))
    report = capture(cache, file.parent)
    assert exported(cache) == file.read_bytes()
    assert report.damaged > 5
    for words in ('"after the power cut"', '"glued whole"', "two", '"carriage return"', '"the end"'):
        assert list(search(cache, words)), words


@pytest.mark.parametrize("first", [b"\xef\xbb\xbf", b"\x00" * 8, b"\n\n", b"garbage\n", b"\r\n"])
@pytest.mark.parametrize("agent", ["claude-code", "pi"])
def test_a_damaged_beginning(cache: Cache, tmp_path: Path, first: bytes, agent: str) -> None:
    """A BOM, NULs or noise before the first record do not hide the session."""
    records = (
        [claude(0, "hello"), claude(1, "hi")] if agent != "pi" else [pi_header(), pi(0, "hello"), pi(1, "hi")]
    )
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(first + text_of(records))
    report = capture(cache, path)
    assert report.skipped == []
    assert exported(cache) == path.read_bytes()
    assert the_row(cache).messages >= 1 + (agent == "pi")
    assert the_row(cache).agent == agent


@pytest.mark.parametrize("agent", ["claude-code", "pi"])
def test_a_first_line_of_any_length(cache: Cache, tmp_path: Path, agent: str) -> None:
    """A pasted picture in the first record, or a header of more than a megabyte, is a session all the same."""
    big = "y" * 1_500_000
    records = [claude(0, big), claude(1, "hi")] if agent != "pi" else [pi_header(extra=big), pi(0, "hello")]
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(text_of(records))
    report = capture(cache, path)
    assert report.skipped == []
    assert exported(cache) == path.read_bytes()


def test_a_vanished_file_deletes_nothing(cache: Cache, file: Path) -> None:
    """The session stays; when the file comes back nothing is doubled."""
    capture(cache, file.parent)
    content = file.read_bytes()
    file.unlink()
    assert capture(cache, file.parent).files == 0
    assert len(lines(cache)) == 2
    file.write_bytes(content)
    assert capture(cache, file.parent).entries == 0
    assert exported(cache) == content


def test_one_session_in_two_files(cache: Cache, tmp_path: Path) -> None:
    """Two copies that went on apart are one tree; common lines are there once."""
    common = [pi_header(), pi(0, "common"), pi(1, "answer")]
    one, two = tmp_path / "a" / "x.jsonl", tmp_path / "b" / "x.jsonl"
    for path, text in ((one, "left"), (two, "right")):
        path.parent.mkdir()
        path.write_bytes(text_of([*common, {**pi(2, text), "id": text}]))
    report = capture(cache, tmp_path)
    assert (report.new, report.updated) == (1, 1)
    assert [entry.id for entry in lines(cache)][1:3] == ["00000000", "00000001"]
    assert sorted(entry.id for entry in lines(cache))[3:] == ["left", "right"] or len(lines(cache)) == 5
    assert capture(cache, tmp_path).entries == 0


def test_moving_a_file_doubles_nothing(cache: Cache, file: Path) -> None:
    """The same session at another path (a renamed project) is the same session."""
    capture(cache, file.parent)
    moved = file.parent / "elsewhere" / file.name
    moved.parent.mkdir()
    file.rename(moved)
    assert capture(cache, moved.parent).entries == 0
    append(moved, claude(2, "goes on"))
    assert capture(cache, moved.parent).entries == 1
    assert exported(cache) == moved.read_bytes()


def test_a_deleted_session_is_not_revived(cache: Cache, file: Path) -> None:
    """Neither its file, nor growth of it, nor a copy of it bring it back."""
    capture(cache, file.parent)
    with transaction(cache.connection):
        sessions.mark_deleted(cache, the_row(cache).key)
    for _ in range(2):
        report = capture(cache, file.parent)
        assert (report.deleted, report.entries, report.skipped) == (1, 0, [])
        append(file, claude(2, "still talking"))
    copy = file.parent / "copy" / file.name
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())
    assert capture(cache, copy).deleted == 1
    assert rows(cache) == {}
    assert not list(search(cache, "question"))


def test_a_fork_of_a_session_is_its_own(cache: Cache, file: Path) -> None:
    """A replay of the same records under another name is another session."""
    capture(cache, file.parent)
    fork = file.with_name(f"{OTHER}.jsonl")
    fork.write_bytes(text_of([claude(0, "first question", sid=OTHER), claude(1, "first answer", sid=OTHER)]))
    capture(cache, file.parent)
    assert set(rows(cache)) == {SID, OTHER}
    assert exported(cache, OTHER) == fork.read_bytes()


def test_a_clock_in_the_future_is_bounded(cache: Cache, tmp_path: Path) -> None:
    """A record stamped far ahead gets the time it was taken in and five minutes, its bytes unchanged."""
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(text_of([{**claude(0, "from 2090"), "timestamp": "2090-01-01T00:00:00.000Z"}]))
    capture(cache, path, now=1_000_000)
    assert the_row(cache).newest_at == 1_000_000 + 300_000
    assert exported(cache) == path.read_bytes()


def test_batches_of_a_large_file(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the file is cut into transactions and chunks, the entries are the same."""
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(text_of([claude(n, f"text {n}") for n in range(40)]))
    monkeypatch.setattr(follow, "BATCH_LINES", 7)
    monkeypatch.setattr(follow, "CHUNK", 333)
    report = capture(cache, path)
    assert report.entries == 40
    assert exported(cache) == path.read_bytes()
    assert [entry.pos for entry in lines(cache)] == list(range(40))


class Killed(BaseException):
    """Stands for kill -9 between two transactions."""


def test_a_kill_between_batches_loses_and_doubles_nothing(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each batch the offset is on the disk with its entries; the next run goes on there."""
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(text_of([claude(n, f"text {n}") for n in range(30)]))
    monkeypatch.setattr(follow, "BATCH_LINES", 4)
    real, calls = entries.insert, 0

    def dying(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Killed
        return real(*arguments, **named)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(entries, "insert", dying)
    for _ in range(20):
        try:
            capture(cache, path)
            break
        except Killed:
            continue
    monkeypatch.setattr(entries, "insert", real)
    capture(cache, path)
    assert exported(cache) == path.read_bytes()
    assert [entry.pos for entry in lines(cache)] == list(range(30))


HEADS = [
    b"",
    text_of([pi_header()]),
    text_of([claude(0, "q")]),
    text_of([{"type": "session", "id": "old", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p"}]),
]


@settings(max_examples=100, deadline=None)
@given(head=st.sampled_from(HEADS), rest=broken_files(), cut=st.floats(0, 1), again=st.floats(0, 1))
@example(head=HEADS[1], rest=b'{"type":"message","id":"x","message":1}{"type":"mess', cut=0.929, again=1.0)
@example(
    head=HEADS[2],
    rest=b'{"uuid":"u","sessionId":"s","type":"user","message":"a"}\r\n\r\n',
    cut=0.988,
    again=1.0,
)
def test_two_captures_are_one(
    emptied: Emptied,
    tmp_path_factory: pytest.TempPathFactory,
    head: bytes,
    rest: bytes,
    cut: float,
    again: float,
) -> None:
    """Any damaged file captured while it grows, at any two moments, gives the entries of one capture."""
    content = head + rest + b"\n"
    path = tmp_path_factory.getbasetemp() / "growing" / f"{SID}.jsonl"
    path.parent.mkdir(exist_ok=True)
    found = []
    for parts in ([1.0], [cut, max(cut, again), 1.0]):
        cache = emptied.fresh()
        for part in parts:
            size = round(len(content) * part)
            # A file is told apart by size, mtime and inode; the mtime may not move within a test.
            path.write_bytes(content[:size])
            os.utime(path, ns=(1, 1 + size))
            # Which session it is must be the same in both ways, so the head is there from the start.
            if size >= len(head) and (head or size == len(content)):
                capture(cache, path)
        found.append([] if not rows(cache) else lines(cache))
        pieces = content.split(b"\n")[:-1]
        if found[0] and len(set(pieces)) == len(pieces):
            assert exported(cache) == content
    pieces = content.split(b"\n")[:-1]
    if len(set(pieces)) == len(pieces):
        assert found[0] == found[1], (content, cut, again)
    # Where lines repeat, the time and parent of one that has none of its own may depend on the cut.
    assert {(e.id, e.raw) for e in found[0]} == {(e.id, e.raw) for e in found[1]}, (content, cut, again)


MEASURE = """
import resource, sys
from pathlib import Path
from atomic_agent.cache.cache import Cache
from atomic_agent.capture import run, sources
from atomic_agent.keys.local_key import LocalKey
folder = Path(sys.argv[1])
with Cache.open(folder / "c" / "db", LocalKey(bytes(32)), folder / "c" / "keyinfo") as cache:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = run.capture(cache, list(sources.find_any(folder / "big.jsonl")), only=[], now=1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(report.entries, report.bytes, grown)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kB on Linux only")
def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """60 MB come in with less than 120 MB more memory."""
    noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(320))
    with (tmp_path / "big.jsonl").open("wb") as stream:
        stream.write(text_of([pi_header()]))
        for number in range(3000):
            stream.write(raw(pi(number, f"{number} {noise}", "toolResult")) + b"\n")
    size = (tmp_path / "big.jsonl").stat().st_size
    assert size > 60_000_000
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    count, read, grown = map(int, done.stdout.split())
    assert count == 3001
    assert read == size - count
    assert grown < 120_000
