"""Syncing beside other work: short waits, offline is normal and silent."""

import threading
import time

from atomic_agent.cache import outbox
from atomic_agent.stores.journal import Journal, reopen
from atomic_agent.sync.run import Synced, synchronise
from atomic_sessions.errors import AtomicError

CONTINUE_SECONDS = 1.5
EXIT_SECONDS = 3.0

_running: list[threading.Thread] = []


def sync_quietly(journal: Journal, *, seconds: float) -> Synced | None:
    """Sync within about this time; None when it could not be done now. What is not sent is kept."""
    if journal.secrets.membership is None:
        return None
    found: list[Synced] = []
    worker = threading.Thread(target=_work, args=(journal, seconds, found), daemon=True)
    worker.start()
    _running.append(worker)
    worker.join(seconds)
    return found[0] if found else None


def _work(journal: Journal, seconds: float, found: list[Synced]) -> None:
    try:
        with reopen(journal) as own:
            found.append(synchronise(own, timeout=max(seconds, 5.0), lock_seconds=seconds))
    except AtomicError:
        # Offline, busy or refused: `atomic status` shows what is not synced, `atomic sync` says why.
        return
    except Exception:  # noqa: BLE001  # the top of a thread: a traceback would stand in the person's prompt
        return


def before_continue(journal: Journal) -> None:
    """Fetch what other machines said before `-c` chooses; waits 1.5 s at most."""
    sync_quietly(journal, seconds=CONTINUE_SECONDS)


def after_turn(journal: Journal) -> None:
    """Start sending a completed turn; does not wait."""
    sync_quietly(journal, seconds=0.0)


def at_exit(journal: Journal) -> None:
    """Give what is under way a moment to finish, and send what is left; three seconds in all, since a
    network that swallows everything must not hold the person."""
    deadline = time.monotonic() + EXIT_SECONDS
    for worker in _running:
        worker.join(max(0.0, deadline - time.monotonic()))
    busy = any(worker.is_alive() for worker in _running)
    _running.clear()
    left = deadline - time.monotonic()
    if not busy and left > 0 and outbox.waits(journal.cache):
        sync_quietly(journal, seconds=left)
