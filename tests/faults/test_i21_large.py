"""I21: large sessions, large entries, very many sessions, in the memory of a page; broken transfers go on."""

import base64
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import repeatable, transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import ServiceUnreachableError
from faults.machines import Account
from faults.proxy import Fault, FaultProxy
from service.running import RunningService
from system.machines import Machine, claude_lines, pair

MB = 1_000_000
MEASURED = """
import resource, subprocess, sys
with open(sys.argv[1], "wb") as out:
    code = subprocess.run(sys.argv[2:], stdout=out).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""
BLOCK = base64.b64encode(bytes(n * 97 % 251 for n in range(3000))).decode()

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kB on Linux only")


def peak(machine: Machine, *arguments: str, stdin: str = "", out: str = "/dev/null") -> int:
    """Greatest resident memory of one command, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, out, *machine.command(*arguments)],
        capture_output=True,
        text=True,
        input=stdin,
        cwd=machine.folder,
        env=machine.environment,
        check=True,
        timeout=120,
    )
    code, size = map(int, done.stdout.split())
    assert code == 0, done.stderr[-500:]
    return size


def lines_of(machine: Machine, size: int) -> Path:
    """A session file of about so many bytes in lines of some kilobytes, none like another."""
    session = str(uuid.uuid4())
    texts = [f"{n} {BLOCK[n % 1000 :]} {n * 7919:x}" for n in range(size // 4000)]
    return machine.claude_file(session, claude_lines(session, str(machine.folder), texts))


@pytest.fixture
def machines(
    tmp_path: Path, proxied: tuple[RunningService, FaultProxy]
) -> Callable[[str], tuple[Machine, Machine]]:
    """Makes two machines of one account; the second has not fetched yet."""
    service, proxy = proxied

    def make(name: str) -> tuple[Machine, Machine]:
        one, two = Machine(tmp_path, f"{name}-one"), Machine(tmp_path, f"{name}-two")
        one.atomic("login", proxy.url, "--invite", "-", "--name", "one", stdin=service.invite())
        pair(one, two, proxy.url)
        return one, two

    return make


def test_memory_does_not_grow_with_the_session(
    machines: Callable[[str], tuple[Machine, Machine]], tmp_path: Path
) -> None:
    """Capturing, sending, fetching and exporting six times as much takes no more memory."""
    peaks: list[dict[str, int]] = []
    for name, size in (("small", 8 * MB), ("large", 48 * MB)):
        one, two = machines(name)
        path = lines_of(one, size)
        out = tmp_path / f"{name}.jsonl"
        peaks.append(
            {
                "capture": peak(one, "capture"),
                "send": peak(one, "sync"),
                "fetch": peak(two, "sync"),
                "export": peak(two, "export", path.stem, "-", "--as", "jsonl", out=str(out)),
                "list": peak(two, "sessions", "--all"),
            }
        )
        assert out.read_bytes() == path.read_bytes()
    small, large = peaks
    for what, size in large.items():
        assert size < 1.25 * small[what] + 8 * MB, (what, small[what], size)
        assert size < 150 * MB, (what, size)


def test_an_entry_of_60_mib(machines: Callable[[str], tuple[Machine, Machine]], tmp_path: Path) -> None:
    """One line of 60 MiB is captured, sent as an object of its own, fetched and written out byte for byte, in
    memory that is a small multiple of it."""
    one, two = machines("entry")
    session = str(uuid.uuid4())
    big = "".join(f"{n} {BLOCK}" for n in range(60 * 1024 * 1024 // (len(BLOCK) + 5)))
    path = one.claude_file(session, claude_lines(session, str(one.folder), ["show it", big, "thanks"]))
    assert path.stat().st_size > 59 * 1024 * 1024
    out = tmp_path / "out.jsonl"
    sizes = [peak(one, "capture"), peak(one, "sync"), peak(two, "sync")]
    peak(two, "export", session, "-", "--as", "jsonl", out=str(out))
    assert out.read_bytes() == path.read_bytes()
    assert max(sizes) < 8 * path.stat().st_size, sizes


def test_a_hundred_thousand_sessions(tmp_path: Path) -> None:
    """The first page is there within a second, search and a session by its id too, and memory is that of a page."""
    machine = Machine(tmp_path, "many")
    machine.atomic("sessions")
    key = LocalKey(base64.b64decode(machine.key_file.read_text()))
    keyinfo = machine.cache.with_name("journal.keyinfo")
    with (
        Cache.open(machine.cache, key, keyinfo) as cache,
        repeatable(cache.connection),
        transaction(cache.connection),
    ):
        cache.connection.executemany(
            "INSERT INTO session_sessions (agent, id, scope, cwd, project, created_at, parent, internal, header,"
            " first_message, messages, newest_at, newest_tag, newest_id)"
            " VALUES ('pi', ?, '', '/p', ?, ?, '', 0, x'', ?, 2, ?, x'00', 'e')",
            (
                (
                    f"{n * 40503 % (1 << 32):08x}-1111-7111-8111-{n:012d}",
                    f"git:h/p{n % 50}",
                    n,
                    f"prompt {n}",
                    1_700_000_000_000 + n,
                )
                for n in range(100_000)
            ),
        )
    begun = time.monotonic()
    listed = machine.atomic("sessions", "--all", "--limit", "50", "--json").out.splitlines()
    assert time.monotonic() - begun < 1.0
    assert json.loads(listed[0])["first_message"] == "prompt 99999"
    assert len(listed) == 50
    begun = time.monotonic()
    machine.atomic("show", json.loads(listed[7])["id"])
    assert time.monotonic() - begun < 1.0
    assert peak(machine, "sessions", "--all") < 120 * MB
    assert peak(machine, "sessions", "--all", "--json") < 120 * MB


def test_a_broken_transfer_goes_on(account: Callable[[int], Account]) -> None:
    """Of many large objects only the one under way when the line broke is moved again, both ways."""
    found = account(2)
    sender, reader = found.nodes
    for number in range(6):
        sender.say(f"{number}" + "x" * 300_000)
        if number == 3:
            sender.exchange()
    for number in range(6):
        sender.say(f"{number}" + "y" * 300_000)
    found.proxy.clear()
    moved: list[str] = []

    def third(line: str, _: int) -> Fault | None:
        if "/v1/blobs/" not in line:
            return None
        moved.append(line)
        return Fault("cut_reply") if len(moved) == 3 else None

    found.proxy.plan = third
    with pytest.raises(ServiceUnreachableError):
        sender.exchange()
    sender.exchange()
    assert len(set(moved)) == 8
    assert len(moved) <= 9
    sender.say("small, and in a record of its own")
    sender.exchange()
    moved.clear()
    with pytest.raises(ServiceUnreachableError):
        reader.exchange()
    reader.exchange()
    found.proxy.clear()
    found.agree()
