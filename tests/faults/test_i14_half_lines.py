"""I14: a last line that its agent has written only half is read later, when it is whole, and once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.capture.files import (
    AGENTS,
    NOW,
    append,
    content_of,
    exported,
    file_name,
    head,
    lines,
    message,
    text_of,
)
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.search import search
from atomic_agent.capture import run, sources
from atomic_agent.keys.local_key import LocalKey


def capture(cache: Cache, path: Path) -> run.Report:
    return run.capture(cache, [sources.Source(path)], only=[], now=NOW)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    folder = tmp_path / "cache"
    with Cache.open(folder / "journal.sqlite", LocalKey(bytes(32)), folder / "journal.keyinfo") as found:
        yield found


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path, agent: str) -> Path:
    """A session of two messages."""
    path = tmp_path / file_name(agent)
    path.write_bytes(content_of(agent, message(agent, 0), message(agent, 1)))
    return path


def test_i14_half_a_line_waits(cache: Cache, file: Path, agent: str) -> None:
    """It is in no list and no search until it is whole; the report says that something waits."""
    count = len(head(agent)) + 2
    record = message(agent, 2, "halved")
    append(file, record[: len(record) * 3 // 4])
    report = capture(cache, file)
    assert (report.entries, report.held_back, report.damaged) == (count, 1, 0)
    assert not list(search(cache, "halved"))
    append(file, record[len(record) * 3 // 4 :] + b"\n")
    report = capture(cache, file)
    assert (report.entries, report.held_back) == (1, 0)
    assert len(list(search(cache, "halved"))) == 1
    assert exported(cache) == file.read_bytes()


def test_i14_byte_by_byte(cache: Cache, file: Path, agent: str) -> None:
    """However many looks fall into a line, it comes in once."""
    capture(cache, file)
    before = len(lines(cache))
    record = message(agent, 2, "slow") + b"\n"
    came = 0
    for at in range(len(record)):
        append(file, record[at : at + 1])
        came += capture(cache, file).entries
    assert came == 1
    assert len(lines(cache)) == before + 1
    assert exported(cache) == file.read_bytes()


def test_i14_whole_without_its_newline(cache: Cache, file: Path, agent: str) -> None:
    """A record that parses is there at once, and is not doubled when its newline comes."""
    append(file, message(agent, 2, "no newline yet"))
    capture(cache, file)
    assert exported(cache) == file.read_bytes() + b"\n"
    append(file, b"\n" + message(agent, 3, "and the answer") + b"\n")
    assert capture(cache, file).entries == 1
    assert exported(cache) == file.read_bytes()


def test_i14_a_first_line_that_is_not_whole(cache: Cache, tmp_path: Path, agent: str) -> None:
    """Says nothing yet of whose the file is: no session comes to be of half of it, and the whole one is as it
    should be, in its project."""
    content = content_of(agent, message(agent, 0), message(agent, 1))
    path = tmp_path / file_name(agent)
    first = content.index(b"\n")
    for at in (1, first // 2, first - 1):
        path.write_bytes(content[:at])
        report = capture(cache, path)
        assert [one.why for one in report.skipped] == ["its first line is unfinished"]
    path.write_bytes(content)
    report = capture(cache, path)
    assert (report.new, report.skipped) == (1, [])
    assert exported(cache) == content


def test_i14_a_beginning_that_says_little(cache: Cache, tmp_path: Path) -> None:
    """A session seen when its first line named no folder belongs to the project that a later one names."""
    path = tmp_path / file_name("claude-code")
    path.write_bytes(text_of([{"type": "mode", "mode": "normal", "sessionId": path.stem}]))
    capture(cache, path)
    append(path, message("claude-code", 0) + b"\n")
    capture(cache, path)
    found = cache.connection.execute("SELECT project, cwd FROM session_sessions").fetchall()
    assert found == [("path:/home/dev/proj", "/home/dev/proj")]


@pytest.mark.parametrize("glued", [False, True])
def test_i14_a_line_cut_by_a_kill(cache: Cache, file: Path, agent: str, *, glued: bool) -> None:
    """An agent that was killed in a line goes on behind it, with a newline first or without: the stub is kept, as
    damage, and what came whole is read."""
    capture(cache, file)
    stub = message(agent, 2, "never finished")[:-30]
    append(file, stub)
    assert capture(cache, file).held_back == 1
    append(file, (b"" if glued else b"\n") + message(agent, 3, "after the restart") + b"\n")
    report = capture(cache, file)
    assert (report.damaged, report.held_back) == (1, 0)
    assert len(list(search(cache, '"after the restart"'))) == 1
    assert exported(cache) == file.read_bytes()
