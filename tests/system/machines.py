"""Machines of the system tests: a home, a project folder, and the real program run as a process."""

import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REMOTE = "git@git.example.com:team/project.git"
SECONDS = 60.0


class RunningService:
    """`atomic-service dev` on a data folder of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        log = self.data.with_suffix(".log").open("ab")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "atomic_service",
                "dev",
                "--data",
                str(self.data),
                "--port",
                str(self.port),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.url = line.split()[1]
                self.port = int(self.url.rsplit(":", 1)[1])
                return
        raise AssertionError(self.data.with_suffix(".log").read_text()[-2000:])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(SECONDS)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def invite(self) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "atomic_service", "invite", "--data", str(self.data)],
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        return done.stdout.split()[-1]

    def postgres_pid(self) -> int:
        """The postmaster's process id."""
        path = next(self.data.rglob("postmaster.pid"))
        return int(path.read_text().splitlines()[0])


class Done:
    """What a finished command left."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


class Machine:
    """One machine. `atomic` runs a command to its end and expects exit code 0 unless told otherwise."""

    def __init__(self, root: Path, name: str, model_url: str = "") -> None:
        self.name = name
        self.home = root / name
        self.folder = self.home / "src" / "project"
        self.folder.mkdir(parents=True)
        self.key_file = self.home / "key"
        handle = os.open(self.key_file, os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(base64.b64encode(secrets.token_bytes(32)))
        self.cache = self.home / ".atomic" / "workflows" / "journal.sqlite"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ATOMIC_KEY_FILE": str(self.key_file),
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": "test-key",
        }
        for words in (["init", "-q"], ["remote", "add", "origin", REMOTE]):
            subprocess.run(["git", "-C", str(self.folder), *words], check=True, capture_output=True)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "atomic_agent.cli.app", *arguments]

    def atomic(self, *arguments: str, stdin: str = "", code: int | None = 0, **environment: str) -> Done:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**self.environment, **environment},
            timeout=SECONDS,
            check=False,
        )
        if code is not None:
            assert done.returncode == code, (arguments[:1], done.returncode, done.stderr[-800:])
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, stdin: str = "", **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**self.environment, **environment},
        )
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        return process

    def say(self, prompt: str, *arguments: str) -> str:
        """One turn in the newest session of the project."""
        return self.atomic("-c", *arguments, "-p", prompt, "--provider", "openai", "--model", "test").out

    def sessions(self, *arguments: str) -> list[dict[str, Any]]:
        """The list without machine names, which differ while something is not synced."""
        found = [
            json.loads(line)
            for line in self.atomic("sessions", "--json", "--internal", *arguments).out.splitlines()
        ]
        return [{key: value for key, value in one.items() if key != "machines"} for one in found]

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.atomic("status", "--json").out)
        return found

    def tree(self, session: str) -> str:
        return self.atomic("export", session, "-", "--as", "jsonl").out

    def shown(self, session: str) -> str:
        return self.atomic("show", session).out

    def claude_file(self, session: str, lines: list[dict[str, Any]], *, tail: str = "") -> Path:
        """A Claude Code session file where that agent keeps it."""
        folder = self.home / ".claude" / "projects" / "-src-project"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{session}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")
        return path


MakeMachine = Callable[[str], Machine]


def claude_lines(session: str, cwd: str, texts: list[str], *, start: int = 0) -> list[dict[str, Any]]:
    """A plain Claude Code conversation: user and assistant in turn, one minute apart."""
    lines: list[dict[str, Any]] = []
    parent: str | None = None
    for index, text in enumerate(texts, start):
        role = "user" if index % 2 == 0 else "assistant"
        content: object = text if role == "user" else [{"type": "text", "text": text}]
        entry = f"{index:08x}-0000-4000-8000-{session[-12:]}"
        lines.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "cwd": cwd,
                "sessionId": session,
                "version": "2.1.332",
                "type": role,
                "message": {"role": role, "content": content, "id": f"msg_{index}", "model": "claude-test"},
                "uuid": entry,
                "timestamp": f"2026-11-01T10:{index % 60:02d}:00.000Z",
            }
        )
        parent = entry
    return lines


def until(what: Callable[[], object], seconds: float = 20.0) -> Any:
    """The first truthy answer of `what`, asked again and again until the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        if found := what():
            return found
        assert time.monotonic() < deadline, "nothing happened within the deadline"
        time.sleep(0.02)


def pair(one: Machine, two: Machine, url: str) -> None:
    """Bring `two` into the account of `one` as two people would."""
    string = one.atomic("devices", "add").out
    waiting = two.start("login", url, "--join", "-", "--name", two.name, stdin=string)
    assert waiting.stdout is not None
    words = next(line for line in waiting.stdout if line.startswith("Words: ")).removeprefix("Words: ")
    one.atomic("devices", "approve", "--yes", *words.split())
    out, err = waiting.communicate(timeout=SECONDS)
    assert waiting.returncode == 0, err[-500:]
    assert f"Joined as '{two.name}'" in out


def kill(process: "subprocess.Popen[str]") -> None:
    """kill -9, and everything closed."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=SECONDS)
