"""What the demo stands on: a service of its own, machines with homes of their own, plain step lines."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

REMOTE = "https://git.example.com/demo/project.git"
READY_SECONDS = 60


class DemoError(Exception):
    """Something was not as it should be; the message says what."""


class Steps:
    """Prints one plain line a step, with its time, and remembers how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self.started = time.monotonic()

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Run one step; what it puts into the list is printed behind its name."""
        found: list[str] = []
        before = time.monotonic()
        yield found
        self.count += 1
        detail = f": {'; '.join(found)}" if found else ""
        print(f"{self.count:2}. {what}{detail} ({time.monotonic() - before:.1f} s)", flush=True)


class Service:
    """`atomic-service dev` as a process, stopped and started again on the same data and port."""

    def __init__(self, data: Path, *, keep: bool) -> None:
        self._data = data
        self._keep = keep
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.url = ""
        self.invite = ""

    def start(self) -> None:
        """Start and wait until it answers; the first start yields the invite."""
        command = [
            sys.executable,
            "-m",
            "atomic_service",
            "dev",
            "--data",
            str(self._data),
            "--port",
            str(self.port),
        ]
        log = self._data.with_suffix(".log").open("ab")
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=self._keep
        )
        log.close()
        assert self._process.stdout is not None
        wanted = {"ready"} if self.invite else {"ready", "invite"}
        for line in self._process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "ready":
                self.url = rest
                self.port = int(rest.rsplit(":", 1)[1])
            elif word == "invite":
                self.invite = rest
            wanted.discard(word)
            if not wanted:
                return
        raise DemoError(f"the service did not start; see {self._data.with_suffix('.log')}")

    @property
    def pid(self) -> int:
        """The running process, 0 when it is stopped."""
        return self._process.pid if self._process is not None else 0

    def stop(self) -> None:
        """SIGTERM, and a clean exit."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(READY_SECONDS)
        self._process = None
        if code != 0:
            raise DemoError(f"the service ended with code {code}")


class LocalModel:
    """The small provider of `demo.provider`, as a process of its own."""

    def __init__(self, root: Path, *, keep: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "atomic_agent.demo.provider", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            start_new_session=keep,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().removeprefix("ready").strip()
        self.pid = self._process.pid

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


class Machine:
    """One machine: a home, a project folder, and the program `atomic` run there."""

    def __init__(self, name: str, root: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        self.home = root / name
        self.folder = self.home / "code" / "project"
        self.folder.mkdir(parents=True)
        self._key = self.home / "key"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("ATOMIC_", "CLAUDE_", "PI_"))},
            **settings,
            "HOME": str(self.home),
            "ATOMIC_HOME": str(self.home / ".atomic"),
            "ATOMIC_KEY_FILE": str(self._key),
        }
        self._make_key()
        self._git("init", "-q")
        self._git("remote", "add", "origin", REMOTE)

    def _make_key(self) -> None:
        handle = os.open(self._key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(base64.b64encode(os.urandom(32)) + b"\n")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.folder), *arguments], check=True, capture_output=True)

    def atomic(self, *arguments: str, stdin: str = "") -> str:
        """Run a command to its end; DemoError with what it said when it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "atomic_agent.cli.app", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            told = (done.stderr.strip() or done.stdout.strip() or "nothing")[-600:]
            raise DemoError(
                f"`atomic {arguments[0]}` on {self.name} ended with {done.returncode} and said: {told}"
            )
        return done.stdout

    def start(self, *arguments: str, stdin: str) -> "subprocess.Popen[str]":
        """Run a command beside others."""
        process = subprocess.Popen(
            [sys.executable, "-m", "atomic_agent.cli.app", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        return process


def expect(condition: object, otherwise: str) -> None:
    """DemoError unless the condition holds."""
    if not condition:
        raise DemoError(otherwise)
