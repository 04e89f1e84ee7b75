"""Pokes between replicas: one listening connection for each, one integer for each open stream.

A poke carries no data. It may come late, twice or not at all: agents pull anyway. So nothing here
queues, and a slow reader finds the newest head when it looks again. NOTIFY runs after commit and
outside of it: inside every push it cost 38 % of the throughput, because notifying commits take one
lock of the whole server.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from atomic_service.db import Database
from atomic_service.problems import UNREACHABLE

CHANNEL = "atomic_poke"
POKE_SECONDS = 0.25
RETRY_SECONDS = 1.0
PROBE_SECONDS = 20.0
CONNECT_SECONDS = 5.0

log = logging.getLogger(__name__)


class Subscription:
    """One open stream: the newest head it has not shown yet."""

    def __init__(self) -> None:
        self.head = -1
        self._fresh = asyncio.Event()

    def offer(self, head: int) -> None:
        self.head = head
        self._fresh.set()

    def wake(self) -> None:
        self._fresh.set()

    async def next(self, seconds: float) -> int | None:
        """The head as soon as it changes, None when it did not in that time."""
        try:
            await asyncio.wait_for(self._fresh.wait(), seconds)
        except TimeoutError:
            return None
        self._fresh.clear()
        return self.head


class Hub:
    """The pokes of one replica. `run` it for as long as the application lives."""

    def __init__(self, url: str, db: Database) -> None:
        self._url = url
        self._db = db
        self._streams: dict[bytes, set[Subscription]] = {}
        self._waiting: dict[bytes, int | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self.listening = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._stopped.is_set()

    def subscribe(self, account: bytes) -> Subscription:
        stream = Subscription()
        self._streams.setdefault(account, set()).add(stream)
        return stream

    def unsubscribe(self, account: bytes, stream: Subscription) -> None:
        streams = self._streams.get(account, set())
        streams.discard(stream)
        if not streams:
            self._streams.pop(account, None)

    def announce(self, account: bytes, head: int) -> None:
        """Tell all replicas soon: at once, or with the last of this quarter second."""
        if account in self._waiting:
            self._waiting[account] = head
            return
        self._waiting[account] = None
        self._start(account, head)

    def close(self) -> None:
        """End the open streams, so that a shutdown does not wait for them."""
        self._stopped.set()
        for streams in self._streams.values():
            for stream in streams:
                stream.wake()

    def _start(self, account: bytes, head: int) -> None:
        task = asyncio.create_task(self._notify(account, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self, account: bytes, head: int) -> None:
        """Send one poke, wait out the quarter second, then send the last that came meanwhile."""
        pending: int | None = head
        while pending is not None and not self.closed:
            self._waiting[account] = None
            pause = POKE_SECONDS
            try:
                async with self._db.connection() as connection:
                    await connection.execute(
                        "SELECT pg_notify($1, $2)", CHANNEL, f"{account.hex()} {pending}"
                    )
            except UNREACHABLE:
                # Everybody is poked after the reconnect; trying again covers a single lost connection.
                self._waiting[account] = pending
                pause = RETRY_SECONDS
            await asyncio.sleep(pause)
            pending = self._waiting[account]
        self._waiting.pop(account, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen in the background while the block runs."""
        listener = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            self.close()
            for task in (listener, *self._tasks):
                task.cancel()
            await asyncio.gather(listener, *self._tasks, return_exceptions=True)

    async def _listen(self) -> None:
        while not self.closed:
            try:
                await self._listen_once()
            except UNREACHABLE as error:
                log.warning("the listening connection is down: %s", type(error).__name__)
            self.listening.clear()
            await asyncio.sleep(RETRY_SECONDS * (0.1 + random.random()))

    async def _listen_once(self) -> None:
        """One life of the connection; returns when it is lost."""
        connection = await asyncpg.connect(self._url, timeout=CONNECT_SECONDS)
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, self._receive)
            await self._poke_everybody(connection)
            self.listening.set()
            while not lost.is_set():
                try:
                    await asyncio.wait_for(lost.wait(), PROBE_SECONDS)
                except TimeoutError:
                    # A half-open connection says nothing: ask.
                    await connection.execute("SELECT 1", timeout=CONNECT_SECONDS)
        finally:
            connection.terminate()

    async def _poke_everybody(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """After a reconnect nobody knows what was missed."""
        accounts = list(self._streams)
        rows = await connection.fetch("SELECT account, head FROM account WHERE account = ANY($1)", accounts)
        for row in rows:
            self._deliver(row["account"], row["head"])

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        account, _, head = str(payload).partition(" ")
        self._deliver(bytes.fromhex(account), int(head))

    def _deliver(self, account: bytes, head: int) -> None:
        for stream in self._streams.get(account, ()):
            stream.offer(head)
