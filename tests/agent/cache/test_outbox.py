"""What waits to be sent: kept whole, sent in order, taken back whole."""

import pytest

from agent.cache.stored import ensure, facts, put, said
from atomic_agent.cache import entries, outbox, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.keys.keystore import Device, Membership
from atomic_agent.sync.sealing import Sealer
from atomic_sessions.envelope import ZERO32, parse

MINE = Membership(
    "http://127.0.0.1:9",
    b"a" * 16,
    Device(b"d" * 16, "laptop", b"s" * 32, b"k" * 96),
    1,
    b"k" * 32,
    b"i" * 32,
    bytes(32),
    bytes(32),
    1,
)


def _sealed(cache: Cache, session: int, *texts: str) -> None:
    """Each text becomes an entry of its own record."""
    for text in texts:
        count = cache.connection.execute("SELECT count(*) FROM session_entries").fetchone()[0]
        put(cache, session, [said(f"e{count}", None, text, pos=count, stamp=count + 1)])
        Sealer(cache, MINE).seal_all()


def _wire(cache: Cache, session: int) -> bytes:
    wire = sessions.get(cache, session).wire
    assert wire is not None
    return wire


def test_sealing_takes_what_is_unsealed(cache: Cache) -> None:
    """An entry is unsealed until its record is queued, then never again."""
    session = ensure(cache)
    put(cache, session, [said("e0", None, "x", pos=0, stamp=1)])
    assert outbox.unsealed_sessions(cache) == [session]
    assert outbox.unsealed_count(cache) == 1
    assert Sealer(cache, MINE).seal_all() == 1
    assert outbox.unsealed_sessions(cache) == []
    assert outbox.unsealed_count(cache) == 0
    assert outbox.count(cache) == 1
    assert Sealer(cache, MINE).seal_all() == 0


@pytest.mark.parametrize(
    ("events", "size", "count"), [(10, 1 << 20, 5), (2, 1 << 20, 2), (10, 1, 1), (0, 1 << 20, 0)]
)
def test_limits_of_what_is_sent(cache: Cache, events: int, size: int, count: int) -> None:
    """Oldest first, within both limits, and one record even if it alone is too large."""
    session = ensure(cache)
    _sealed(cache, session, "one", "two", "three", "four", "five")
    found = outbox.waiting(cache, events, size)
    assert [item.entries for item in found] == [[f"e{n}"] for n in range(count)]
    assert [parse(item.raw).header.n for item in found] == list(range(1, count + 1))


def test_the_size_limit_counts_every_record(cache: Cache) -> None:
    """The limit in bytes covers the records and what each needs around it."""
    session = ensure(cache)
    _sealed(cache, session, "one", "two", "three")
    sizes = [len(item.raw) + 16 for item in outbox.waiting(cache, 9, 1 << 30)]
    assert len(outbox.waiting(cache, 9, sum(sizes[:2]))) == 2
    assert len(outbox.waiting(cache, 9, sum(sizes[:2]) - 1)) == 1


def test_a_retry_sends_the_same_bytes(cache: Cache) -> None:
    """What waits does not change until it is dropped; dropping takes those records alone."""
    session = ensure(cache)
    _sealed(cache, session, "one", "two")
    first = outbox.waiting(cache, 9, 1 << 30)
    assert outbox.waiting(cache, 9, 1 << 30) == first
    outbox.drop(cache, [first[0].row])
    assert outbox.waiting(cache, 9, 1 << 30) == first[1:]


def test_rewinding_to_what_was_sent(cache: Cache) -> None:
    """Dropping what waits puts the chain back to the last record that left, or to its start."""
    session = ensure(cache)
    _sealed(cache, session, "one", "two", "three")
    wire = _wire(cache, session)
    sent, *_ = outbox.waiting(cache, 9, 1 << 30)
    outbox.drop(cache, [sent.row])
    with transaction(cache.connection):
        outbox.rewind_waiting(cache, wire, cache.writer)
    assert outbox.count(cache) == 0
    assert outbox.chain(cache, wire, cache.writer) == outbox.Chain(MINE.device.id, 1, sent.id)
    with transaction(cache.connection):
        outbox.rewind_waiting(cache, wire, cache.writer)
    assert outbox.chain(cache, wire, cache.writer).n == 1


