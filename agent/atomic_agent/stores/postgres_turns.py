"""Turns in flight and claims in Postgres: what stands beside the sessions. Enters no line."""

import json
from collections.abc import Iterable

import msgspec

from atomic_agent.cache.claims import Claim, Process, alive, name_of
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.port import InFlight
from atomic_agent.stores.postgres_connection import Database
from atomic_agent.stores.postgres_text import identity, kept, said
from atomic_sessions.ids import SessionKey


class Opening(msgspec.Struct, frozen=True):
    """The first part of a turn."""

    source: SessionKey | None
    begun: Begun


# JSON with escapes takes what a prompt may hold, half characters and NULs, where msgpack refuses them.
def _packed(part: Opening | Answered) -> bytes:
    return json.dumps(msgspec.to_builtins(part)).encode("ascii")


_PUT = 'INSERT INTO "{p}session_turns" (turn, part, target, source, body) VALUES ($1, 0, $2, $3, $4)'


def begin(
    database: Database, turn: str, source: SessionKey | None, begun: Begun, instead: Iterable[str]
) -> None:
    """Keep a prompt; inside a transaction."""
    drop(database, [*instead, turn])
    facts = begun.facts
    database.run(
        _PUT,
        kept(turn),
        identity(facts.key),
        None if source is None else identity(source),
        _packed(Opening(source, begun)),
    )


_THERE = 'SELECT FROM "{p}session_turns" WHERE turn = $1 AND part = 0 FOR UPDATE'
_ADD = (
    'INSERT INTO "{p}session_turns" (turn, part, target, source, body)'
    ' SELECT turn, max(part) + 1, target, source, $2 FROM "{p}session_turns" WHERE turn = $1'
    " GROUP BY turn, target, source"
)


def answer(database: Database, turn: str, part: Answered) -> None:
    """Keep what a model completed, nothing of a turn that was dropped; inside a transaction."""
    if database.one(_THERE, kept(turn)) is not None:
        database.run(_ADD, kept(turn), _packed(part))


_ALL = 'SELECT turn, part, body FROM "{p}session_turns" ORDER BY turn, part'


def pending(database: Database) -> list[InFlight]:
    """All turns in flight, oldest first."""
    openings: dict[str, Opening] = {}
    answers: dict[str, list[Answered]] = {}
    for found in database.fetch(_ALL):
        turn, body = said(found["turn"]), json.loads(found["body"])
        if found["part"] == 0:
            openings[turn] = msgspec.convert(body, Opening)
            answers[turn] = []
        elif turn in answers:
            answers[turn].append(msgspec.convert(body, Answered))
    flights = [
        InFlight(turn, opening.source, opening.begun, answers[turn]) for turn, opening in openings.items()
    ]
    return sorted(flights, key=lambda flight: (flight.begun.at, flight.turn))


_DROP = 'DELETE FROM "{p}session_turns" WHERE turn = ANY($1::bytea[])'


def drop(database: Database, turns: Iterable[str]) -> None:
    """Forget turns that were entered or given up."""
    if gone := [kept(turn) for turn in turns]:
        database.run(_DROP, gone)


_FORGET_TURNS = 'DELETE FROM "{p}session_turns" WHERE target = $1 OR source = $1'
_FORGET_CLAIM = 'DELETE FROM "{p}session_claims" WHERE session = $1'


def forget(database: Database, session: SessionKey) -> None:
    """What is in flight for a session that is deleted, and who writes it; inside a transaction."""
    database.run(_FORGET_TURNS, identity(session))
    database.run(_FORGET_CLAIM, identity(session))


_HOLDER = 'SELECT host, pid, started, since FROM "{p}session_claims" WHERE session = $1'


def holder(database: Database, session: SessionKey, me: Process) -> Claim | None:
    """The living process other than `me` that holds a session; one of another machine counts as living."""
    found = database.one(_HOLDER, identity(session))
    if found is None:
        return None
    process = Process(said(found["host"]), found["pid"], said(found["started"]))
    if process == me or not alive(process, me.host):
        return None
    return Claim(name_of(session), process, found["since"])


# A row that is not there yet cannot be locked.
_ONE_AT_A_TIME = 'LOCK TABLE "{p}session_claims" IN SHARE ROW EXCLUSIVE MODE'
_TAKE = (
    'INSERT INTO "{p}session_claims" (session, host, pid, started, since) VALUES ($1, $2, $3, $4, $5)'
    ' ON CONFLICT ON CONSTRAINT "{p}session_claimed_once" DO UPDATE'
    " SET host = excluded.host, pid = excluded.pid, started = excluded.started, since = excluded.since"
)


def take(database: Database, session: SessionKey, me: Process, now: int, *, force: bool) -> Claim | None:
    """Claim a session; the claim of another living process instead, unless forced. Inside a transaction."""
    database.run(_ONE_AT_A_TIME)
    held = holder(database, session, me)
    if held is not None and not force:
        return held
    database.run(_TAKE, identity(session), kept(me.host), me.pid, kept(me.started), now)
    return None


_RELEASE = 'DELETE FROM "{p}session_claims" WHERE session = $1 AND host = $2 AND pid = $3 AND started = $4'


def release(database: Database, session: SessionKey, me: Process) -> None:
    """Give a session back; another's claim stays."""
    database.run(_RELEASE, identity(session), kept(me.host), me.pid, kept(me.started))
