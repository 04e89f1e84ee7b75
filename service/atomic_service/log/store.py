"""SQL of a push: one transaction under the account's lock. Reads for agents are in reading.py.

No `ON CONFLICT` on events: the plan was made under the lock, so the unique constraints of `event` are
guards, and one that fires is a bug that must show.
"""

import asyncio
from typing import TYPE_CHECKING

from atomic_service.accounts.rules import Caller
from atomic_service.limits import refill
from atomic_service.log.rules import LogState, Plan, Progress, SessionState, check_events, is_ahead, plan_push
from atomic_service.problems import Refused
from atomic_service.uploads.store import drop_objects_of
from atomic_sessions.envelope import Kind, Sealed
from atomic_sessions.wire import ErrorCode, Pushed

if TYPE_CHECKING:
    from atomic_service.db import Connection, Database

PUSH_RATE, PUSH_BURST = 30.0, 300.0
"""Pushes an account may make a second, all of its devices together."""


async def push(db: "Database", caller: Caller, raws: list[bytes], now: int) -> Plan:
    """Store what is new of a push; what was done. Committed when this returns."""
    # 256 signatures take about 25 ms: not on the event loop.
    events = await asyncio.to_thread(check_events, raws, caller.account, caller.device, caller.sign_key)
    async with db.transaction() as connection:
        return await append(connection, caller, events, now)


async def append(connection: "Connection", caller: Caller, events: list[Sealed], now: int) -> Plan:
    """Store what is new of checked events, in the caller's transaction."""
    state = await _lock_and_read(connection, caller, events, now)
    plan = plan_push(state, events, caller.device, now)
    if plan.events:
        await _carry_out(connection, caller.account, plan, now)
    return plan


_LOCK = """
SELECT head, chain, bytes, quota, allowance, allowed_at FROM account WHERE account = $1 FOR UPDATE
"""
_ALLOW = "UPDATE account SET allowance = $2, allowed_at = $3 WHERE account = $1"
_REMOVED = "SELECT removed FROM device WHERE account = $1 AND device = $2"
_KNOWN = "SELECT id, seq, received_at FROM event WHERE account = $1 AND id = ANY($2)"
_SESSIONS = """
SELECT session, first_seq, last_seq, newest_at, newest_tag, received_at, records, bytes, skewed, dead
FROM session WHERE account = $1 AND session = ANY($2)
"""
_PROGRESS = """
SELECT session, writer, last_n, last_id FROM progress
WHERE account = $1 AND session = ANY($2) AND writer = ANY($3)
"""
_WRITERS = "SELECT writer, device FROM writer WHERE account = $1 AND writer = ANY($2)"


async def _lock_and_read(
    connection: "Connection", caller: Caller, events: list[Sealed], now: int
) -> LogState:
    """Take the lock, then read what the plan needs: nobody can change it any more."""
    account = caller.account
    row = await connection.fetchrow(_LOCK, account)
    if row is None:
        raise Refused(ErrorCode.UNAUTHORIZED)
    allowance = refill(row["allowance"], row["allowed_at"], now, PUSH_RATE, PUSH_BURST)
    if allowance < 1:
        raise Refused(ErrorCode.SLOW_DOWN, retry_after=round((1 - allowance) / PUSH_RATE, 3))
    await connection.execute(_ALLOW, account, allowance - 1, now)
    # A removal takes the same lock, so what is pushed after it was ordered after it.
    if await connection.fetchval(_REMOVED, account, caller.device) is not None:
        raise Refused(ErrorCode.DEVICE_REMOVED)
    ids = [event.id for event in events]
    sessions = list({event.header.session for event in events})
    writers = list({event.header.writer for event in events})
    known = await connection.fetch(_KNOWN, account, ids)
    states = [SessionState(**r) for r in await connection.fetch(_SESSIONS, account, sessions)]
    progress = [Progress(**r) for r in await connection.fetch(_PROGRESS, account, sessions, writers)]
    return LogState(
        head=row["head"],
        chain=row["chain"],
        used=row["bytes"],
        quota=row["quota"],
        known={r["id"]: Pushed(r["id"], r["seq"], False, r["received_at"]) for r in known},
        sessions={state.session: state for state in states},
        progress={(p.session, p.writer): p for p in progress},
        writers={r["writer"]: r["device"] for r in await connection.fetch(_WRITERS, account, writers)},
        first_named=await _first_named(connection, account, states, events, now),
    )


_FIRST_NAMED = """
SELECT session, newest_at, newest_tag, min(received_at) AS first FROM event
WHERE account = $1 AND session = ANY($2) AND newest_at = ANY($3) GROUP BY 1, 2, 3
"""


