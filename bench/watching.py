"""What `atomic capture --watch` costs while nobody writes, and how late it is when somebody does. Real processes."""

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from bench.stage import Figure, Machine, figure, median_of

IDLE_SECONDS = 20.0
SETTLE_SECONDS = 5.0
PATIENCE = 120.0
COPIES = 10
FOLDERS = 200


def watch_idle(root: Path, data: Path, runs: int) -> Iterator[Figure]:
    """CPU of an idle watch over 2,000 sessions in 200 folders of Claude Code and 400 dated folders of Codex, by
    `data`'s 200 sessions ten times over."""
    home = root / "watched"
    _spread(data / "home", home)

    def idle() -> float:
        with _watching(_machine(root, home)) as process:
            begun, before = time.monotonic(), _cpu(process.pid)
            time.sleep(IDLE_SECONDS)
            return 100 * (_cpu(process.pid) - before) / (time.monotonic() - begun)

    yield figure("watch_idle", median_of(min(runs, 3), idle), "%")


def watch_lag(root: Path, data: Path, runs: int) -> Iterator[Figure]:
    """Seconds until a line that an agent appended is in the cache: in a session written a moment ago, in one of
    long ago, and the first of a new session. The worst kind counts."""
    home = root / "followed"
    _spread(data / "home", home, copies=1)
    machine = _machine(root, home)
    files = sorted((home / ".claude" / "projects").rglob("*.jsonl"))
    key = LocalKey(base64.b64decode((machine.home / "key").read_bytes()))
    with (
        _watching(machine),
        Cache.open(machine.cache, key, machine.cache.with_name("journal.keyinfo"), create=False) as cache,
    ):
        recent, new = files[0], files[0].parent
        old = iter(files[1:])
        kinds: tuple[Callable[[], float], ...] = (
            lambda: _lag(cache, recent),
            lambda: _lag(cache, next(old)),
            lambda: _lag(cache, new / f"{uuid.uuid4()}.jsonl"),
        )
        worst = max(median_of(max(runs, 5), kind) for kind in kinds)
    yield figure("watch_lag", worst, "s")


def _machine(root: Path, home: Path) -> Machine:
    return Machine(root, f"watch{uuid.uuid4().hex[:8]}", home)


def _spread(source: Path, home: Path, copies: int = COPIES) -> None:
    """The sessions of a home some times over, in many folders, under ids of their own; and dated folders."""
    if home.exists():
        return
    files = sorted(source.rglob("*.jsonl"))
    for number, path in enumerate(path for _ in range(copies) for path in files):
        session = str(uuid.UUID(int=number + 1, version=4))
        folder = home / ".claude" / "projects" / f"-home-dev-project{number % FOLDERS}"
        folder.mkdir(parents=True, exist_ok=True)
        # A tenth of the lines: idle costs go with files, not with what is in them.
        lines = path.read_bytes().split(b"\n")[: max(2, 100 // copies)]
        content = b"\n".join(lines).replace(path.stem.encode(), session.encode()) + b"\n"
        (folder / f"{session}.jsonl").write_bytes(content)
    dated = home / ".codex" / "sessions"
    for day in range(400):
        folder = dated / f"{2025 + day // 336}" / f"{day // 28 % 12 + 1:02d}" / f"{day % 28 + 1:02d}"
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _watching(machine: Machine) -> Iterator["subprocess.Popen[str]"]:
    """A watch that has taken everything in and come to rest."""
    machine.run("capture")
    process = subprocess.Popen(
        [sys.executable, "-m", "atomic_agent.cli.app", "capture", "--watch"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=machine.environment,
        cwd=machine.home,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Watching"):
                break
        time.sleep(SETTLE_SECONDS)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far, in ns where the kernel counts them."""
    place = Path(f"/proc/{pid}/schedstat")
    if place.exists():
        return int(place.read_text(encoding="ascii").split()[0]) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _lag(cache: Cache, path: Path) -> float:
    """Append a message to a session's file and wait for it."""
    entry = str(uuid.uuid4())
    line = {
        "parentUuid": None,
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": "something new"},
        "uuid": entry,
        "timestamp": "2026-11-30T12:00:00.000Z",
        "cwd": "/home/dev/project0",
        "sessionId": path.stem,
        "version": "2.1.332",
    }
    with path.open("ab") as stream:
        stream.write(json.dumps(line).encode() + b"\n")
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        found = cache.connection.execute(
            cache.sql("SELECT 1 FROM {p}session_entries WHERE id = ?"), (entry,)
        ).fetchone()
        if found is not None:
            return time.monotonic() - begun
        time.sleep(0.01)
    raise RuntimeError("what was appended did not come in")
