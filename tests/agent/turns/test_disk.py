"""A disk that refuses: -p ends with an error, an open conversation goes on in memory and catches up (A7)."""

import random
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agent.turns.machines import CANARY, Machine
from atomic_agent.cache import sessions
from atomic_agent.stores.sqlite import SqliteStore
from atomic_agent.turns import opening
from atomic_agent.turns.choice import Choice
from atomic_agent.turns.engine import Engine
from atomic_agent.turns.providers.port import Done, Endpoint, Event, Notice, Request
from atomic_sessions.entry import Text, Usage
from atomic_sessions.errors import StoreWriteError

NOW = 2_000_000_000_000
CHOICE = Choice("openai", "m", "", Endpoint("openai", "openai-chat", "", "", "", ""))


def large() -> str:
    """Text that does not get smaller and does not fit into free pages."""
    return random.Random(7).randbytes(300_000).hex()


def echo(request: Request) -> Iterator[Event]:
    """A provider in the process itself: how many messages it was sent."""
    yield Done((Text(f"{len(request.messages)} messages"),), Usage(), "stop", "m", "")


def pages(journal_cache: object, most: int | None) -> None:
    """Let the database grow to this many pages at most; None lifts the limit."""
    run = journal_cache.connection.execute  # type: ignore[attr-defined]  # a Cache
    run(f"PRAGMA max_page_count = {most or 1_000_000}")


def test_an_open_conversation_goes_on_in_memory(machine: Machine) -> None:
    """Full disk: turns go on with their history, it is said once, and with the next turn that the disk takes
    everything is in the session, in order."""
    machine.atomic("-p", "first")
    told: list[str] = []
    with machine.journal() as journal:
        cache = journal.cache
        row = next(sessions.listed(cache))
        talk = opening.resume(SqliteStore(cache), row.facts.key, row.cwd, NOW)
        engine = Engine(
            talk,
            clock=lambda: NOW,
            tell=lambda e: told.append(e.text) if isinstance(e, Notice) else None,
            patient=True,
            stream=echo,
        )
        pages(cache, 1)
        engine.run(CHOICE, large())
        assert engine.run(CHOICE, "more " + large()).text == "5 messages"
        assert sessions.get(cache, row.key).messages == 2
        assert len(told) == 1
        assert "disk is full" in told[0]
        pages(cache, None)
        assert engine.run(CHOICE, "last").text == "7 messages"
        assert sessions.get(cache, row.key).messages == 8
        assert not talk.owes
        talk.close()
    assert machine.count("turns") == 0


def test_leaving_with_unsaved_turns_is_an_error(machine: Machine) -> None:
    """Who leaves while the disk still refuses is told with an error, not with silence."""
    machine.atomic("-p", "first")
    with machine.journal() as journal:
        row = next(sessions.listed(journal.cache))
        talk = opening.resume(SqliteStore(journal.cache), row.facts.key, row.cwd, NOW)
        pages(journal.cache, 1)
        Engine(talk, clock=lambda: NOW, tell=lambda _: None, patient=True, stream=echo).run(CHOICE, large())
        with pytest.raises(StoreWriteError, match="full"):
            talk.close()


def test_print_mode_ends_with_an_error(machine: Machine) -> None:
    """A real file-size limit of the system: -p exits with 15 and one sentence, nothing is half written."""
    machine.atomic("-p", "first")
    limit = machine.home / ".atomic" / "workflows" / "journal.sqlite"
    size = limit.stat().st_size

    process = subprocess.run(
        [sys.executable, "-m", "atomic_agent.cli.app", "-c", "-p", "-"],
        env=machine.env,
        cwd=machine.project,
        input=large(),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),  # no threads here
    )
    assert process.returncode == 15, process
    assert process.stderr.startswith("atomic: The disk")
    assert CANARY not in process.stderr
    assert machine.rows()[0].messages == 2
    assert "2 user" in machine.atomic("-c", "-p", "again").out
