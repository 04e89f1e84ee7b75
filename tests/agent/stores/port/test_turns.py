"""Turns in flight and who writes: kept aside, offered again, given up (A1)."""

import os
import signal

from agent.stores.port.children import ended, living
from agent.stores.port.conftest import Stand
from agent.stores.port.kinds import NOW, needs
from agent.stores.port.said import OTHER, UUID, facts, ids, made, raws, turn
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.port import Store
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)


def begun(store: Store, number: int = 1, at: int = NOW) -> Begun:
    return Begun(facts(store), f"prompt {number}", at, turn(number, "a0.1")[:1], 0)


@needs("many")
def test_a_turn_in_flight_is_outside_the_session(store: Store) -> None:
    """The session has nothing of it; what it had completed is offered, with where it goes on from."""
    key = made(store)
    before = raws(store, key), list(store.listed())
    store.begin("t1", key, begun(store))
    first, second = turn(1, "a0.1", lines=3)[1:]
    store.answer("t1", Answered([first], last=False))
    (flight,) = store.pending()
    assert (flight.turn, flight.source, flight.complete) == ("t1", key, False)
    assert (flight.begun, ids(flight.entries)) == (begun(store), ["u1", "a1.1"])
    store.answer("t1", Answered([second], last=True))
    (flight,) = store.pending()
    assert (flight.complete, ids(flight.entries)) == (True, ["u1", "a1.1", "a1.2"])
    assert (raws(store, key), list(store.listed())) == before


def test_entered_it_is_in_flight_no_longer(store: Store) -> None:
    """The turn goes into the session and out of the side place in one call."""
    key = made(store)
    store.begin("t1", key, begun(store))
    store.begin("t2", key, begun(store, 2, NOW + 5))
    store.append(key, turn(1, "a0.1"), done=["t1"])
    assert [flight.turn for flight in store.pending()] == ["t2"]
    assert store.leaf(key) == "a1.1"


@needs("many")
def test_a_first_turn_makes_its_session(store: Store) -> None:
    """Before it there is no session, only what waits; it has no source."""
    store.begin("t1", None, begun(store))
    assert list(store.listed()) == []
    assert [flight.source for flight in store.pending()] == [None]
    row = store.create(facts(store), turn(0, None), done=["t1"])
    assert (row.messages, store.pending()) == (2, [])


def test_dropped_and_replaced(store: Store) -> None:
    """A dropped turn is gone; a new one takes the place of those named; the others stay, oldest first."""
    key = made(store)
    for number, at in ((1, 30), (2, 10), (3, 20)):
        store.begin(f"t{number}", key, begun(store, number, NOW + at))
    assert [flight.turn for flight in store.pending()] == ["t2", "t3", "t1"]
    store.drop("t3")
    store.drop("t3")
    store.begin("t4", key, begun(store, 4), instead=["t1"])
    assert [flight.turn for flight in store.pending()] == ["t4", "t2"]


def test_an_answer_to_a_dropped_turn(store: Store) -> None:
    """Is kept nowhere: whoever dropped it, as in taking a session over, has decided."""
    key = made(store)
    store.begin("t", key, begun(store))
    store.drop("t")
    store.answer("t", Answered([], last=True))
    assert store.pending() == []


@needs("many")
def test_deleting_takes_what_is_in_flight(store: Store) -> None:
    """Nothing of a deleted session waits to be taken up; another session's turn does."""
    key, other = made(store), made(store, OTHER)
    store.begin("t1", key, begun(store))
    store.begin("t2", other, Begun(facts(store, OTHER), "p", NOW, []))
    store.delete(key)
    assert [flight.turn for flight in store.pending()] == ["t2"]


@needs("reopened")
def test_what_waits_outlives_its_process(stand: Stand) -> None:
    """Another opening offers the same turns."""
    key = made(stand.store)
    stand.store.begin("t1", key, begun(stand.store))
    stand.store.answer("t1", Answered(turn(1, "a0.1")[1:], last=True))
    assert stand.again().pending() == stand.store.pending()
    assert len(stand.again().pending()) == 1


def test_claimed_by_ourselves(store: Store) -> None:
    """A process may claim what it holds, a session that is not there too, and give it back twice."""
    for _ in range(2):
        assert store.claim(KEY, NOW) is None
    store.release(KEY)
    store.release(KEY)
    assert store.claim(KEY, NOW) is None


@needs("claimed")
def test_claimed_by_another_process(stand: Stand) -> None:
    """One writer: the second is told who, since when; forced it takes over, and the first loses nothing."""
    with living(lambda: stand.again().claim(KEY, NOW - 5)) as child:
        held = stand.store.claim(KEY, NOW)
        assert held is not None
        assert (held.process.pid, held.since) == (child, NOW - 5)
        stand.store.release(KEY)
        assert stand.store.claim(KEY, NOW) is not None, "another's claim stays"
        assert stand.store.claim(SessionKey("atomic", OTHER), NOW) is None
        assert stand.store.claim(KEY, NOW, force=True) is None
        assert stand.store.claim(KEY, NOW) is None


@needs("claimed")
def test_a_dead_process_holds_nothing(stand: Stand) -> None:
    """The claim of a killed process is taken without a word."""

    def die() -> None:
        stand.again().claim(KEY, NOW)
        os.kill(os.getpid(), signal.SIGKILL)

    assert ended(die) == signal.SIGKILL
    assert stand.store.claim(KEY, NOW) is None


@needs("many")
def test_a_claim_hinders_no_reader(store: Store) -> None:
    """A claimed session is listed, read and searched."""
    key = made(store)
    store.claim(key, NOW)
    assert store.find(UUID, "").key == key
    assert store.leaf(key) == "a0.1"
    assert [hit.entry for hit in store.search("answer")] == ["a0.1"]
