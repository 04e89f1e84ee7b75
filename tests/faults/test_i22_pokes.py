"""I22: pokes are lost, doubled or stale, and watching machines converge all the same."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.proxy import Fault, FaultProxy, at_line
from service.running import RunningService
from system.machines import SECONDS, Machine, kill, pair, until

# The real program, whose poll comes twice a second instead of once a minute.
WATCHING = """
import sys
from atomic_agent.sync import watch
watch.POLL_SECONDS = float(sys.argv.pop(1))
from atomic_agent.cli.app import main
sys.exit(main())
"""


@contextmanager
def watching(machine: Machine, poll: float) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHING, str(poll), "sync", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=machine.folder,
        env=machine.environment,
    )
    try:
        yield
    finally:
        assert process.poll() is None, process.communicate(timeout=SECONDS)
        kill(process)


@pytest.fixture
def machines(tmp_path: Path, proxied: tuple[RunningService, FaultProxy]) -> list[Machine]:
    """Two machines of one account behind the proxy."""
    service, proxy = proxied
    one, two = Machine(tmp_path, "one"), Machine(tmp_path, "two")
    one.atomic("login", proxy.url, "--invite", "-", "--name", "one", stdin=service.invite())
    pair(one, two, proxy.url)
    return [one, two]


def capture(machine: Machine, number: int) -> None:
    session = f"00000000-0000-4000-8000-{number:012d}"
    line = {
        "type": "user", "uuid": "u", "sessionId": session, "cwd": str(machine.folder),
        "timestamp": "2026-11-01T10:00:00.000Z", "message": {"role": "user", "content": f"said {number}"},
    }  # fmt: skip
    machine.claude_file(session, [line])
    machine.atomic("capture")


def stream(*heads: int) -> bytes:
    """A live stream that says these heads and breaks."""
    text = "".join(f'data: {{"head":{head}}}\n\n' for head in heads)
    return f"HTTP/1.1 200 OK\r\nAtomic-Api: 1\r\nContent-Type: text/event-stream\r\n\r\n{text}".encode()


def test_all_pokes_are_lost(machines: list[Machine], proxied: tuple[RunningService, FaultProxy]) -> None:
    """Without a live stream the poll alone brings everything over."""
    one, two = machines
    proxied[1].plan = at_line("GET /v1/live", Fault("cut_before"))
    with watching(one, 0.5), watching(two, 0.5):
        capture(one, 1)
        until(lambda: len(two.sessions()) == 1)


def test_a_storm_of_pokes_is_one_pull(
    machines: list[Machine], proxied: tuple[RunningService, FaultProxy]
) -> None:
    """Two thousand pokes with the same head, or with stale ones, do not become two thousand requests."""
    one, two = machines
    proxy = proxied[1]
    two.atomic("sync")
    proxy.clear()
    proxy.plan = at_line("GET /v1/live", Fault("foreign", stream(*[7] * 2000)))
    with watching(two, 600):
        # The stream breaks after its storm and is taken up again, each time with the same storm.
        until(lambda: proxy.seen.count("GET /v1/live") >= 3)
        pulls = proxy.seen.count("GET /v1/pull")
        assert 1 <= pulls <= 2 + proxy.seen.count("GET /v1/live")
        proxy.clear()
        capture(one, 2)
        one.atomic("sync")
        until(lambda: len(two.sessions()) == 1)


def test_pokes_that_alternate(machines: list[Machine], proxied: tuple[RunningService, FaultProxy]) -> None:
    """A service whose head jumps to and fro is asked a few times a second at most."""
    proxy = proxied[1]
    proxy.clear()
    proxy.plan = at_line("GET /v1/live", Fault("foreign", stream(*[5, 6] * 1000)))
    with watching(machines[1], 600):
        until(lambda: proxy.seen.count("GET /v1/live") >= 3)
        assert proxy.seen.count("GET /v1/pull") <= 3 * proxy.seen.count("GET /v1/live")