async def _first_named(
    connection: "Connection", account: bytes, states: list[SessionState], events: list[Sealed], now: int
) -> dict[tuple[bytes, int, bytes], int]:
    """When the messages these records name were first named. Only clocks that ran ahead make it matter."""
    skewed = {state.session for state in states if state.skewed}
    asked = [e.header for e in events if e.header.session in skewed or is_ahead(e.header, now)]
    if not asked:
        return {}
    sessions, times = list({h.session for h in asked}), list({h.newest_at for h in asked})
    rows = await connection.fetch(_FIRST_NAMED, account, sessions, times)
    return {(r["session"], r["newest_at"], r["newest_tag"]): r["first"] for r in rows}


async def _carry_out(connection: "Connection", account: bytes, plan: Plan, now: int) -> None:
    """Write the plan, one statement a table."""
    await _insert_events(connection, account, plan, now)
    await _write_sessions(connection, account, plan.sessions)
    await _write_progress(connection, account, plan.progress)
    if plan.writers:
        await connection.execute(_ADD_WRITERS, account, list(plan.writers), list(plan.writers.values()))
    await connection.execute(_ADVANCE, account, plan.head, plan.chain, plan.used)
    if plan.died:
        await connection.execute(_EMPTY, account, plan.died, int(Kind.TOMBSTONE))
        await drop_objects_of(connection, account, plan.died, now)


_ADD_WRITERS = (
    "INSERT INTO writer (account, writer, device) SELECT $1, * FROM unnest($2::bytea[], $3::bytea[])"
)
_EMPTY = "UPDATE event SET body = NULL WHERE account = $1 AND session = ANY($2) AND kind <> $3 AND body IS NOT NULL"
_ADVANCE = "UPDATE account SET head = $2, chain = $3, bytes = $4 WHERE account = $1"
_INSERT = """
INSERT INTO event (account, received_at, seq, kind, session, id, device, writer, n, newest_at, newest_tag, size, body,
    chain)
SELECT $1, $2, * FROM unnest($3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[],
    $9::bigint[], $10::bigint[], $11::bytea[], $12::integer[], $13::bytea[], $14::bytea[])
"""


async def _insert_events(connection: "Connection", account: bytes, plan: Plan, now: int) -> None:
    headers = [event.sealed.header for event in plan.events]
    raws = [event.sealed.raw for event in plan.events]
    await connection.execute(
        _INSERT,
        account,
        now,
        [event.seq for event in plan.events],
        [int(header.kind) for header in headers],
        [header.session for header in headers],
        [event.sealed.id for event in plan.events],
        [header.device for header in headers],
        [header.writer for header in headers],
        [header.n for header in headers],
        [header.newest_at for header in headers],
        [header.newest_tag for header in headers],
        [len(raw) for raw in raws],
        raws,
        [event.chain for event in plan.events],
    )


_WRITE_SESSIONS = """
INSERT INTO session (account, session, first_seq, last_seq, newest_at, newest_tag, received_at, records, bytes, skewed,
    dead)
SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[],
    $8::integer[], $9::bigint[], $10::boolean[], $11::boolean[])
ON CONFLICT ON CONSTRAINT session_pkey DO UPDATE SET last_seq = excluded.last_seq, newest_at = excluded.newest_at,
    newest_tag = excluded.newest_tag, received_at = excluded.received_at, records = excluded.records,
    bytes = excluded.bytes, skewed = excluded.skewed, dead = excluded.dead
"""


async def _write_sessions(connection: "Connection", account: bytes, sessions: list[SessionState]) -> None:
    await connection.execute(
        _WRITE_SESSIONS,
        account,
        [s.session for s in sessions],
        [s.first_seq for s in sessions],
        [s.last_seq for s in sessions],
        [s.newest_at for s in sessions],
        [s.newest_tag for s in sessions],
        [s.received_at for s in sessions],
        [s.records for s in sessions],
        [s.bytes for s in sessions],
        [s.skewed for s in sessions],
        [s.dead for s in sessions],
    )


_WRITE_PROGRESS = """
INSERT INTO progress (account, session, writer, last_n, last_id)
SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bytea[])
ON CONFLICT ON CONSTRAINT progress_pkey DO UPDATE SET last_n = excluded.last_n, last_id = excluded.last_id
"""


async def _write_progress(connection: "Connection", account: bytes, progress: list[Progress]) -> None:
    await connection.execute(
        _WRITE_PROGRESS,
        account,
        [p.session for p in progress],
        [p.writer for p in progress],
        [p.last_n for p in progress],
        [p.last_id for p in progress],
    )
