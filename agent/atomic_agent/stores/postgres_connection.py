"""One connection to a Postgres, for callers that do not wait asynchronously. The only module that knows asyncpg; it
knows no table.

asyncpg lives in an event loop, so each connection has a daemon thread with one: the caller may be any thread, also
one that runs a loop itself, and iterators it passes in stay in it. The hop costs 0.1 ms beside the 0.1 of the least
statement over a local socket (measured). One thread uses the connection at a time, for the whole of a transaction.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg

from atomic_agent.stores import postgres_errors
from atomic_sessions.errors import StoreUnavailableError

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 120.0
CLOSE_SECONDS = 2.0

Record = asyncpg.Record
T = TypeVar("T")

_FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_LOST = ("08", "57P0")
"""Classes of SQLSTATE after which there is no connection."""

# What returned is to be there after a power cut, whatever the database was told for others.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
# Whatever the database's default is: a stricter level would fail where two append at once.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"


class Database:
    """A connection that is made when it is first needed, and made again once when it was lost between two calls.

    Outside of `transaction` a statement may run twice, so only reads and what can be repeated stand there.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self.prefix = prefix
        self.place = postgres_errors.shown(url)
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: asyncpg.Connection[Record] | None = None
        self._inside = False
        self._closed = False
        self._process = os.getpid()
        self._parents: list[object] = []

    def sql(self, text: str) -> str:
        """A statement with the names of our tables."""
        return text.replace("{p}", self.prefix)

    def fetch(self, statement: str, *values: object) -> list[Record]:
        """All rows of a statement."""
        return self._ask(lambda c: c.fetch(self.sql(statement), *values))

    def one(self, statement: str, *values: object) -> Record | None:
        """Its first row."""
        return self._ask(lambda c: c.fetchrow(self.sql(statement), *values))

    def run(self, statement: str, *values: object) -> None:
        """A statement without rows; several at once when it has no values."""
        self._ask(lambda c: c.execute(self.sql(statement), *values))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done inside is kept when it ends, or nothing; one in another is part of it."""
        with self._lock:
            if self._inside:
                yield
                return
            try:
                self._ask(lambda c: c.execute(_BEGIN))
                self._inside = True
                yield
                self._ask(lambda c: c.execute("COMMIT"), entering=True)
            except BaseException:
                self._undo()
                raise
            finally:
                self._inside = False

    def close(self) -> None:
        """Let go of the connection and its thread; a second time does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._process != os.getpid() or self._loop is None or self._thread is None:
                return
            if self._connection is not None:
                try:
                    self._wait(self._connection.close(timeout=CLOSE_SECONDS))
                except _FAILURES:
                    pass  # it is closed, with or without a word of farewell
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _ask(
        self,
        question: "Callable[[asyncpg.Connection[Record]], Coroutine[Any, Any, T]]",
        *,
        entering: bool = False,
    ) -> T:
        with self._lock:
            for again in (not self._inside, False):
                connection = self._connected()
                try:
                    return self._wait(question(connection))
                except _FAILURES as error:
                    if not _is_lost(connection, error):
                        raise postgres_errors.of_a_statement(self.place, error) from None
                    self._drop()
                    if not again:
                        raise postgres_errors.gone(self.place, entering=entering) from None
            raise AssertionError("the second time returns or raises")

    def _connected(self) -> "asyncpg.Connection[Record]":
        if self._closed:
            raise StoreUnavailableError(f"{self.place} was closed.")
        if self._process != os.getpid():
            self._leave_to_parent()
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._inside:
            raise postgres_errors.gone(self.place)
        try:
            self._connection = self._wait(_connect(self._url))
        except (*_FAILURES, ValueError) as error:
            raise postgres_errors.of_connecting(self.place, error) from None
        return self._connection

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Done in the loop's thread. Ctrl-C in the caller takes the connection with it, and so what was not kept."""
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        finally:
            if not future.done():
                future.cancel()
                self._drop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="atomic-postgres", daemon=True
            )
            self._thread.start()
        return self._loop

    def _undo(self) -> None:
        """End a transaction without keeping it; at worst by hanging up."""
        connection = self._connection
        if connection is None or connection.is_closed():
            return
        try:
            self._wait(connection.execute("ROLLBACK"))
        except _FAILURES:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(connection.terminate)

    def _leave_to_parent(self) -> None:
        """After a fork the connection is the parent's and its thread is not here; kept, so that nothing hangs up."""
        self._parents += [self._connection, self._loop, self._thread]
        self._connection = self._loop = self._thread = None
        self._process = os.getpid()


async def _connect(url: str) -> "asyncpg.Connection[Record]":
    connection: asyncpg.Connection[Record] = await asyncpg.connect(
        url,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        server_settings={"application_name": "atomic"},
    )
    try:
        await connection.execute(_DURABLE)
    except BaseException:
        connection.terminate()
        raise
    return connection


def _is_lost(connection: "asyncpg.Connection[Record]", error: Exception) -> bool:
    state = getattr(error, "sqlstate", None)
    return (
        connection.is_closed()
        or isinstance(error, OSError)
        or (isinstance(state, str) and state.startswith(_LOST))
    )
