"""Several processes on one store, and killed ones: completed turns are all there, half a turn never."""

import os
import signal
from typing import Any

import pytest

from agent.stores.port.children import Counter, ended, forked, status
from agent.stores.port.conftest import Stand
from agent.stores.port.kinds import NOW, needs
from agent.stores.port.said import UUID, facts, ids, made, turn
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.port import Store
from atomic_agent.stores.postgres import PostgresStore
from atomic_agent.stores.sqlite import SqliteStore
from atomic_sessions.errors import SessionExistsError
from atomic_sessions.ids import SessionKey

TURNS, LINES = 12, 5
CALLS = ("open", "write", "fsync", "replace", "unlink", "ftruncate")
"""What changes a file; the kill comes before the call or, for a write, in its middle."""


@needs("reopened", "tree")
def test_two_processes_append(stand: Stand) -> None:
    """Every turn of both is there, each with its lines together and in order; both read the same."""
    key = made(stand.store)

    def write(who: int) -> None:
        store = stand.again()
        for number in range(TURNS):
            store.append(key, turn(who + number, "a0.1", lines=LINES))

    children = [forked(lambda who=who: write(who)) for who in (100, 200)]  # type: ignore[misc]  # bound per child
    assert [status(child) for child in children] == [0, 0]
    order = ids(list(stand.store.read(key)))
    assert len(order) == 2 + 2 * TURNS * LINES
    for who in (100, 200):
        for number in range(TURNS):
            lines = ids(turn(who + number, None, lines=LINES))
            at = order.index(lines[0])
            assert order[at : at + LINES] == lines
    assert ids(list(stand.again().read(key))) == order


@needs("reopened", "many")
def test_two_processes_make_one_session(stand: Stand) -> None:
    """One of them makes it, the others are told; no second file or row is left."""

    def make(number: int) -> None:
        try:
            stand.again().create(facts(stand.store, at=NOW + number), turn(number, None))
        except SessionExistsError:
            pass

    children = [forked(lambda number=number: make(number)) for number in range(4)]  # type: ignore[misc]  # bound per child
    assert [status(child) for child in children] == [0] * 4
    (row,) = stand.again().listed()
    assert (row.messages, row.copies) == (2, 1)


def _killing(store: Store, at: int, part: float, monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Kill this process at the n-th call that changes a file, or that SQLite or Postgres is asked."""
    counter = Counter(at)
    if isinstance(store, PostgresStore):
        ask = store.database._ask

        def asking(*values: Any, **more: Any) -> Any:  # as the store's own
            counter()
            answer = ask(*values, **more)
            counter()
            return answer

        monkeypatch.setattr(store.database, "_ask", asking)
        return counter
    if isinstance(store, SqliteStore):
        store.cache.connection.set_trace_callback(counter)
        return counter
    for name in CALLS:
        real = getattr(os, name)

        def call(*values: object, _name: str = name, _real: object = real, **more: object) -> object:
            if _name == "open" and not int(values[1]) & (os.O_WRONLY | os.O_RDWR):  # type: ignore[call-overload]  # flags
                return _real(*values, **more)  # type: ignore[operator]  # the system's own
            if counter.count + 1 == counter.at and _name == "write":
                handle, data = values
                _real(handle, data[: int(len(data) * part)])  # type: ignore[operator, index, arg-type]  # os.write
            counter()
            return _real(*values, **more)  # type: ignore[operator]  # the system's own

        monkeypatch.setattr(os, name, call)
    return counter


def _turn(store: Store, key: SessionKey) -> None:
    """A whole turn as a conversation makes it."""
    prompt, *answers = turn(1, "a0.1", lines=LINES)
    store.begin("t1", key, Begun(facts(store), "prompt 1", NOW, [prompt]))
    store.answer("t1", Answered(answers, last=True))
    store.append(key, [prompt, *answers], done=["t1"])


@needs("reopened")
@pytest.mark.parametrize("part", [0, 0.5, 0.999])
def test_killed_at_every_step_of_a_turn(stand: Stand, part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the instant: the session holds all of the turn or nothing, for every reader; a turn whose answer
    was kept is entered whole by whoever comes next; and once it is entered it stays."""
    if part and isinstance(stand.store, SqliteStore | PostgresStore):
        return  # it is killed between statements, not within writes
    stages: list[str] = []
    at = 0
    while True:
        at += 1
        key = made(stand.store, f"s{at}")

        def victim(at: int = at, key: SessionKey = key) -> None:
            store = stand.again()
            _killing(store, at, part, monkeypatch)
            _turn(store, key)

        killed = ended(victim)
        reader = stand.again()
        seen = ids(list(reader.read(key)))
        assert seen in (["u0", "a0.1"], ["u0", "a0.1", *ids(turn(1, None, lines=LINES))]), (
            f"half a turn at {at}"
        )
        waiting = [flight for flight in reader.pending() if flight.source == key]
        assert len(waiting) <= 1
        stages.append("entered" if len(seen) > 2 else "kept" if waiting and waiting[0].complete else "begun")
        if len(seen) == 2 and waiting and waiting[0].complete:
            reader.append(key, waiting[0].entries, done=[waiting[0].turn])
        elif len(seen) == 2:
            reader.append(key, turn(1, "a0.1", lines=LINES))
        for flight in waiting:
            reader.drop(flight.turn)
        assert ids(list(reader.read(key))) == ["u0", "a0.1", *ids(turn(1, None, lines=LINES))]
        assert ids(list(stand.store.read(key))) == ids(list(reader.read(key)))
        if not killed:
            break
        assert killed == signal.SIGKILL
    assert at > 10
    assert set(stages) == {"begun", "kept", "entered"}
    assert stages == sorted(stages, key=["begun", "kept", "entered"].index)


@needs("reopened")
def test_killed_while_a_session_is_made(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is the whole session or none; made again it is there once."""
    at = 0
    while True:
        at += 1

        def victim(at: int = at) -> None:
            store = stand.again()
            _killing(store, at, 0.5, monkeypatch)
            store.create(facts(store, f"s{at}"), turn(0, None, lines=LINES))

        killed = ended(victim)
        store = stand.again()
        found = store.get(made_key(store, f"s{at}"))
        assert found is None or found.messages == LINES
        if found is None:
            store.create(facts(store, f"s{at}"), turn(0, None, lines=LINES))
        assert store.find(f"s{at}", "").messages == LINES
        if not killed:
            break
    assert at > 5


def made_key(store: Store, session: str = UUID) -> SessionKey:
    found = facts(store, session)
    return SessionKey(found.agent, found.id, found.scope)
