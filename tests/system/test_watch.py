"""`atomic capture --watch` as a process: what agents write comes in by itself, through kills, rewrites and silence."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from system.machines import SECONDS, Machine, claude_lines, kill, until

IDLE_SECONDS = 6.0
IDLE_PERCENT = 1.0
LAG_SECONDS = 10.0
"""On a machine that does a hundred other things; the measurement is in bench/watching.py."""
CODEX = "01a22c7e-f3ec-7c20-b047-8c8a507b4011"


class Watching:
    """A running watch; its lines are read as they come."""

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self.process = machine.start("capture", "--watch", "--json", *arguments)
        self.talk: Queue[str] = Queue()
        self._changes: Queue[str] = Queue()
        self._readers = [
            threading.Thread(target=self._read, args=where, daemon=True)
            for where in ((self.process.stdout, self._changes), (self.process.stderr, self.talk))
        ]
        for reader in self._readers:
            reader.start()
        self.said("Watching; stop with Ctrl-C.")

    @staticmethod
    def _read(stream: Any, into: "Queue[str]") -> None:  # a text stream of subprocess
        for line in stream:
            into.put(line.rstrip("\n"))

    def said(self, words: str) -> str:
        """Wait for a line of talk."""
        deadline = time.monotonic() + SECONDS
        while True:
            line = self.talk.get(timeout=max(0.01, deadline - time.monotonic()))
            if words in line:
                return line

    def change(self, session: str) -> dict[str, Any]:
        """Wait for a session to grow."""
        deadline = time.monotonic() + SECONDS
        while True:
            found: dict[str, Any] = json.loads(
                self._changes.get(timeout=max(0.01, deadline - time.monotonic()))
            )
            if found["session"] == session:
                return found

    def entries(self, session: str, count: int) -> int:
        """Wait until so many entries of a session came in, in one change or in more; how many came."""
        came = 0
        while came < count:
            came += int(self.change(session)["entries"])
        return came

    def rest(self) -> list[dict[str, Any]]:
        """What else it told until now."""
        found = []
        while True:
            try:
                found.append(json.loads(self._changes.get_nowait()))
            except Empty:
                return found

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


Watch = Callable[..., Watching]


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "here")


@pytest.fixture
def watch(here: Machine) -> Iterator[Watch]:
    """Starts watches and ends them."""
    running: list[Watching] = []

    def start(*arguments: str) -> Watching:
        running.append(Watching(here, *arguments))
        return running[-1]

    yield start
    for one in running:
        one.stop()


def _session(here: Machine, texts: int = 2) -> tuple[str, Path, list[dict[str, Any]]]:
    session = str(uuid.uuid4())
    lines = claude_lines(session, str(here.folder), [f"text {n}" for n in range(texts)])
    return session, here.claude_file(session, lines), lines


def _line(session: str, number: int) -> bytes:
    (line,) = claude_lines(session, "/p", [f"more {number}"], start=number)
    return json.dumps(line | {"parentUuid": None}).encode() + b"\n"


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def test_what_agents_write_comes_in(here: Machine, watch: Watch) -> None:
    """Lines of a session that was there, a new session, and one in a folder that is made later; each is told once,
    soon after."""
    session, path, _ = _session(here)
    watching = watch()
    assert watching.change(session) == {
        "session": session,
        "agent": "claude-code",
        "entries": 2,
        "new": True,
        "rewritten": False,
    }
    begun = time.monotonic()
    _append(path, _line(session, 2))
    assert watching.change(session)["entries"] == 1
    assert time.monotonic() - begun < LAG_SECONDS
    second, _, _ = _session(here)
    assert watching.entries(second, 2) == 2
    third = str(uuid.uuid4())
    folder = path.parent.with_name("-made-later")
    folder.mkdir()
    (folder / f"{third}.jsonl").write_bytes(_line(third, 0))
    assert watching.entries(third, 1) == 1
    assert watching.stop(signal.SIGINT) == 0
    assert watching.rest() == []
    assert here.tree(session) == path.read_text()


def test_an_agent_that_is_installed_later(here: Machine, watch: Watch) -> None:
    """Its folder need not be there at the start."""
    watching = watch()
    folder = here.home / ".codex" / "sessions" / "2026" / "11" / "30"
    folder.mkdir(parents=True)
    (folder / f"rollout-2026-11-30T13-47-27-{CODEX}.jsonl").write_text(
        json.dumps({"timestamp": "2026-11-30T12:00:00Z", "type": "session_meta", "payload": {"id": CODEX}})
        + "\n"
    )
    assert watching.change(CODEX)["agent"] == "codex"
    session, _, _ = _session(here)
    assert watching.entries(session, 2) == 2
    assert watching.stop() == 0


def test_a_half_written_line_is_taken_in_once_it_is_whole(here: Machine, watch: Watch) -> None:
    """Not before, not twice."""
    session, path, _ = _session(here)
    watching = watch()
    watching.change(session)
    line = _line(session, 2)
    _append(path, line[:50])
    marker, _, _ = _session(here)
    assert watching.entries(marker, 2) == 2
    assert watching.rest() == []
    _append(path, line[50:])
    assert watching.change(session)["entries"] == 1
    watching.stop()
    assert here.tree(session) == path.read_text()


def test_files_that_are_rewritten_replaced_and_removed(here: Machine, watch: Watch) -> None:
    """What they held stays, what they hold now comes in; a file that goes takes nothing with it."""
    session, path, lines = _session(here)
    watching = watch()
    watching.change(session)
    path.write_bytes(_line(session, 7))
    assert watching.change(session) | {"entries": 1} == {
        "session": session,
        "agent": "claude-code",
        "entries": 1,
        "new": False,
        "rewritten": True,
    }
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes() + _line(session, 8))
    fresh.replace(path)
    assert watching.entries(session, 1) == 1
    path.unlink()
    again, _, _ = _session(here)
    assert watching.entries(again, 2) == 2
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_bytes(_line(session, 9))
    assert watching.entries(session, 1) == 1
    watching.stop()
    kept = set(here.tree(session).encode().splitlines(keepends=True))
    assert kept == {json.dumps(line).encode() + b"\n" for line in lines} | {
        _line(session, n) for n in (7, 8, 9)
    }


def test_a_fork_whose_session_comes_later(here: Machine, watch: Watch) -> None:
    """Is named once, and grows by what was said before it when that appears."""
    fork = CODEX.replace("01a22c7e", "01a22c81")
    base = {"thread_id": CODEX, "end_ordinal_exclusive": 2, "end_byte_offset": 0}
    folder = here.home / ".codex" / "sessions"
    folder.mkdir(parents=True)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "before"}]}

    def rollout(session: str, *records: dict[str, Any]) -> None:
        lines = [json.dumps({"timestamp": "2026-11-30T12:00:00Z", **record}) for record in records]
        (folder / f"rollout-x-{session}.jsonl").write_text("\n".join(lines) + "\n")

    rollout(fork, {"type": "session_meta", "payload": {"id": fork, "history_base": base}})
    watching = watch()
    assert watching.entries(fork, 1) == 1
    assert CODEX in watching.said(fork)
    rollout(
        CODEX, {"type": "session_meta", "payload": {"id": CODEX}}, {"type": "response_item", "payload": said}
    )
    assert watching.entries(CODEX, 2) == 2
    assert watching.entries(fork, 2) == 2
    watching.stop()
    assert "before" in here.shown(fork)


def test_what_cannot_be_read_is_said_once(here: Machine, watch: Watch) -> None:
    """And the rest goes on."""
    _, path, _ = _session(here)
    odd = path.with_name(f"{uuid.uuid4()}.jsonl")
    odd.write_text('{"hello":1}\n')
    watching = watch()
    assert watching.said(str(odd)).endswith(": not a session.")
    os.utime(odd)
    session, _, _ = _session(here)
    watching.entries(session, 2)
    watching.stop()
    assert [line for line in watching.talk.queue if str(odd) in line] == []


def test_killed_at_any_time_it_goes_on_where_it_was(here: Machine, watch: Watch) -> None:
    """kill -9 while an agent writes, again and again: every line is there once."""
    session, path, _ = _session(here)
    for turn in range(4):
        watching = watch()
        for number in range(20):
            _append(path, _line(session, 100 * (turn + 1) + number))
        if turn:
            watching.change(session)
        kill(watching.process)
        watching.stop()
    watching = watch()
    _append(path, _line(session, 999))
    until(lambda: here.tree(session) == path.read_text())
    assert watching.stop() == 0


def test_one_at_a_time(here: Machine, watch: Watch) -> None:
    """A second watch says that there is one; a single capture beside it is welcome; when the first is killed the
    next can start."""
    session, path, _ = _session(here)
    watching = watch()
    watching.change(session)
    assert "follows the agents' files already" in here.atomic("capture", "--watch", code=14).err
    _append(path, _line(session, 2))
    here.atomic("capture")
    assert here.tree(session) == path.read_text()
    kill(watching.process)
    assert watch().stop() == 0


def test_a_folder_of_any_agents_files(here: Machine, watch: Watch, tmp_path: Path) -> None:
    """--from is followed as the usual places are; one that is not there is refused."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    watching = watch("--from", str(folder))
    session = str(uuid.uuid4())
    (folder / f"{session}.jsonl").write_bytes(_line(session, 0))
    assert watching.entries(session, 1) == 1
    watching.stop()
    assert "no such folder" in here.atomic("capture", "--watch", "--from", "/nowhere", code=2).err


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_idle_it_costs_next_to_nothing(here: Machine, watch: Watch) -> None:
    """With 2,000 sessions in 200 folders less than one percent of a CPU; the bench holds it to half of that."""
    projects = here.home / ".claude" / "projects"
    for number in range(2000):
        session = str(uuid.UUID(int=number + 1, version=4))
        folder = projects / f"-p{number % 200}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{session}.jsonl").write_bytes(_line(session, 0))
    watching = watch()
    came = 0
    while came < 2000:
        came += json.loads(watching._changes.get(timeout=SECONDS))["entries"]

    def percent() -> float:
        begun, before = time.monotonic(), _cpu(watching.process)
        threading.Event().wait(IDLE_SECONDS)
        return 100 * (_cpu(watching.process) - before) / (time.monotonic() - begun)

    # A noisy neighbour may spoil one window, hardly three.
    assert any(percent() < IDLE_PERCENT for _ in range(3))


def _cpu(process: "subprocess.Popen[str]") -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
