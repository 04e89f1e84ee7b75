"""A program on a pseudo terminal, for tests of what a person sees."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agent.turns.machines import DEADLINE, Machine


class Terminal:
    """A program on a pseudo terminal, driven by what it shows."""

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self._screen, far = pty.openpty()
        env = {**machine.env, "TERM": "dumb", "INPUTRC": "/dev/null"}
        command = [sys.executable, "-m", "atomic_agent.cli.app", *arguments]
        self.process = subprocess.Popen(
            command, env=env, cwd=machine.project, stdin=far, stdout=far, stderr=far
        )
        os.close(far)
        self.shown = ""

    def read(self) -> bool:
        try:
            piece = os.read(self._screen, 65_536)
        except OSError:
            return False
        self.shown += piece.decode("utf-8", "replace")
        return bool(piece)

    def wait(self, pattern: str) -> None:
        """Until the pattern is on the screen; what came before it is forgotten."""
        end = time.monotonic() + DEADLINE
        while (found := re.search(pattern, self.shown)) is None:
            ready = select.select([self._screen], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"no {pattern!r}: {self.shown!r}"
            assert self.read(), f"ended before {pattern!r}: {self.shown!r}"
        self.shown = self.shown[found.end() :]

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def leave(self) -> str:
        """Empty the line and end the program with Ctrl-D; what it said last."""
        self.type("\x15\x04")
        end = time.monotonic() + DEADLINE
        while select.select([self._screen], [], [], max(0.0, end - time.monotonic()))[0] and self.read():
            pass
        assert self.process.wait(DEADLINE) == 0, self.shown
        return self.shown

    def close(self) -> None:
        self.process.kill()
        # The far end drains before a process on it can end.
        while select.select([self._screen], [], [], 0)[0] and self.read():
            pass
        self.process.wait()
        os.close(self._screen)


@contextmanager
def terminal(machine: Machine, *arguments: str) -> Iterator[Terminal]:
    opened = Terminal(machine, *arguments)
    try:
        yield opened
    finally:
        opened.close()
