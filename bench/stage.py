"""What a measurement stands on: a data folder, machines, commands timed as whole processes."""

import base64
import os
import resource
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey

ATOMIC = str(Path(sys.executable).with_name("atomic"))
"""The program as it is installed."""


class Figure(Struct):
    """One result. `limit` is what the same work costs at least, measured in the same run; `ratio` is value
    over limit (limit over value where more is better)."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    ratio: float | None = None


def figure(name: str, value: float, unit: str, limit: float | None = None) -> Figure:
    ratio = round(value / limit, 3) if limit else None
    return Figure(name, round(value, 4), unit, None if limit is None else round(limit, 4), ratio)


def median_of(runs: int, work: Callable[[], float]) -> float:
    return statistics.median(work() for _ in range(runs))


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Machine:
    """A home with a key file, and the program `atomic` run there as a process."""

    def __init__(self, root: Path, name: str, data: Path | None = None) -> None:
        self.home = root / name
        self.home.mkdir(parents=True)
        key = self.home / "key"
        with os.fdopen(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(base64.b64encode(secrets.token_bytes(32)))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(data or self.home),
            "ATOMIC_HOME": str(self.home / ".atomic"),
            "ATOMIC_KEY_FILE": str(key),
            "LANG": "C.UTF-8",
        }
        self.cache = self.home / ".atomic" / "workflows" / "journal.sqlite"

    def run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [ATOMIC, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"atomic {arguments[0]} ended with {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def seconds(self, *arguments: str) -> float:
        return timed(lambda: self.run(*arguments))

    def cpu(self, *arguments: str) -> float:
        """CPU seconds of one command, its children included."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def peak(self, *arguments: str, stdin: str = "") -> float:
        """Greatest resident memory of one command, in MB."""
        code = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        command = [sys.executable, "-c", code, ATOMIC, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, check=True, input=stdin
        )
        return int(done.stdout) * 1024 / 1e6


def open_cache(machine: Machine) -> Cache:
    """A machine's cache, inside this process."""
    key = LocalKey(base64.b64decode(Path(machine.environment["ATOMIC_KEY_FILE"]).read_text()))
    return Cache.open(machine.cache, key, machine.cache.with_name("journal.keyinfo"))


class Service:
    """`atomic-service dev` for the length of a measurement."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._process = subprocess.Popen(
            [sys.executable, "-m", "atomic_service", "dev", "--data", str(data), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = self.invite = ""
        assert self._process.stdout is not None
        while not (self.url and self.invite):
            word, _, rest = self._process.stdout.readline().strip().partition(" ")
            if word == "ready":
                self.url = rest
            elif word == "invite":
                self.invite = rest
            elif not word:
                raise RuntimeError("the service did not start")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
