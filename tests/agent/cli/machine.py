"""A home with a key file and a project folder, and the command line run in this process or as one of its own."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atomic_agent.cli import app


class Ran:
    """What a command said and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"<{self.code} out={self.out!r} err={self.err!r}>"

    def json(self) -> list[dict[str, Any]]:  # whatever the command printed
        return [json.loads(line) for line in self.out.split("\n") if line]


class Machine:
    """Its environment holds nothing of the machine the tests run on."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.files = root / "files"
        self._capsys = capsys
        for folder in (self.home, self.project, self.files):
            folder.mkdir()
        key = root / "key"
        key.touch(0o600)
        key.write_bytes(base64.b64encode(bytes(range(32))))
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ATOMIC_HOME": str(self.home / ".atomic"),
            "ATOMIC_KEY_FILE": str(key),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self.cache = self.home / ".atomic" / "workflows" / "journal.sqlite"

    def atomic(self, *arguments: str) -> Ran:
        """Run a command in this process, as the program's entry point does."""
        with pytest.raises(SystemExit) as left:
            app.main(arguments)
        said = self._capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Ran(left.value.code, said.out, said.err)

    def process(self, *arguments: str, **named: Any) -> "subprocess.CompletedProcess[bytes]":  # passed on
        """Run a command as a real process."""
        settings = {
            "env": self.env,
            "cwd": self.project,
            "stdout": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
            **named,
        }
        return subprocess.run(
            [sys.executable, "-m", "atomic_agent.cli.app", *arguments],
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            **settings,
        )
