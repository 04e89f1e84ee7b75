"""I13: an agent's file rewritten, cut, rotated, replaced or gone, before or while it is read: nothing that was taken in
is lost or overwritten, nothing is made up, and equal content adds nothing."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.cache.stored import Emptied
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
    rows,
    text_of,
    the_row,
)
from atomic_agent.cache.cache import Cache
from atomic_agent.capture import begin, follow, run, sources
from atomic_agent.keys.local_key import LocalKey


def capture(cache: Cache, path: Path, heard: Callable[[], object] = lambda: None) -> run.Report:
    """A capture of one file that does not look at its name; `heard` is called in the middle of reading it."""

    def progress(*_: int) -> None:
        heard()

    return run.capture(cache, [sources.Source(path)], only=[], now=NOW, progress=progress)


def raws(cache: Cache) -> set[bytes]:
    return {entry.raw for entry in lines(cache)} if rows(cache) else set()


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
    """A session of two messages, not captured yet."""
    path = tmp_path / "files" / file_name(agent)
    path.parent.mkdir()
    path.write_bytes(content_of(agent, message(agent, 0), message(agent, 1)))
    return path


def test_i13_a_rewritten_file_keeps_both(cache: Cache, file: Path, agent: str) -> None:
    """Other content before the offset: the new lines come in, the old ones stay, and it is said once."""
    capture(cache, file)
    before = raws(cache)
    fresh = content_of(agent, message(agent, 7, "another"), message(agent, 1), message(agent, 8, "more"))
    file.write_bytes(fresh)
    assert capture(cache, file).rewritten == 1
    assert raws(cache) == before | set(fresh.splitlines())
    again = capture(cache, file)
    assert (again.rewritten, again.entries, again.unchanged) == (0, 0, 1)


def test_i13_a_truncated_file_keeps_what_it_held(cache: Cache, file: Path, agent: str) -> None:
    """An agent that cuts its file takes nothing away; what it writes then comes in."""
    capture(cache, file)
    before = lines(cache)
    file.write_bytes(content_of(agent, message(agent, 0)))
    report = capture(cache, file)
    assert (report.rewritten, report.entries) == (1, 0)
    assert lines(cache) == before
    append(file, message(agent, 5, "a new way") + b"\n")
    assert capture(cache, file).entries == 1
    file.write_bytes(file.read_bytes()[:-9])
    assert capture(cache, file).held_back == 1
    assert raws(cache) == {entry.raw for entry in before} | {message(agent, 5, "a new way")}


def test_i13_an_emptied_file_keeps_what_it_held(cache: Cache, file: Path) -> None:
    """Nought bytes where a session was is no deletion."""
    capture(cache, file)
    before = lines(cache)
    file.write_bytes(b"")
    assert capture(cache, file).skipped == []
    assert lines(cache) == before


def test_i13_a_rotated_file_is_followed(cache: Cache, file: Path, agent: str) -> None:
    """A new inode under the same name with more lines: only the news comes in. The old file beside it, still
    growing, is the same session."""
    capture(cache, file)
    old = file.rename(file.with_name(f"old-{file.name}"))
    file.write_bytes(old.read_bytes() + message(agent, 2, "after the rename") + b"\n")
    report = capture(cache, file)
    assert (report.rewritten, report.entries) == (0, 1)
    assert exported(cache) == file.read_bytes()
    if agent != "claude-code":
        # Claude Code's sessions are called as their files are.
        assert capture(cache, old).entries == 0


def test_i13_equal_content_adds_nothing(cache: Cache, file: Path) -> None:
    """Touched, copied over, written anew, linked or moved: the same lines are the same entries."""
    capture(cache, file)
    content = file.read_bytes()
    moved = file.with_name("moved") / file.name
    moved.parent.mkdir()

    def touched() -> None:
        os.utime(file, ns=(1, 1))

    def anew() -> None:
        file.unlink()
        file.write_bytes(content)

    def linked() -> None:
        file.rename(moved)
        file.symlink_to(moved)

    for change in (touched, anew, linked):
        change()
        assert capture(cache, file).entries == 0
    assert capture(cache, moved).entries == 0
    assert exported(cache) == content


def test_i13_replaced_by_something_else(cache: Cache, file: Path, agent: str) -> None:
    """A folder, a pipe that nobody writes to, a link to nowhere or to a device: skipped with the reason, at once, and
    the session is as it was."""
    capture(cache, file)
    before = lines(cache)
    file.unlink()
    file.mkdir()
    reasons = [capture(cache, file).skipped[0].why]
    file.rmdir()
    os.mkfifo(file)
    assert follow._opened(file) is None
    reasons.append(capture(cache, file).skipped[0].why)
    file.unlink()
    file.symlink_to("/dev/zero")
    reasons.append(capture(cache, file).skipped[0].why)
    assert set(reasons) == {"not a regular file"}
    file.unlink()
    file.symlink_to("/nowhere/at/all")
    assert capture(cache, file).skipped[0].why.startswith("unreadable")
    assert lines(cache) == before
    file.unlink()
    file.write_bytes(content_of(agent, message(agent, 0), message(agent, 1), message(agent, 2)))
    assert capture(cache, file).entries == 1


def _cut(path: Path, _: bytes) -> None:
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 3)


def _emptied(path: Path, _: bytes) -> None:
    path.write_bytes(b"")


def _overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _rotated(path: Path, content: bytes) -> None:
    fresh = path.with_name("fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


def _a_pipe(path: Path, _: bytes) -> None:
    path.unlink()
    os.mkfifo(path)


def _gone(path: Path, _: bytes) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [_cut, _emptied, _overwritten, _rotated, _a_pipe, _gone])
@pytest.mark.parametrize("moment", [1, 2, 5])
def test_i13_changed_while_it_is_read(
    cache: Cache,
    file: Path,
    agent: str,
    change: Callable[[Path, bytes], None],
    moment: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever becomes of a file in the middle of reading it: each entry is a line that the file once held whole, and
    with the next capture all that it holds now is there."""
    monkeypatch.setattr(follow, "CHUNK", 700)
    monkeypatch.setattr(follow, "BATCH_LINES", 3)
    old = content_of(agent, *(message(agent, n, "old " * 9) for n in range(20)))
    new = content_of(agent, *(message(agent, n, "quite another " * (n % 5 + 1)) for n in range(30)))
    file.write_bytes(old)
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        if heard == moment:
            change(file, new)

    capture(cache, file, hear)
    assert heard >= moment
    capture(cache, file)
    held = set(old.splitlines()) | set(new.splitlines())
    assert raws(cache) <= held
    if change in {_overwritten, _rotated}:
        assert set(new.splitlines()) <= raws(cache)
    count = len(lines(cache))
    if file.is_file():
        capture(cache, file)
        assert len(lines(cache)) == count


