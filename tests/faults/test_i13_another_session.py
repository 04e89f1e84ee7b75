"""I13: another session's file where one was read before: neither takes anything of the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from agent.capture.files import NOW, PI_ID, SID, append, content_of, exported, lines, message, rows
from atomic_agent.cache.cache import Cache
from atomic_agent.capture import run, sources
from atomic_agent.keys.local_key import LocalKey

SESSIONS = {
    "pi": (PI_ID.encode(), b"01a22c81-aaaa-70af-aa13-6f2a524f0b20"),
    "codex": (SID.encode(), b"615753d9-aaaa-4f7e-8341-494c874882a7"),
}
"""The session that `content_of` writes, and the id of another one."""


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    folder = tmp_path / "cache"
    with Cache.open(folder / "journal.sqlite", LocalKey(bytes(32)), folder / "journal.keyinfo") as found:
        yield found


def capture(cache: Cache, path: Path) -> run.Report:
    """A capture of one file that does not look at its name."""
    return run.capture(cache, [sources.Source(path)], only=[], now=NOW)


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("of", ["pi", "codex"])
def test_i13_another_sessions_file_in_its_place(
    cache: Cache, tmp_path: Path, of: str, *, emptied: bool
) -> None:
    """At once or after the file was empty: a session of its own, and each holds its own lines alone."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(content_of(of, message(of, 0), message(of, 1)))
    (_, mine), other = SESSIONS[of], content_of(of, message(of, 5, "elsewhere")).replace(*SESSIONS[of])
    capture(cache, path)
    before = lines(cache)
    if emptied:
        path.write_bytes(b"")
        capture(cache, path)
    path.write_bytes(other)
    report = capture(cache, path)
    assert (report.new, report.entries) == (1, 2)
    assert exported(cache, mine.decode()) == other
    (first,) = rows(cache).keys() - {mine.decode()}
    assert lines(cache, first) == before
    append(path, message(of, 6, "and on") + b"\n")
    assert capture(cache, path).entries == 1
    assert exported(cache, mine.decode()) == path.read_bytes()
    assert lines(cache, first) == before


def test_i13_another_session_in_a_packed_file(cache: Cache, tmp_path: Path) -> None:
    """Also where the whole file is read anew each time."""
    path = tmp_path / "session.jsonl.zst"
    _, mine = SESSIONS["pi"]
    for content in (
        first := content_of("pi", message("pi", 0)),
        other := content_of("pi", message("pi", 5, "elsewhere")).replace(*SESSIONS["pi"]),
    ):
        path.write_bytes(zstandard.compress(content))
        capture(cache, path)
    assert exported(cache, PI_ID) == first
    assert exported(cache, mine.decode()) == other


def test_i13_lines_that_do_not_say_whose_they_are(cache: Cache, tmp_path: Path) -> None:
    """A file cut at its top, or whose first line is damaged, is still the session it was."""
    path = tmp_path / f"rollout-x-{SID}.jsonl"
    path.write_bytes(content_of("codex", message("codex", 0), message("codex", 1)))
    capture(cache, path)
    for content in (message("codex", 1) + b"\n", b"{\n" + message("codex", 1) + b"\n", b"\n{}\n"):
        path.write_bytes(content)
        assert capture(cache, path).new == 0
    assert list(rows(cache)) == [SID]
