"""One sync: seal what waits, send it, fetch what is new. Idempotent; any part may be cut anywhere.

A lock lets one process sync at a time. Errors leave the outbox and the cursor as they were.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from atomic_agent.cache import entries, outbox, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.locks import LockedError, exclusive
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.identity import connect, membership, trusted_ledger
from atomic_agent.sync.pulling import CURSOR, Pulled, Puller
from atomic_agent.sync.sealing import Sealer
from atomic_sessions import wire
from atomic_sessions.errors import BusyError, ServiceRefusedError
from atomic_sessions.ledger import LedgerEntry

LAST_SYNC = "last_sync"
MAX_ROUNDS = 4


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

    def snapshot(self) -> wire.Snapshot: ...

    def upload(self, request: wire.UploadRequest, content: bytes) -> None: ...

    def download(self, object_id: bytes) -> bytes: ...


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
    _fetch(journal, client, done, progress, now)
    for _ in range(MAX_ROUNDS):
        if _send(journal, client, done, progress):
            break
        _fetch(journal, client, done, progress, now)
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


def _send(journal: Journal, client: Log, done: Synced, progress: Progress) -> bool:
    """Send all that waits; False when the answer asks to fetch and try again."""
    cache = journal.cache
    sealer = Sealer(cache, membership(journal))
    sealer.seal_all()
    for object_id, session, raw in outbox.uploads(cache):
        try:
            client.upload(wire.UploadRequest(object_id, len(raw), "blob", session), raw)
        except ServiceRefusedError as error:
            if error.code != wire.ErrorCode.SESSION_DEAD:
                raise
        with transaction(cache.connection):
            outbox.drop_upload(cache, object_id)
    while batch := outbox.waiting(cache, wire.MAX_PUSH_EVENTS, wire.MAX_PUSH_BYTES):
        try:
            reply = client.push([item.raw for item in batch])
        except ServiceRefusedError as error:
            if not _recover(journal, error, done):
                raise
            return False
        with transaction(cache.connection):
            for item, result in zip(batch, reply.results, strict=True):
                if item.entries:
                    entries.acknowledge(cache, item.session, item.entries, result.received_at)
                else:
                    sessions.bury(cache, item.wire)
            outbox.drop(cache, [item.row for item in batch])
        done.sent += len(batch)
        done.sent_bytes += sum(len(item.raw) for item in batch)
        progress(f"sent {done.sent} records")
    return True


def _recover(journal: Journal, error: ServiceRefusedError, done: Synced) -> bool:
    """What the service's refusal asks for; False when it is for the person."""
    cache = journal.cache
    if error.code == wire.ErrorCode.WRITER_FORKED:
        # A copy of this cache has written under our writer's name: go on under a new one.
        with transaction(cache.connection):
            outbox.change_writer(cache, os.urandom(16))
        return True
    if error.code == wire.ErrorCode.SESSION_DEAD and error.session:
        dead = bytes.fromhex(error.session)
        with transaction(cache.connection):
            outbox.tombstone(cache, dead)
            done.dropped += sessions.bury(cache, dead)
            outbox.drop_session(cache, dead)
        return True
    return False


def _fetch(journal: Journal, client: Log, done: Synced, progress: Progress, now: Callable[[], int]) -> None:
    cache = journal.cache
    trusted = trusted_ledger(journal, client)
    puller = Puller(cache, membership(journal), trusted, client.download, now)
    pulled = Pulled()
    more = True
    while more:
        try:
            page = client.pull(cache.get(CURSOR) or b"")
        except ServiceRefusedError as error:
            if error.code != wire.ErrorCode.CURSOR_GONE or done.reset:
                raise
            _reset(journal, client, done)
            continue
        if page.events or page.cursor != cache.get(CURSOR):
            puller.apply(page, pulled)
        more = page.more
        progress(f"fetched {pulled.events} records")
    done.fetched += pulled.events
    done.entries += pulled.entries
    done.sessions += len(pulled.sessions)
    done.deleted += pulled.deleted
    done.refused += pulled.refused


def _reset(journal: Journal, client: Log, done: Synced) -> None:
    """The log is not the one we knew (restored, rebuilt, or we are very old): keep all we have, read
    it from its start, and offer again what it lacks, under a new writer."""
    cache = journal.cache
    snapshot = client.snapshot()
    with transaction(cache.connection):
        outbox.change_writer(cache, os.urandom(16))
        outbox.forget_chains(cache)
        for dead in snapshot.dead:
            outbox.tombstone(cache, dead)
            sessions.bury(cache, dead)
        cache.connection.execute(cache.sql("UPDATE {p}session_entries SET sealed = 0"))
        cache.put(CURSOR, b"")
    done.reset = True
