"""The pool: what one user of a connection left behind is not there for the next."""

import asyncio
import contextlib

import asyncpg
import pytest

from atomic_service.db import open_database
from atomic_service.problems import problem_of
from service.running import RunningService


def test_connection_lost_in_the_middle_is_an_answer_to_wait_out() -> None:
    """I24: what asyncpg raises when a connection goes between two statements is 503, like any lost connection."""
    for lost in (
        asyncpg.InternalClientError("cannot switch to state"),
        asyncpg.ConnectionDoesNotExistError("gone"),
    ):
        problem = problem_of(lost)
        assert (problem.status, problem.code, problem.retry_after) == (503, "unavailable", 1.0)


async def test_broken_off_transaction_is_undone_before_the_next_user(own_service: RunningService) -> None:
    """A request that is cancelled, or that fails, in its transaction leaves neither a row nor an open transaction."""
    invite = "INSERT INTO invite (sha256, expires_at) VALUES ($1, 1)"
    async with open_database(own_service.settings.database_url, 1) as db:

        async def slow() -> None:
            async with db.transaction() as connection:
                await connection.execute(invite, b"slow")
                begun.set()
                await connection.execute("SELECT pg_sleep(60)")

        begun = asyncio.Event()
        task = asyncio.create_task(slow())
        await asyncio.wait_for(begun.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with contextlib.suppress(ZeroDivisionError):
            async with db.transaction() as connection:
                await connection.execute(invite, b"failed")
                raise ZeroDivisionError
        async with db.connection() as connection:
            await connection.execute("BEGIN")
            await connection.execute(invite, b"left open")
        async with db.connection() as connection:
            assert not connection.is_in_transaction()
            assert await connection.fetchval("SELECT count(*) FROM invite WHERE expires_at = 1") == 0
