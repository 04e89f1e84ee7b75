"""A process whose children do one thing each and are killed before a chosen SQL statement.

Orders come as JSON lines on stdin: {"root", "key" (hex), "what": "sync" | "capture", "at": n (0: never)};
a capture also "file" and "agent"..
Each is answered by one line: {"signal": n, "statements": n, "error": name}.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.run import now_ms, synchronise
from atomic_sessions.errors import AtomicError


class Victim:
    """The process and its orders."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, home: Home, key: LocalKey, what: str, at: int = 0, **more: str) -> dict[str, Any]:
        """One thing done in a child that is killed before its statement number `at`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"root": str(home.root), "key": key.reveal().hex(), "what": what, "at": at, **more}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert found["signal"] in {0, signal.SIGKILL}, found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def act(order: dict[str, Any]) -> dict[str, Any]:
    """The child's work."""
    count = 0

    def trace(_: str) -> None:
        nonlocal count
        count += 1
        if count == order["at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    home, key = Home(Path(order["root"])), LocalKey(bytes.fromhex(order["key"]))
    cache = Cache.open(home.cache, key, home.keyinfo)
    error = ""
    with Journal(home, key, cache, made_key=False) as journal:
        cache.connection.set_trace_callback(trace)
        try:
            if order["what"] == "sync":
                synchronise(journal, timeout=5.0)
            else:
                from atomic_agent.capture import run
                from atomic_agent.capture.sources import Source

                source = Source(Path(order["file"]), order["agent"])
                run.capture(cache, [source], only=[], now=now_ms())
        except AtomicError as found:
            error = type(found).__name__
    return {"statements": count, "error": error}


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.write(writing, json.dumps(act(order)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            text = told.read()
        status = os.waitpid(child, 0)[1]
        found = json.loads(text) if text else {}
        print(json.dumps({"signal": status, "statements": 0, "error": "", **found}), flush=True)


if __name__ == "__main__":
    main()