@pytest.mark.parametrize("longer", [False, True])
def test_i13_rewritten_between_two_glances(
    cache: Cache, file: Path, agent: str, monkeypatch: pytest.MonkeyPatch, *, longer: bool
) -> None:
    """A file that was still what it had been, and is another when it is read on from there: nothing is read from the
    middle of a line."""
    capture(cache, file)
    append(file, message(agent, 2, "appended") + b"\n")
    old = file.read_bytes()
    new = content_of(agent, *(message(agent, n, "quite another " * 9) for n in range(40 if longer else 3)))
    real = begin.still_there

    def rewritten_after(*arguments: object) -> bytes | None:
        found = real(*arguments)  # type: ignore[arg-type]  # passed on as it came
        if file.read_bytes() == old:
            file.write_bytes(new)
        return found

    monkeypatch.setattr(begin, "still_there", rewritten_after)
    assert capture(cache, file).rewritten == 1
    assert raws(cache) == set(old.splitlines()[:-1]) | set(new.splitlines())


RACER = """
import random, select, sys
from pathlib import Path
path, lines, rewriting = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes().splitlines(keepends=True), sys.argv[3]
rolls = random.Random(int(sys.argv[4]))
held = [lines[0]]
stream = path.open("r+b", buffering=0)
at = 1
print("ready", flush=True)
while at < len(lines) and not select.select([sys.stdin], [], [], 0)[0]:
    line = lines[at]
    at += 1
    cut = rolls.randrange(len(line))
    stream.seek(0, 2)
    stream.write(line[:cut])
    stream.write(line[cut:])
    held.append(line)
    if rewriting == "yes" and rolls.random() < 0.02:
        held = [lines[0], *rolls.sample(lines[1:at], min(at - 1, rolls.randrange(1, 60)))]
        stream.seek(0)
        stream.truncate()
        for kept in held:
            stream.write(kept)
"""


