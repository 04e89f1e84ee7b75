"""What the attacks are played on: a lying service, an account of three machines, copies of a victim."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from atomic_agent.cache import entries, outbox
from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from system.machines import SECONDS, Done, Machine, RunningService, claude_lines, pair

TESTS = Path(__file__).parent.parent
ALPHA, BETA, GAMMA, MINE, STRANGE = (f"0a77ac00-0000-4000-8000-00000000000{n}" for n in range(5))
"""Sessions: alpha of three records and beta on the laptop, gamma on the tablet, mine on the victim; one of
another account."""
PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as out: out.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


class Liar:
    """The malicious service as a process."""

    def __init__(self, upstream: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attacks.malicious_service", upstream],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[1]
        self.http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def tell(self, path: str = "", how: str = "", **options: object) -> None:
        """From now on this lie, or the truth; forgets what was asked before."""
        lie = {"path": path, "how": how, **options} if how else {}
        self.http.post("/-/lie", content=json.dumps(lie)).raise_for_status()

    def seen(self) -> list[dict[str, Any]]:  # JSON
        """What was asked since the last lie."""
        found: list[dict[str, Any]] = self.http.get("/-/seen").json()
        return found

    def stop(self) -> None:
        self.http.close()
        self._process.terminate()
        self._process.wait(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def copied(machine: Machine, root: Path, name: str) -> Machine:
    """A machine with another's home, key and account."""
    twin = Machine(root, name)
    shutil.copytree(machine.home / ".atomic", twin.home / ".atomic")
    shutil.copy(machine.key_file, twin.key_file)
    return twin


class Account:
    """A laptop and a tablet that wrote, and a victim that has fetched nothing of it yet."""

    def __init__(self, service: RunningService, liar: Liar, root: Path) -> None:
        self.service, self.liar = service, liar
        self._root, self._made = root, 0
        self.laptop, self.tablet, self._victim = (Machine(root, n) for n in ("laptop", "tablet", "victim"))
        self.stranger = Machine(root, "stranger")
        for machine in (self.laptop, self.stranger):
            machine.atomic("login", liar.url, "--invite", "-", "--name", machine.name, stdin=service.invite())
        for machine in (self.tablet, self._victim):
            pair(self.laptop, machine, liar.url)
        self.write(self._victim, MINE, ["only here"])
        for count in (1, 2, 3):
            self.write(self.laptop, ALPHA, [f"alpha {n}" for n in range(2 * count)])
            if count == 1:
                self.write(self.laptop, BETA, ["beta 0", "beta 1"])
        self.write(self.tablet, GAMMA, ["gamma 0", "gamma 1"])
        self.write(self.stranger, STRANGE, ["strange 0"])

    @staticmethod
    def write(machine: Machine, session: str, texts: list[str]) -> None:
        machine.claude_file(session, claude_lines(session, str(machine.folder), texts))
        machine.atomic("capture")
        machine.atomic("sync")

    def victim(self) -> Machine:
        """A fresh copy of the victim, which knows its own session and nothing else."""
        self._made += 1
        return copied(self._victim, self._root, f"victim{self._made}")

    def machine(self, name: str) -> Machine:
        self._made += 1
        return Machine(self._root, f"{name}{self._made}")


def opened(machine: Machine) -> Cache:
    """The machine's cache, opened with its key. No command of it may be running."""
    key = LocalKey(base64.b64decode(machine.key_file.read_bytes()))
    return Cache.open(machine.cache, key, machine.cache.with_name("journal.keyinfo"), create=False)


def texts(machine: Machine) -> dict[str, list[str]]:
    """What can be read on a machine, by session: each message's text, in order."""
    found = {}
    with opened(machine) as cache:
        for key, session in cache.connection.execute(
            "SELECT key, id FROM session_sessions WHERE deleted = 0"
        ).fetchall():
            lines = [json.loads(stored.entry.raw) for stored in entries.read(cache, key)]
            found[session] = [said for line in lines if (said := _said(line))]
    return found


def whole(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """What of it the account wrote before any attack; tests that send something leave it in the log."""
    return {session: said for session, said in found.items() if session in {ALPHA, BETA, GAMMA, MINE}}


def refused(machine: Machine) -> list[tuple[str, int]]:
    """What `atomic status` says of refused records: reasons and counts."""
    with opened(machine) as cache:
        return outbox.quarantined(cache)


def _said(line: dict[str, Any]) -> str:  # JSON
    message = line.get("message") or {}
    content = message.get("content", "")
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def peak(machine: Machine, *arguments: str, code: int | None = 0) -> tuple[Done, float]:
    """A command, and the greatest resident memory of its process in MB."""
    with tempfile.NamedTemporaryFile("r") as file:
        # Measured from a small process between: a child's peak begins with that of its parent.
        done = subprocess.run(
            [sys.executable, "-c", PEAK, file.name, *machine.command(*arguments)],
            capture_output=True,
            text=True,
            cwd=machine.folder,
            env=machine.environment,
            timeout=SECONDS,
            check=False,
        )
        megabytes = int(file.read()) * 1024 / 1e6
    if code is not None:
        assert done.returncode == code, (arguments[:1], done.returncode, done.stderr[-800:])
    return Done(done.returncode, done.stdout, done.stderr), megabytes


def one_sentence(done: Done) -> str:
    """The one line of an error, without a traceback around it."""
    lines = [line for line in done.err.splitlines() if line.startswith("atomic: ")]
    assert len(lines) == 1, done.err[-500:]
    assert "Traceback" not in done.err
    assert "This is a bug" not in done.err, lines[0]
    return lines[0]
