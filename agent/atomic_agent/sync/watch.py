"""Syncing until told to stop: on pokes from the service, on changes of the cache, and once a minute.

Pokes carry no data and may all be lost; the poll alone is enough to converge (I22).
"""

import random
import threading
import time
from collections.abc import Callable

from atomic_agent.cache import outbox
from atomic_agent.stores.journal import Journal, reopen
from atomic_agent.sync.client import backoff
from atomic_agent.sync.identity import connect, membership
from atomic_agent.sync.run import Synced, now_ms, synchronise
from atomic_sessions.errors import (
    AtomicError,
    BusyError,
    NotLoggedInError,
    ServiceRefusedError,
    ServiceUnreachableError,
    StoreWriteError,
)

POLL_SECONDS = 60.0
LOOK_SECONDS = 0.25
PAUSE_SECONDS = 0.2
"""Between two syncs, so that no flood of pokes becomes a flood of requests."""


def watch(journal: Journal, tell: Callable[[Synced], None], say: Callable[[str], None]) -> None:
    """Sync whenever there is a reason to; ends by KeyboardInterrupt, or an error that is the person's.

    `tell` hears each sync that did something, `say` when the service goes and comes back.
    """
    membership(journal)
    wake = threading.Event()
    wake.set()
    listener = threading.Thread(target=_listen, args=(journal, wake), daemon=True)
    listener.start()
    failures = 0
    due = 0.0
    seen = -1
    while True:
        changed, seen = _changed(journal, seen)
        if not (wake.is_set() or changed or time.monotonic() >= due):
            wake.wait(LOOK_SECONDS)
            continue
        wake.clear()
        try:
            done = synchronise(journal)
        except (NotLoggedInError, KeyboardInterrupt):
            raise
        except (ServiceUnreachableError, ServiceRefusedError, BusyError, StoreWriteError) as error:
            if failures == 0:
                say(f"atomic: {error} Waiting for it.")
            pause = getattr(error, "retry_after", None) or backoff(failures, random.random)
            failures += 1
            wake.wait(pause)
            due = 0.0
            continue
        if failures:
            say("The service is back.")
        failures = 0
        due = time.monotonic() + POLL_SECONDS * random.uniform(0.9, 1.1)
        if done.sent or done.entries or done.deleted or done.dropped:
            tell(done)
        time.sleep(PAUSE_SECONDS)


def _version(journal: Journal) -> int:
    return int(journal.cache.connection.execute("PRAGMA data_version").fetchone()[0])


def _changed(journal: Journal, seen: int) -> tuple[bool, int]:
    """True when another process left something to send since `seen`; costs one pragma when not. What comes
    while a sync runs is looked at after it."""
    now = _version(journal)
    if now == seen:
        return False, seen
    return outbox.waits(journal.cache), now


def _listen(journal: Journal, wake: threading.Event) -> None:
    """Follow the service's pokes for ever; a broken line is tried again and wakes once. A poke that names
    the head of the last one says nothing new."""
    attempt = 0
    head = -1
    with reopen(journal) as own:
        while True:
            try:
                with connect(own, now_ms) as client:
                    for told in client.live(lambda: False):
                        attempt = 0
                        if told != head:
                            wake.set()
                        head = told
            except AtomicError:
                # The main loop meets the same error and tells the person.
                pass
            except Exception:  # noqa: BLE001  # the top of a thread; the poll goes on without pokes
                attempt += 1
            time.sleep(min(30.0, 0.2 + backoff(attempt, random.random)))
            attempt += 1
            wake.set()
