"""Hostile session files, ids and flags, other processes, providers, and Ctrl-C: one sentence, the mend, a code."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from atomic_agent.demo.provider import DemoProvider
from system.machines import SECONDS, Machine, MakeMachine, claude_lines, until
from system.troubles import CANARY, SESSION, TURN, assert_nothing_leaked, assert_told, copied, used

PI = b'{"type":"session","version":%d,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n'


class Bad(Struct, frozen=True):
    """A row: a file that is no session, and what `--import` says of it."""

    name: str
    content: bytes
    said: str


FILES = [
    Bad("empty.jsonl", b"", "empty"),
    Bad("blank.jsonl", b"\n\n  \n", "empty"),
    Bad("foreign.jsonl", b'{"hello": 1}\n', "not a session"),
    Bad("noise.jsonl", bytes(range(256)) * 40, "not a session"),
    Bad("zeros.jsonl", bytes(100_000) + b"\n", "not a session"),
    Bad("deep.jsonl", b"[" * 200_000 + b"\n", "not a session"),
    Bad("page.html", b"<!doctype html><p>x", "not a session"),
    Bad("picture.jsonl", b"\x89PNG\r\n\x1a\n" + bytes(500), "not a session"),
    Bad("future.jsonl", PI % 99, "format 99"),
    Bad("other4.jsonl", b'{"kind":"header","version":4,"id":"x"}\n', "another program"),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return used(Machine(tmp_path_factory.mktemp("file-errors"), "original"))


@pytest.fixture
def laptop(original: Machine, machine: MakeMachine) -> Machine:
    return copied(original, machine("laptop"))


@pytest.mark.parametrize("bad", FILES, ids=lambda bad: bad.name)
def test_files_that_are_no_sessions(laptop: Machine, tmp_path: Path, bad: Bad) -> None:
    """An import names the file and why, exit 6; a capture skips it with the reason; neither changes anything."""
    folder = tmp_path / "files"
    folder.mkdir()
    path = folder / bad.name
    path.write_bytes(bad.content)
    before = laptop.sessions()
    done = laptop.atomic("--import", str(path), code=6)
    assert bad.name in done.err
    assert_told(laptop, done, bad.said, "")
    assert laptop.sessions() == before
    if bad.name.endswith(".jsonl"):
        skipped = json.loads(laptop.atomic("capture", "--from", str(folder), "--json").out)["skipped"]
        assert [(one["path"], bad.said in one["why"]) for one in skipped] == [(str(path), True)]
    assert path.read_bytes() == bad.content


@pytest.mark.parametrize("kind", ["folder", "missing", "link to nothing"])
def test_what_is_no_file(laptop: Machine, tmp_path: Path, kind: str) -> None:
    """A folder, a name without a file and a link to nothing are named, exit 6 or 7."""
    path = tmp_path / "there"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.symlink_to(tmp_path / "nowhere")
    done = laptop.atomic("--import", str(path), code=None)
    assert done.code in {6, 7}, done.err
    assert_told(laptop, done, str(path), "")


def test_hostile_lines_are_kept_and_not_shown(laptop: Machine) -> None:
    """Lines that are no JSON, hold half characters or escapes stand in a file between good ones: no error."""
    session = "0badcafe-0000-4000-8000-00000000000b"
    lines = claude_lines(session, str(laptop.folder), ["q", "a", "\x1b]52;c;AAAA\x07 end", "b"])
    path = laptop.claude_file(session, lines)
    torn = b'{"torn": \n\xff\xfe\xfd\n{"type":"user","message":"\\ud800"}\n' + b"[" * 100_000 + b"\n"
    path.write_bytes(torn + path.read_bytes())
    done = laptop.atomic("capture")
    assert "atomic: " not in done.err
    shown = laptop.shown(session)
    assert "end" in shown
    assert "\x1b]52" not in shown


def test_an_import_never_replaces(laptop: Machine, tmp_path: Path) -> None:
    """A second import of one id is refused, exit 12; the session is as it was."""
    path = tmp_path / "copy.jsonl"
    laptop.say("the original")
    (own,) = [one for one in laptop.sessions() if one["agent"] != "claude-code"]
    path.write_text(laptop.tree(own["id"]))
    before = laptop.sessions()
    done = laptop.atomic("--import", str(path), code=12)
    assert_told(laptop, done, "here already", "")
    assert laptop.sessions() == before


@pytest.mark.parametrize(
    ("command", "code", "said", "mend"),
    [
        (["show", "ffffffff"], 7, "There is no session", "atomic sessions --all"),
        (["show", "0badcafe"], 7, "fits several sessions", "Give the whole id"),
        (["show", "./a.jsonl"], 7, "a path, not a session id", "--import"),
        (["export", "ffffffff", "-", "--as", "md"], 7, "There is no session", "atomic sessions --all"),
        (["share", "ffffffff", "--yes"], 7, "There is no session", "atomic sessions --all"),
        (["sessions", "delete", "ffffffff", "--yes"], 7, "There is no session", "atomic sessions --all"),
        (["share", SESSION, "--public", "--password"], 2, "A public page", "Leave out"),
        (["share", SESSION, "--expires", "never"], 2, "that is no time", "12h"),
        (["export", SESSION, "-"], 2, "does not say what to write", "--as html"),
        (["capture", "nobody"], 2, "is not an agent", "It captures"),
        (["capture", "--from", "/nowhere/at-all"], 2, "no such folder", "Name a folder"),
        (["doctor", "--yes"], 2, "only --repair asks", "Add --repair"),
        (["--session", "a", "--fork", "b", "-p", "x"], 2, "cannot be used together", "Choose one"),
        (["-p", " "], 2, "The prompt is empty", "Give one"),
        (["sessions", "--session-dir", "/dev/null"], 16, "is not a folder", "--session-dir"),
        (["sessions", "--storage", '{"atom": true}'], 17, "one session", "Use the default store"),
        (["-r"], 2, "nobody to ask", "--session ID"),
        (
            ["--session-dir", "d", "--session-store", "s", "-c", "-p", "x"],
            2,
            "cannot be used together",
            "Choose one",
        ),
        (["sessions", "delete", SESSION], 13, "There is no terminal to ask", "--yes"),
    ],
)
def test_ids_and_flags(laptop: Machine, command: list[str], code: int, said: str, mend: str) -> None:
    """Names that fit nothing or too much, flags that cannot be used, and a yes that nobody can give."""
    other = "0badcafe-0000-4000-8000-00000000000c"
    laptop.claude_file(other, claude_lines(other, str(laptop.folder), ["q", "a"]))
    laptop.atomic("capture")
    done = laptop.atomic(*command, code=code)
    assert_told(laptop, done, said, mend)
    assert len(laptop.sessions()) == 2


# --- other processes ---------------------------------------------------------------------


@contextmanager
def _following(machine: Machine) -> Iterator[None]:
    watching = machine.start("capture", "--watch")
    assert watching.stderr is not None
    try:
        assert "Watching" in watching.stderr.readline()
        yield
    finally:
        watching.send_signal(signal.SIGTERM)
        watching.communicate(timeout=SECONDS)


def test_another_process_at_work(laptop: Machine) -> None:
    """A second follower of files: exit 14 and what to stop; all else works beside it."""
    with _following(laptop):
        assert_told(
            laptop, laptop.atomic("capture", "--watch", code=14), "Another process", "Stop that one first"
        )
        assert laptop.atomic("sessions").code == 0


def test_a_turn_in_a_session_that_another_process_writes(laptop: Machine, model: DemoProvider) -> None:
    """Exit 14; the first turn is complete all the same."""
    laptop.say("first")
    model.hanging.clear()
    hanging = laptop.start("-c", "-p", "[[hang]]", "--provider", "openai", "--model", "test")
    try:
        until(model.hanging.is_set)
        done = laptop.atomic(*TURN, code=14)
        assert_told(laptop, done, "writ", "--take-over")
    finally:
        hanging.send_signal(signal.SIGINT)
        _, err = hanging.communicate(timeout=SECONDS)
    assert hanging.returncode == 130
    assert err.splitlines()[-1] == "atomic: interrupted"


def test_a_provider_that_refuses(laptop: Machine) -> None:
    """A wrong key is told without the key, exit 10."""
    prompt = f"[[status: 401]] {CANARY}"
    done = laptop.atomic("-p", prompt, "--provider", "openai", "--model", "test", code=10)
    assert_told(laptop, done, "openai", "key")
    assert "test-key" not in done.err


def test_a_provider_that_is_not_there(laptop: Machine) -> None:
    """Nothing listens at the provider's address: exit 10, and nothing is half saved."""
    before = laptop.sessions()
    done = laptop.atomic(*TURN[1:], code=10, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert_nothing_leaked(laptop, done)
    assert [line for line in done.err.splitlines() if line.startswith("atomic: ")]
    assert laptop.sessions() == before


def test_success_says_nothing_on_stderr(laptop: Machine) -> None:
    """Exit 0: no line that looks like an error."""
    for command in (["sessions", "--all"], ["status"], ["capture"], ["show", SESSION]):
        assert "atomic: " not in laptop.atomic(*command, code=0).err
