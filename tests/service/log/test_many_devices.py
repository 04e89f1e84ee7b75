"""An account with ten thousand machines: what one request costs follows the page, not the account."""

import asyncio
import secrets
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import asyncpg

from atomic_service.db import open_database
from atomic_service.log import reading
from atomic_sessions import wire
from service.devices import Device
from service.running import RunningService

MACHINES, RECORDS, SIZE = 10_000, 4, 600
FLAT = 4.0
"""A page of a large account may take so many times that of a small one: the cores are shared."""

_DEVICES = """
INSERT INTO device (account, device, role, sign_key, added)
SELECT $1, substring(sha256(int4send(i) || $1) for 16), 'device', sha256($1 || int4send(i)), i
FROM generate_series(2, $2::integer) AS i
"""
_WRITERS = """
INSERT INTO writer (account, writer, device)
SELECT account, device, device FROM device WHERE account = $1 AND added > 1
"""
_EVENTS = """
INSERT INTO event (account, seq, kind, session, id, device, writer, n, newest_at, newest_tag, size, body, chain,
    received_at)
SELECT account, (added - 2) * $2::bigint + n, 1, sign_key_session, sha256(device || int4send(n)), device, device, n,
    added, substring(device for 8), $3::integer, convert_to(repeat('x', $3::integer), 'UTF8'),
    substring(sha256(int8send((added - 2) * $2::bigint + n)) for 16), 1
FROM (SELECT account, device, added, substring(sign_key for 16) AS sign_key_session FROM device
    WHERE account = $1 AND added > 1) AS made, generate_series(1, $2::integer) AS n
"""
_SESSIONS = """
INSERT INTO session (account, session, first_seq, last_seq, newest_at, newest_tag, received_at, records, bytes,
    skewed, dead)
SELECT account, session, min(seq), max(seq), max(newest_at), min(newest_tag), 1, count(*), sum(size), false, false
FROM event WHERE account = $1 GROUP BY account, session
"""
_PROGRESS = """
INSERT INTO progress (account, session, writer, last_n, last_id)
SELECT DISTINCT ON (session, writer) account, session, writer, n, id FROM event
WHERE account = $1 ORDER BY session, writer, n DESC
"""
_HEAD = """
UPDATE account SET head = last.seq, chain = last.chain
FROM (SELECT seq, chain FROM event WHERE account = $1 ORDER BY seq DESC LIMIT 1) AS last WHERE account.account = $1
"""


async def fill(service: RunningService, account: bytes, machines: int) -> None:
    """Machines with a session of their own each, straight into the tables."""
    connection = await asyncpg.connect(service.owner_url())
    try:
        async with connection.transaction():
            await connection.execute(_DEVICES, account, machines)
            await connection.execute(_WRITERS, account)
            await connection.execute(_EVENTS, account, RECORDS, SIZE)
            for statement in (_SESSIONS, _PROGRESS, _HEAD):
                await connection.execute(statement, account)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of five."""
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def test_pages_pushes_and_memory_stay_flat(own_service: RunningService) -> None:
    """With 10,000 machines, sessions and writers a page of the log, one session's records, a look-up and a push take
    what they take with 100; no page holds more than its bytes; the whole log arrives once each."""
    small, large = own_service.device(), own_service.device()
    for device, machines in ((small, 100), (large, MACHINES)):
        asyncio.run(fill(own_service, device.account, machines))
    total = (MACHINES - 1) * RECORDS
    assert large.pull().head == total
    asked: dict[str, Callable[[Device], object]] = {
        "page": lambda device: device.get(f"/v1/pull?cursor={place(own_service, device)}", wire.Pull),
        "records": lambda device: device.get(
            f"/v1/sessions/{some_session(own_service, device).hex()}/records", wire.Records
        ),
        "have": lambda device: device.post(
            "/v1/have", wire.Have([secrets.token_bytes(32) for _ in range(100)]), wire.Missing
        ),
        "push": lambda device: device.push(device.writer().seal()),
        "snapshot": lambda device: device.get("/v1/snapshot", wire.Snapshot),
    }
    slower = {}
    for name, ask in asked.items():
        slower[name] = best(partial(ask, large)) / best(partial(ask, small))
    assert all(times < FLAT for times in slower.values()), slower
    assert peak_of_page(own_service, large) < 2 * wire.MAX_PULL_BYTES
    seqs = [event.seq for event in large.pull_all()]
    assert seqs[:total] == list(range(1, total + 1))
    listed = large.sessions()
    assert len(listed) >= MACHINES - 1
    assert all(row.records == RECORDS for row in listed.values() if row.last_seq <= total)


def place(service: RunningService, device: Device) -> str:
    """A cursor 300 records before the log's end."""

    async def read() -> bytes:
        connection = await asyncpg.connect(service.owner_url())
        try:
            row = await connection.fetchrow(
                "SELECT seq, chain FROM event WHERE account = $1 ORDER BY seq DESC OFFSET 300 LIMIT 1",
                device.account,
            )
            assert row is not None
            return reading.Cursor(row["seq"], row["chain"]).pack()
        finally:
            await connection.close()

    return asyncio.run(read()).hex()


def some_session(service: RunningService, device: Device) -> bytes:
    async def read() -> bytes:
        connection = await asyncpg.connect(service.owner_url())
        try:
            return bytes(
                await connection.fetchval(
                    "SELECT session FROM event WHERE account = $1 AND seq = 200", device.account
                )
            )
        finally:
            await connection.close()

    return asyncio.run(read())


def peak_of_page(service: RunningService, device: Device) -> int:
    """Bytes that Python takes at most for one full page from the start."""

    async def read() -> int:
        async with open_database(service.settings.database_url, 1) as db, db.snapshot() as connection:
            await reading.pull(connection, device.account, reading.START)
            tracemalloc.start()
            page = await reading.pull(connection, device.account, reading.START)
            assert page.more
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return found

    return asyncio.run(read())
