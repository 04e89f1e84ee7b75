"""A machine for a test: home, project, key file, and the real command line."""

import base64
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from atomic_agent.cache import entries, sessions
from atomic_agent.cache.sessions import SessionRow
from atomic_agent.cli import app
from atomic_agent.demo.provider import DemoProvider
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_sessions.errors import AtomicError

CANARY = "sk-canary-7f3a9"
DEADLINE = 20.0


class Ran:
    """What a command said and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"<{self.code} out={self.out!r} err={self.err!r}>"


class NotATerminal(io.StringIO):
    """Standard input that is a pipe."""


class Machine:
    """A home, a project folder, a key file and an environment."""

    def __init__(self, root: Path, provider: DemoProvider, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.provider = provider
        self._capsys = capsys
        self.home.mkdir()
        self.project.mkdir()
        key = root / "key"
        key.touch(0o600)
        key.write_bytes(base64.b64encode(bytes(range(32))))
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "ATOMIC_HOME": str(self.home / ".atomic"),
            "ATOMIC_KEY_FILE": str(key),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "NO_PROXY": "127.0.0.1",
            "OPENAI_API_KEY": CANARY,
            "OPENAI_BASE_URL": provider.openai_url,
        }

    def atomic(self, *arguments: str, stdin: str = "") -> Ran:
        """Run a command in this process."""
        sys.stdin = NotATerminal(stdin)
        try:
            code = app.run(list(arguments))
            error = ""
        except AtomicError as failed:
            code, error = failed.exit_code, f"atomic: {failed}\n"
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err + error)

    def start(self, *arguments: str, stdin: int | IO[str] = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        """Run a command as a real process."""
        return subprocess.Popen(
            [sys.executable, "-m", "atomic_agent.cli.app", *arguments],
            env=self.env,
            cwd=self.project,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def script(self, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Python in a real process with this machine's environment."""
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=self.env,
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    def journal(self) -> Journal:
        return open_journal(Home(Path(self.env["ATOMIC_HOME"])))

    def rows(self) -> list[SessionRow]:
        """All sessions, newest first."""
        with self.journal() as journal:
            return list(sessions.listed(journal.cache))

    def lines(self, row: SessionRow) -> list[bytes]:
        """The raw lines of a session in their order."""
        with self.journal() as journal:
            return [stored.entry.raw for stored in entries.read(journal.cache, row.key)]

    def count(self, table: str) -> int:
        """How many rows one of the cache's tables has."""
        with self.journal() as journal:
            return int(
                journal.cache.connection.execute(f"SELECT count(*) FROM session_{table}").fetchone()[0]
            )


def until(true: Callable[[], object], what: str) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.01)


def listed(machine: Machine, *flags: str) -> list[dict[str, Any]]:
    """The sessions of a store as scripts see them."""
    ran = machine.atomic("sessions", *flags, "--all", "--json")
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def done(ran: Ran) -> dict[str, Any]:
    """The last object of `--mode json`."""
    assert ran.code == 0, ran
    found: dict[str, Any] = json.loads(ran.out.splitlines()[-1])
    return found