def test_rewinding_before_anything_was_sent(cache: Cache) -> None:
    """With no record sent the chain starts anew."""
    session = ensure(cache)
    _sealed(cache, session, "one", "two")
    wire = _wire(cache, session)
    with transaction(cache.connection):
        outbox.rewind_waiting(cache, wire, cache.writer)
    assert outbox.chain(cache, wire, cache.writer) == outbox.Chain(b"", 0, ZERO32)


def test_rewinding_leaves_other_sessions(cache: Cache) -> None:
    """A deleted session's records go, those of others wait on."""
    one, two = ensure(cache), ensure(cache, facts("notes", scope="git:h/p"))
    _sealed(cache, one, "one")
    _sealed(cache, two, "two")
    with transaction(cache.connection):
        outbox.rewind_waiting(cache, _wire(cache, one), cache.writer)
    assert [item.session for item in outbox.waiting(cache, 9, 1 << 30)] == [two]
    assert outbox.chain(cache, _wire(cache, two), cache.writer).n == 1


def test_going_on_as_another_writer(cache: Cache) -> None:
    """After a fork the waiting entries are sealed anew under the new writer, from its first record on."""
    session = ensure(cache)
    _sealed(cache, session, "one", "two", "three")
    old, wire = cache.writer, _wire(cache, session)
    sent, *_ = outbox.waiting(cache, 9, 1 << 30)
    outbox.drop(cache, [sent.row])
    with transaction(cache.connection):
        outbox.change_writer(cache, b"w" * 16)
    assert cache.writer == b"w" * 16
    assert [stored.entry.id for stored in outbox.unsealed(cache, session)] == ["e1", "e2"]
    assert outbox.chain(cache, wire, old).n == 1
    Sealer(cache, MINE).seal_all()
    (again,) = outbox.waiting(cache, 9, 1 << 30)
    assert again.entries == ["e1", "e2"]
    assert (parse(again.raw).header.writer, parse(again.raw).header.n) == (b"w" * 16, 1)


def test_large_lines_lie_in_objects(cache: Cache) -> None:
    """A line above the limit is queued as an object of its own, named by its digest, and dropped once."""
    session = ensure(cache)
    _sealed(cache, session, "x" * 300_000)
    ((object_id, wire, content),) = outbox.uploads(cache)
    assert wire == _wire(cache, session)
    assert len(content) > 0
    outbox.drop_upload(cache, object_id)
    assert list(outbox.uploads(cache)) == []
    assert outbox.count(cache) == 1


def test_forgetting_the_log(cache: Cache) -> None:
    """Leaving an account: nothing is sent, nothing was received, every entry is to be sealed again."""
    session = ensure(cache)
    _sealed(cache, session, "one", "y" * 300_000)
    with transaction(cache.connection):
        entries.acknowledge(cache, session, ["e0"], 5)
        outbox.tombstone(cache, b"t" * 16)
        outbox.quarantine(cache, b"q" * 32, None, "bad", 1)
        outbox.forget_log(cache)
    assert outbox.count(cache) == 0
    assert list(outbox.uploads(cache)) == []
    assert outbox.unsealed_count(cache) == 2
    assert outbox.quarantined(cache) == []
    assert not outbox.is_tombstoned(cache, b"t" * 16)
    assert [stored.received for stored in entries.read(cache, session)] == [None, None]
    assert outbox.chain(cache, _wire(cache, session), cache.writer).n == 0


def test_leaving_an_account_keeps_the_list_right(cache: Cache) -> None:
    """Times the service bounded are the clocks' own again, in the row as in the entries."""
    session = ensure(cache)
    put(cache, session, [said("e0", None, "from 2090", pos=0, stamp=10**13)])
    with transaction(cache.connection):
        entries.acknowledge(cache, session, ["e0"], 5)
        outbox.forget_log(cache)
    row = sessions.get(cache, session)
    with transaction(cache.connection):
        entries.refresh(cache, session)
    assert sessions.get(cache, session) == row


def test_refused_records_are_counted(cache: Cache) -> None:
    """By reason, each record once."""
    for number in (1, 1, 2):
        outbox.quarantine(cache, bytes([number]) * 32, None, "bad signature", number)
    outbox.quarantine(cache, b"z" * 32, None, "wrong key", 1)
    assert outbox.quarantined(cache) == [("bad signature", 2), ("wrong key", 1)]
