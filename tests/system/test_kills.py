"""kill -9 of every part at work: nothing that was acknowledged is lost or doubled."""

import base64
import os
import signal
import threading
import uuid
from pathlib import Path

import pytest

from atomic_agent.cache.cache import Cache
from atomic_agent.capture.follow import BATCH_LINES
from atomic_agent.keys.local_key import LocalKey
from system.machines import Machine, MakeMachine, RunningService, claude_lines, kill, pair, until

DELAYS = (0.15, 0.3, 0.5, 0.8)


def long_session(machine: Machine, turns: int = 3000) -> tuple[str, Path]:
    """A session of some megabytes, large enough to be killed in the middle of it."""
    session = str(uuid.uuid4())
    texts = [f"message {n} " + f"{n * 7919:x} " * 80 for n in range(turns)]
    return session, machine.claude_file(session, claude_lines(session, str(machine.folder), texts))


@pytest.mark.parametrize("delay", DELAYS)
def test_capture_killed_anywhere_goes_on_where_it_was(machine: MakeMachine, delay: float) -> None:
    """A capture killed at any moment leaves a cache that opens, and the next one completes the session
    byte for byte."""
    laptop = machine("laptop")
    # More lines than one transaction takes, so that a kill can fall between two.
    session, path = long_session(laptop, turns=3 * BATCH_LINES)
    process = laptop.start("capture")
    threading.Event().wait(delay)
    kill(process)
    laptop.atomic("capture")
    assert path.read_text() == laptop.tree(session)
    laptop.atomic("capture")
    assert path.read_text() == laptop.tree(session)


def test_sync_killed_again_and_again_converges(laptop: Machine, desktop: Machine) -> None:
    """A sync killed at many points sends nothing twice and loses nothing; the other machine ends with
    the same tree and refuses no record."""
    session, path = long_session(laptop)
    laptop.atomic("capture")
    for delay in DELAYS:
        process = laptop.start("sync")
        threading.Event().wait(delay)
        kill(process)
        process = desktop.start("sync")
        threading.Event().wait(delay)
        kill(process)
    laptop.atomic("sync")
    desktop.atomic("sync")
    assert path.read_text() == desktop.tree(session)
    assert laptop.sessions() == desktop.sessions()
    assert not laptop.status()["refused_records"]
    assert not desktop.status()["refused_records"]
    assert laptop.status()["unsynced_records"] == 0


@pytest.mark.parametrize("victim", ["service", "postgres"])
def test_the_service_or_its_database_killed_in_mid_push(
    own_service: RunningService, machine: MakeMachine, victim: str
) -> None:
    """kill -9 of the service or of Postgres while records arrive: after a restart the sync completes,
    and the other machine gets each entry once."""
    laptop, desktop = machine("laptop"), machine("desktop")
    laptop.atomic("login", own_service.url, "--invite", "-", stdin=own_service.invite())
    pair(laptop, desktop, own_service.url)
    session, path = long_session(laptop, turns=6000)
    laptop.atomic("capture")
    pushing = laptop.start("sync")
    until(lambda: _some_sent(laptop))
    if victim == "service":
        own_service.stop(signal.SIGKILL)
        pushing.communicate(timeout=60)
        own_service.start()
    else:
        os.kill(own_service.postgres_pid(), signal.SIGKILL)
        pushing.communicate(timeout=60)
    until(lambda: laptop.atomic("sync", code=None).code == 0, seconds=60)
    desktop.atomic("sync")
    assert path.read_text() == desktop.tree(session)
    assert laptop.sessions() == desktop.sessions()
    assert not desktop.status()["refused_records"]


def _some_sent(machine: Machine) -> bool:
    """True once the service acknowledged a record of the session."""
    key = LocalKey(base64.b64decode(machine.key_file.read_text()))
    with Cache.open(machine.cache, key, machine.cache.with_name("journal.keyinfo"), create=False) as cache:
        return bool(
            cache.connection.execute(
                "SELECT 1 FROM session_entries WHERE received IS NOT NULL LIMIT 1"
            ).fetchone()
        )