@pytest.mark.parametrize("rewriting", [False, True])
def test_i13_a_writer_that_races_with_the_capture(
    cache: Cache, file: Path, agent: str, tmp_path: Path, *, rewriting: bool
) -> None:
    """Another process appends in two steps a line, and rewrites the file now and then, while it is captured again and
    again: no entry is a piece of a line, and at the end all that stands in the file is there; appended lines once
    and in their order."""
    rolls = random.Random(13)
    every = [*head(agent), *(message(agent, n, "x" * rolls.randrange(1, 3000)) for n in range(6000))]
    file.write_bytes(every[0] + b"\n")
    script = tmp_path / "lines"
    script.write_bytes(text_of(every))
    words = [sys.executable, "-c", RACER, str(file), str(script), "yes" if rewriting else "no", "7"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(12):
            capture(cache, file)
        writer.stdin.close()
    assert writer.returncode == 0
    capture(cache, file)
    assert raws(cache) <= set(every)
    assert set(file.read_bytes().splitlines()) <= raws(cache)
    if not rewriting:
        assert exported(cache) == file.read_bytes()


@pytest.fixture(scope="module")
def emptied() -> Iterator[Emptied]:
    with Emptied() as found:
        yield found


_STEPS = st.lists(
    st.tuples(st.just("grow"), st.integers(1, 400))
    | st.tuples(st.just("cut"), st.integers(0, 900))
    | st.tuples(st.just("rewrite"), st.integers(0, 5))
    | st.tuples(st.just("look"), st.just(0)),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(agent=st.sampled_from(AGENTS), steps=_STEPS)
def test_i13_any_life_of_a_file(
    emptied: Emptied, tmp_path_factory: pytest.TempPathFactory, agent: str, steps: list[tuple[str, int]]
) -> None:
    """A file that grows by any number of bytes, is cut anywhere, or rewritten, and is looked at in between: what was
    captured is the set of the lines that were whole when it was looked at."""
    cache = emptied.fresh()
    path = tmp_path_factory.getbasetemp() / "lives" / file_name(agent)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    coming = b"".join(line + b"\n" for line in [*head(agent), *(message(agent, n) for n in range(60))])
    whole: set[bytes] = set()
    made = 100
    for number, (step, size) in enumerate([*steps, ("look", 0)]):
        if step == "grow":
            with path.open("ab") as stream:
                stream.write(coming[:size])
            coming = coming[size:]
        elif step == "cut":
            content = path.read_bytes()
            coming = content[size:] + coming if size < len(content) else coming
            path.write_bytes(content[:size])
        elif step == "rewrite":
            fresh = [message(agent, made + n) for n in range(size)]
            made += size
            rest = b"".join(line + b"\n" for line in (message(agent, made + n) for n in range(40)))
            made += 40
            path.write_bytes(content_of(agent, *fresh))
            coming = rest
        else:
            # The mtime may not move within a test.
            os.utime(path, ns=(1, number + 1))
            capture(cache, path)
            *found, tail = path.read_bytes().split(b"\n")
            whole |= set(found)
            if _is_json(tail):
                whole.add(tail)
            assert raws(cache) == whole, (agent, step)
    assert the_row(cache).id if whole else not rows(cache)


def _is_json(tail: bytes) -> bool:
    try:
        return isinstance(json.loads(tail), dict)
    except ValueError:
        return False
