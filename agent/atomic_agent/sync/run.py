"""One sync: seal what waits, send it, fetch what is new. Idempotent; any part may be cut anywhere.

A lock lets one process sync at a time. Errors leave the outbox and the cursor as they were.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Protocol

from msgspec import Struct

from atomic_agent.cache import entries, outbox, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.locks import LockedError, exclusive
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.identity import connect, membership, trusted_ledger
from atomic_agent.sync.pulling import CURSOR, SEEN, Pulled, Puller
from atomic_agent.sync.sealing import Sealer
from atomic_sessions import wire
from atomic_sessions.errors import BusyError, ServiceRefusedError, ServiceUnreachableError
from atomic_sessions.ledger import LedgerEntry

LAST_SYNC = "last_sync"
READER = "reader"
MAX_ROUNDS = 4
MAX_EMPTY_PAGES = 10_000
"""Pages in a row that hold only what was deleted since."""
HEAL_MS = 7 * 86_400_000
"""How often refused records are looked at again though nothing else has changed: damage on the way passes."""


class Synced(Struct):
    """What one sync did. `dropped` counts sessions that were deleted elsewhere while this machine
    still wrote to them."""

    sent: int = 0
    sent_bytes: int = 0
    fetched: int = 0
    entries: int = 0
    sessions: int = 0
    deleted: int = 0
    dropped: int = 0
    refused: int = 0
    reset: bool = False


class Log(Protocol):
    """What a sync needs of a service; `client.Client` is the one over HTTP."""

    def ledger(self) -> list[LedgerEntry]: ...

    def push(self, events: list[bytes]) -> wire.PushReply: ...

    def pull(self, cursor: bytes) -> wire.Pull: ...

    def upload(self, request: wire.UploadRequest, content: bytes) -> None: ...

    def download(self, object_id: bytes, size: int) -> bytes: ...


Progress = Callable[[str], None]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def synchronise(
    journal: Journal,
    *,
    timeout: float = 30.0,
    lock_seconds: float = 30.0,
    progress: Progress = lambda _: None,
    now: Callable[[], int] = now_ms,
) -> Synced:
    """Send and fetch until nothing is new. Raises NotLoggedInError, ServiceUnreachableError,
    ServiceRefusedError, SealError (the device list) or BusyError."""
    membership(journal)
    done = Synced()
    with alone(journal, lock_seconds), connect(journal, now, timeout=timeout) as client:
        exchange(journal, client, done, now, progress)
    return done


def exchange(
    journal: Journal, client: Log, done: Synced, now: Callable[[], int], progress: Progress = lambda _: None
) -> None:
    """Fetch and send with any service that keeps a log."""
    claimed: set[str] = set()
    sessions.fill_wires(journal.cache, membership(journal).id_key)
    _fetch(journal, client, done, progress, now)
    for _ in range(MAX_ROUNDS):
        if _send(journal, client, done, progress, claimed):
            break
        _fetch(journal, client, done, progress, now)
    else:
        raise ServiceUnreachableError(
            "The service asks for the same again and again and takes nothing.",
            "Nothing is lost; ask its operator.",
        )
    entries.refresh_stale(journal.cache)
    with transaction(journal.cache.connection):
        journal.cache.put(LAST_SYNC, now().to_bytes(8, "big"))


@contextmanager
def alone(journal: Journal, seconds: float) -> Iterator[None]:
    """Hold the sync lock of this home; BusyError when another process keeps it longer than that."""
    try:
        with exclusive(journal.home.cache.with_name("sync.lock"), seconds):
            yield
    except LockedError:
        raise BusyError("Another process is syncing.", "It does this one's work too.") from None


def _send(journal: Journal, client: Log, done: Synced, progress: Progress, claimed: set[str]) -> bool:
    """Send all that waits; False when the answer asks to fetch and try again."""
    cache = journal.cache
    sealer = Sealer(cache, membership(journal))
    sealer.seal_all()
    try:
        _upload(cache, client)
        while batch := outbox.waiting(cache, wire.MAX_PUSH_EVENTS, wire.MAX_PUSH_BYTES):
            _push(cache, client, batch, done, progress)
    except ServiceRefusedError as error:
        if error.code == wire.ErrorCode.OVER_QUOTA:
            # Deletions make room, and are taken when nothing else is.
            while batch := outbox.waiting_tombstones(cache, wire.MAX_PUSH_EVENTS):
                _push(cache, client, batch, done, progress)
            raise
        if not _recover(journal, error, claimed):
            raise
        return False
    return True


def _upload(cache: Cache, client: Log) -> None:
    for object_id, session, raw in outbox.uploads(cache):
        try:
            client.upload(wire.UploadRequest(object_id, len(raw), "blob", session), raw)
        except ServiceRefusedError as error:
            if error.code != wire.ErrorCode.SESSION_DEAD:
                raise
        with transaction(cache.connection):
            outbox.drop_upload(cache, object_id)


def _push(cache: Cache, client: Log, batch: list[outbox.Waiting], done: Synced, progress: Progress) -> None:
    reply = client.push([item.raw for item in batch])
    if [result.id for result in reply.results] != [item.id for item in batch]:
        raise ServiceUnreachableError(
            "The service's answer is not to what was sent.", "Nothing is lost; try again later."
        )
    with transaction(cache.connection):
        seen = int.from_bytes(cache.get(SEEN) or b"", "big")
        for item, result in zip(batch, reply.results, strict=True):
            if result.seq > seen:
                outbox.expect(cache, item)
            if item.entries:
                entries.acknowledge(cache, item.session, item.entries, result.received_at)
            else:
                sessions.bury(cache, item.wire)
                outbox.tombstone(cache, item.wire)
        outbox.drop(cache, [item.row for item in batch])
    done.sent += len(batch)
    done.sent_bytes += sum(len(item.raw) for item in batch)
    progress(f"sent {done.sent} records")


def _recover(journal: Journal, error: ServiceRefusedError, claimed: set[str]) -> bool:
    """What the service's refusal asks for; False when it is for the person.

    A service's word alone deletes nothing: after `session_dead` the log is fetched, and only a signed
    tombstone in it buries the session. One that never comes makes the refusal an error.
    """
    cache = journal.cache
    if error.code == wire.ErrorCode.WRITER_FORKED:
        # A copy of this cache has written under our writer's name: go on under a new one.
        with transaction(cache.connection):
            outbox.change_writer(cache, os.urandom(16))
        return True
    if error.code == wire.ErrorCode.SESSION_DEAD and error.session not in claimed:
        claimed.add(error.session)
        return True
    return False


def _fetch(journal: Journal, client: Log, done: Synced, progress: Progress, now: Callable[[], int]) -> None:
    cache = journal.cache
    puller = Puller(
        cache,
        membership(journal),
        trusted_ledger(journal, client),
        client.download,
        now,
        lambda: trusted_ledger(journal, client),
    )
    _heal(journal, puller.ledger.size, now())
    pulled = Pulled()
    more = True
    empty = 0
    while more:
        try:
            page = client.pull(cache.get(CURSOR) or b"")
        except ServiceRefusedError as error:
            if error.code != wire.ErrorCode.CURSOR_GONE or done.reset:
                raise
            _reset(journal)
            done.reset = True
            continue
        empty = 0 if page.events else empty + 1
        if page.more and empty and (page.cursor == cache.get(CURSOR) or empty > MAX_EMPTY_PAGES):
            raise ServiceUnreachableError("The service's answers lead nowhere.", "Try again later.")
        if page.events or page.cursor != cache.get(CURSOR):
            puller.apply(page, pulled)
        more = page.more
        if not more and not done.reset and outbox.is_missing_any(cache):
            # What this machine alone has to offer again: its cursor lies before what was lost.
            _reset(journal)
            done.reset = more = True
        progress(f"fetched {pulled.events} records")
    entries.refresh_stale(cache)
    done.fetched += pulled.events
    done.entries += pulled.entries
    done.sessions += len(pulled.sessions)
    done.deleted += pulled.deleted
    done.dropped += pulled.dropped
    done.refused += pulled.refused


def _heal(journal: Journal, ledger_size: int, now: int) -> None:
    """Records that were refused get another chance when this program or the device list has changed, and once
    a week."""
    cache = journal.cache
    reader = f"{version('atomic-sessions')}/{ledger_size}/{now // HEAL_MS}".encode()
    with transaction(cache.connection):
        if cache.get(READER) != reader and outbox.quarantined(cache):
            _reread(journal)
        cache.put(READER, reader)


def _reread(journal: Journal) -> None:
    """Read the log from its start again; call inside a transaction."""
    cache = journal.cache
    outbox.change_writer(cache, os.urandom(16))
    outbox.forget_chains(cache)
    cache.put(CURSOR, b"")
    cache.put(SEEN, b"")


def _reset(journal: Journal) -> None:
    """The log is not the one we knew (restored, rebuilt, or we are very old): keep all we have, read
    it from its start, and offer again what it lacks, deletions included."""
    cache = journal.cache
    with transaction(cache.connection):
        _reread(journal)
        outbox.offer_again(cache)
