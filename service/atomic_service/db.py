"""The pool of Postgres connections and the three ways to use one. Knows no table.

Postgres may be away: the pool opens connections when they are asked for, so a replica starts without
a database, answers 503 and recovers by itself.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]

ACQUIRE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0
SERVER_SETTINGS = {
    "application_name": "atomic_service",
    "lock_timeout": "10s",
    "statement_timeout": "25s",
    "idle_in_transaction_session_timeout": "30s",
}


class Database:
    """A pool, closed by the application that opened it."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["Connection"]:
        """A connection for single statements."""
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Connection"]:
        """One transaction, committed when the block ends without an error."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["Connection"]:
        """One consistent view of the database, for reads that span statements."""
        async with (
            self.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection


async def _nothing_to_undo(_: object) -> None:
    """Between two users of a connection. asyncpg rolls back what is open and then asks Postgres to forget locks,
    cursors and settings: nobody here makes any, and that was three of the eighteen round trips of a push."""


@asynccontextmanager
async def open_database(url: str, size: int) -> AsyncIterator[Database]:
    """The database for as long as the block runs; does not wait for Postgres to be there."""
    pool = asyncpg.create_pool(
        url,
        min_size=0,
        max_size=size,
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS,
        max_inactive_connection_lifetime=60,
        server_settings=SERVER_SETTINGS,
        reset=_nothing_to_undo,
    )
    async with pool:
        yield Database(pool)
