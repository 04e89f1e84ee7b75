"""Capturing until told to stop: what the agents write is in the cache about a second later.

Writes nothing but what `follow` writes, so it may be killed anywhere. One process does it at a time; a single
`atomic capture` beside it is harmless.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlcipher3.dbapi2 as sqlite
from msgspec import Struct

from atomic_agent.cache import sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import disk_error, repeatable
from atomic_agent.capture import forks, sources
from atomic_agent.capture.begin import Taken
from atomic_agent.capture.follow import take
from atomic_agent.capture.lookout import Lookout, Place
from atomic_agent.capture.notices import notices
from atomic_agent.capture.run import check
from atomic_agent.locks import LockedError, exclusive
from atomic_agent.projects import project_of
from atomic_agent.stores.journal import Journal, reopen
from atomic_sessions.errors import AtomicError, BadSessionFileError, BusyError, StoreWriteError

LOOK_SECONDS = 0.5
QUIET_SECONDS = 10.0
"""The longest sleep where the system tells of changes."""
GATHER_SECONDS = 0.2
"""What an agent writes at once is taken in at once."""
SETTLED_SECONDS = 5.0
"""A file that cannot be read is named after this long: its agent may be about to write it."""
SOON_SECONDS = 2.0
"""A file that cannot be read is tried again after this long until it is named, then after RETRY_SECONDS."""
RETRY_SECONDS = 15.0
AGAIN_SECONDS = 60.0

Wait = Callable[[float], bool]
"""Waits so many seconds; True to stop. A `threading.Event`'s `wait`, and a test's own."""
Say = Callable[[str], None]


class Change(Struct, frozen=True):
    """A session that something new came into."""

    session: str
    agent: str
    entries: int
    new: bool
    rewritten: bool


Tell = Callable[[Change], None]


def places(agents: Sequence[str], folder: Path | None) -> list[Place]:
    """Where to look: what `run.gather` reads once. UsageError for an agent or a folder that is not there."""
    check(agents, folder)
    if folder is not None:
        return [Place("", folder)]
    return [Place(agent, root) for agent in agents or sources.AGENTS for root in sources.roots(agent)]


@contextmanager
def alone(journal: Journal) -> Iterator[None]:
    """Be the one process that follows the files; BusyError while another one does."""
    try:
        with exclusive(journal.home.cache.with_name("capture.lock"), 0.0):
            yield
    except LockedError:
        raise BusyError(
            "Another process follows the agents' files already (atomic capture --watch, or sync --watch).",
            "Stop that one first; a single atomic capture can be run at any time.",
        ) from None


def watch(
    cache: Cache, where: Sequence[Place], only: Sequence[str], wait: Wait, tell: Tell, say: Say
) -> None:
    """Follow the files until `wait` says stop. `tell` hears each session that grew, `say` each file or folder that
    cannot be read, once, and a cache that cannot be written to, when it goes and when it comes back."""
    told = notices()
    try:
        following = _Following(cache, Lookout(where, told), only, tell, say)
        while True:
            following.step()
            pause = following.pause
            if told is not None and pause == LOOK_SECONDS:
                pause = GATHER_SECONDS if told.wait(QUIET_SECONDS) else 0.0
            if wait(pause):
                return
    finally:
        if told is not None:
            told.close()


class _Following:
    """What a watch remembers from look to look."""

    def __init__(self, cache: Cache, lookout: Lookout, only: Sequence[str], tell: Tell, say: Say) -> None:
        self._cache, self._lookout, self._only = cache, lookout, only
        self._tell, self._say = tell, say
        self._waiting: dict[Path, sources.Source] = {}
        self._again: dict[Path, float] = {}
        self._whole: set[int] = set()
        self._refused: dict[str, tuple[str, float]] = {}
        self._told: dict[str, str] = {}
        self._refresh_at = 0.0
        self._first = True
        self.pause = LOOK_SECONDS

    def step(self) -> None:
        """One look, and what it found taken in."""
        for source in self._lookout.look():
            self._waiting[source.path] = source
            self._again.pop(source.path, None)
        if any(self._again.get(path, 0.0) <= time.monotonic() for path in self._waiting):
            try:
                self._take_all()
            except sqlite.OperationalError as error:
                self._stuck(disk_error(error))
            except StoreWriteError as error:
                self._stuck(error)
        self._complain()

    def _take_all(self) -> None:
        if time.monotonic() >= self._refresh_at:
            # Which project a folder belongs to is remembered in a process; this one lives for days.
            project_of.cache_clear()
            self._whole.clear()
            self._refresh_at = time.monotonic() + AGAIN_SECONDS
        # A kill may have come between a session and the forks that waited for it.
        logs, self._first = self._first, False
        with repeatable(self._cache.connection):
            for path, source in list(self._waiting.items()):
                if self._again.get(path, 0.0) > time.monotonic():
                    continue
                logs |= self._take(source) == forks.AGENT
                if path not in self._again:
                    del self._waiting[path]
            if logs:
                self._complete()
        if self.pause != LOOK_SECONDS:
            self._say("atomic: the cache takes it again.")
            self.pause = LOOK_SECONDS

    def _take(self, source: sources.Source) -> str:
        """Take in one file; the agent whose session grew by it. One that cannot be read now waits: that may pass
        without a sign of its own, as when too many files are open."""
        name = str(source.path)
        self._again.pop(source.path, None)
        try:
            taken = take(self._cache, source, time.time_ns() // 1_000_000, only=self._only)
        except (FileNotFoundError, NotADirectoryError):
            self._refused.pop(name, None)
            return ""
        except OSError as error:
            self._refuse(name, f"unreadable: {error.strerror}")
            self._again[source.path] = time.monotonic() + (
                RETRY_SECONDS if name in self._told else SOON_SECONDS
            )
            return ""
        except BadSessionFileError as error:
            self._refuse(name, error.message)
            return ""
        if taken.outcome == "skipped" and taken.why:
            self._refuse(name, taken.why)
            return ""
        self._refused.pop(name, None)
        self._told.pop(name, None)
        return self._count(taken)

    def _count(self, taken: Taken) -> str:
        if not taken.session or not (taken.entries or taken.rewritten):
            return ""
        row = sessions.get(self._cache, taken.session)
        fresh = taken.outcome == "new"
        self._tell(Change(row.id, row.agent, taken.entries, fresh, taken.rewritten))
        return row.agent

    def _complete(self) -> None:
        """Forks whose beginning is not here are named once."""

        def grown(session: int, count: int) -> None:
            row = sessions.get(self._cache, session)
            self._tell(Change(row.id, row.agent, count, new=False, rewritten=False))

        for lacking in forks.complete(self._cache, grown, self._whole):
            self._refuse(
                lacking.session,
                f"what was said before it is in session {lacking.parent}, which is not here; shown from the fork on",
            )

    def _refuse(self, name: str, why: str) -> None:
        if self._told.get(name) != why:
            self._refused.setdefault(name, (why, time.monotonic() + SETTLED_SECONDS))

    def _complain(self) -> None:
        """Say what could not be read, once, when it has stayed so."""
        for folder, why in self._lookout.unreadable.items():
            self._refuse(folder, f"unreadable: {why}")
        now = time.monotonic()
        for name, (why, due) in list(self._refused.items()):
            if now >= due:
                self._say(f"atomic: {name}: {why}.")
                self._told[name] = why
                del self._refused[name]

    def _stuck(self, error: StoreWriteError) -> None:
        """The cache cannot be written to: what waits is taken in when it can."""
        if self.pause == LOOK_SECONDS:
            self._say(f"atomic: {error} Waiting for it.")
        self.pause = RETRY_SECONDS


@contextmanager
def beside(journal: Journal, tell: Tell, say: Say) -> Iterator[None]:
    """Follow all agents' files in a thread of its own while something else is done; does nothing while another
    process does it, and takes over when that one ends."""
    stop = threading.Event()
    worker = threading.Thread(target=_work, args=(journal, stop, tell, say), daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(1.0)


def _work(journal: Journal, stop: threading.Event, tell: Tell, say: Say) -> None:
    stuck = ""
    while True:
        try:
            with alone(journal), reopen(journal) as own:
                watch(own.cache, places((), None), (), stop.wait, tell, say)
                return
        except BusyError:
            pass
        except (StoreWriteError, OSError) as error:
            # A disk that is full or read-only now, too many open files: said once, and tried again.
            why = f"{error.strerror or type(error).__name__}." if isinstance(error, OSError) else str(error)
            if why != stuck:
                stuck = why
                say(f"atomic: {stuck} The agents' files are followed when that has passed.")
        except AtomicError as error:
            say(f"atomic: {error} The agents' files are not followed any more.")
            return
        except Exception as error:  # noqa: BLE001  # the top of a thread: its owner goes on without it
            say(f"atomic: an unexpected {type(error).__name__}; the agents' files are not followed any more.")
            return
        if stop.wait(AGAIN_SECONDS):
            return
