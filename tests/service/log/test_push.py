"""A push over HTTP and a real Postgres: acknowledged is stored, stored is stored once."""

import asyncio
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import httpx
import msgspec
import pytest

from atomic_sessions import wire
from atomic_sessions.envelope import Kind
from service.devices import Refusal, client
from service.running import RunningService


def test_new_events_are_numbered_in_order_and_pulled_as_they_were_sent(service: RunningService) -> None:
    """What was pushed comes back byte for byte under consecutive numbers."""
    device = service.device()
    writer = device.writer()
    raws = [writer.seal(size=500) for _ in range(5)]
    reply = device.push(*raws)
    assert [(r.seq, r.new) for r in reply.results] == [(n, True) for n in range(1, 6)]
    assert [(e.seq, e.raw) for e in device.pull_all()] == list(enumerate(raws, start=1))


def test_repeated_push_adds_nothing_and_answers_the_old_places(service: RunningService) -> None:
    """I02: a retry after a lost reply gets the same numbers and times, with new=False."""
    device = service.device()
    writer = device.writer()
    raws = [writer.seal() for _ in range(3)]
    first = device.push(*raws)
    again = device.push(*raws)
    assert [(r.id, r.seq, r.received_at) for r in again.results] == [
        (r.id, r.seq, r.received_at) for r in first.results
    ]
    assert not any(r.new for r in again.results)
    assert again.head == first.head == 3
    assert len(device.pull_all()) == 3


def test_push_may_mix_old_and_new_events(service: RunningService) -> None:
    """A batch that was sent in part before is completed."""
    device = service.device()
    writer = device.writer()
    first, second = writer.seal(), writer.seal()
    device.push(first)
    assert [(r.seq, r.new) for r in device.push(first, second, second).results] == [
        (1, False),
        (2, True),
        (2, False),
    ]


def test_connection_cut_after_commit_loses_and_doubles_nothing(service: RunningService) -> None:
    """I02 with a real cut: the client hangs up before the reply, then retries."""
    device = service.device()
    raw = device.writer().seal()
    body = msgspec.msgpack.encode(wire.Push([raw]))
    with client(service.url) as impatient, pytest.raises(httpx.TimeoutException):
        impatient.post(
            "/v1/push",
            content=body,
            headers={"authorization": f"Bearer {device.token}"},
            timeout=httpx.Timeout(5, read=0.0001),
        )
    device.push(raw)
    assert [e.raw for e in device.pull_all()] == [raw]


@pytest.mark.parametrize("fault", ["gap", "restart", "fork"])
def test_writer_that_does_not_continue_itself_is_refused(service: RunningService, fault: str) -> None:
    """I05, I06: a cloned or restored cache shows, and nothing of its push is stored."""
    device = service.device()
    writer = device.writer()
    clone = device.writer(writer.session)
    clone.writer = writer.writer
    device.push(writer.seal(), writer.seal())
    if fault == "gap":
        writer.seal()
        raw = writer.seal()
    elif fault == "restart":
        raw = clone.seal()
    else:
        clone.n, clone.prev = 2, secrets.token_bytes(32)
        raw = clone.seal()
    with pytest.raises(Refusal, match="409 writer_forked"):
        device.push(device.writer().seal(), raw)
    assert len(device.pull_all()) == 2


def test_writer_belongs_to_one_device(service: RunningService) -> None:
    """A writer id taken over by another device of the account is a fork, in whatever session."""
    device = service.device()
    mate = device.new_mate()
    writer = device.writer()
    device.push(writer.seal())
    stolen = mate.writer()
    stolen.writer = writer.writer
    with pytest.raises(Refusal, match="writer_forked"):
        mate.push(stolen.seal())


def test_refused_push_stores_nothing(service: RunningService) -> None:
    """All or nothing: good events before a bad one are not kept, and can be sent again without it."""
    device = service.device()
    good, bad = device.writer(), device.writer()
    bad.n, bad.prev = 7, secrets.token_bytes(32)
    raw = good.seal()
    with pytest.raises(Refusal):
        device.push(raw, bad.seal())
    assert device.pull().head == 0
    assert device.push(raw).results[0].new


def test_dead_session_is_emptied_and_takes_no_more(service: RunningService) -> None:
    """I16: after a tombstone only the tombstone is left, and an appender is told which session it is."""
    device = service.device()
    mate = device.new_mate()
    writer, other = device.writer(), device.writer()
    device.push(writer.seal(size=5000), other.seal(), writer.seal())
    late = mate.writer(writer.session)
    raw = late.seal()
    tombstone = writer.seal(Kind.TOMBSTONE)
    device.push(tombstone)
    with pytest.raises(Refusal, match="410 session_dead") as refusal:
        mate.push(raw)
    assert refusal.value.problem.session == writer.session.hex()
    assert [e.seq for e in device.pull_all()] == [2, 4]
    row = device.sessions()[writer.session]
    assert (row.dead, row.records, row.bytes) == (True, 0, len(tombstone))


def test_records_before_their_tombstone_may_share_its_push(service: RunningService) -> None:
    """A session that was made and deleted offline arrives in one batch; what follows it is refused."""
    device = service.device()
    writer = device.writer()
    record, tombstone, after = writer.seal(), writer.seal(Kind.TOMBSTONE), writer.seal()
    device.push(record, tombstone)
    assert [e.raw for e in device.pull_all()] == [tombstone]
    with pytest.raises(Refusal, match="session_dead"):
        device.push(after)


def test_tombstone_may_name_a_session_never_seen_and_come_twice(service: RunningService) -> None:
    """Deleting what was never pushed works; its retry is a replay, another writer's is too late."""
    device = service.device()
    tombstone = device.writer(b"s" * 16).seal(Kind.TOMBSTONE)
    assert device.push(tombstone).results[0].new
    assert not device.push(tombstone).results[0].new
    with pytest.raises(Refusal, match="session_dead"):
        device.push(device.writer(b"s" * 16).seal(Kind.TOMBSTONE))
    assert device.get("/v1/snapshot", wire.Snapshot).dead == [b"s" * 16]


def test_blob_envelopes_do_not_go_through_the_log(service: RunningService) -> None:
    """Blobs have /v1/uploads."""
    device = service.device()
    with pytest.raises(Refusal, match="400 bad_request"):
        device.push(device.writer().seal(Kind.BLOB))


@pytest.mark.parametrize("place", [0, 5, 40, 100, 170, -1])
def test_flipped_bit_is_refused_wherever_it_is(service: RunningService, place: int) -> None:
    """I17: no byte of an envelope can be changed on its way."""
    device = service.device()
    raw = bytearray(device.writer().seal(size=100))
    raw[place] ^= 1
    with pytest.raises(Refusal) as refusal:
        device.push(bytes(raw))
    assert refusal.value.problem.code in {"bad_hash", "forbidden"}
    assert device.pull().head == 0


def test_records_of_another_device_or_account_are_refused(service: RunningService) -> None:
    """A device speaks for itself only."""
    device, other = service.device(), service.device()
    mate = device.new_mate()
    for foreign in (mate, other):
        with pytest.raises(Refusal) as refusal:
            device.push(foreign.writer().seal())
        assert refusal.value.problem.code in {"bad_hash", "forbidden"}


def test_limits_of_a_push(service: RunningService) -> None:
    """Too many events, too large an event and none at all are refused by name."""
    device = service.device()
    writer = device.writer()
    with pytest.raises(Refusal, match="413 too_large"):
        device.push(writer.seal(size=wire.MAX_EVENT_BYTES))
    with pytest.raises(Refusal, match="400 bad_request"):
        device.push(*[b"x"] * (wire.MAX_PUSH_EVENTS + 1))
    with pytest.raises(Refusal, match="400 bad_request"):
        device.push()


def test_full_push_is_stored(own_service: RunningService) -> None:
    """The largest push that is allowed is accepted."""
    device = own_service.device()
    writer = device.writer()
    reply = device.push(*[writer.seal(size=16_000) for _ in range(wire.MAX_PUSH_EVENTS)])
    assert reply.head == wire.MAX_PUSH_EVENTS
    assert len(device.pull_all()) == wire.MAX_PUSH_EVENTS


def test_two_concurrent_pushes_of_the_same_events_store_them_once(service: RunningService) -> None:
    """The account's lock makes one of them the replay of the other."""
    device = service.device()
    writer = device.writer()
    raws = [writer.seal() for _ in range(20)]
    body = msgspec.msgpack.encode(wire.Push(raws))
    headers = {"authorization": f"Bearer {device.token}"}
    barrier = threading.Barrier(4)

    def send() -> list[wire.Pushed]:
        with client(service.url) as sender:
            barrier.wait()
            reply = sender.post("/v1/push", content=body, headers=headers)
        return msgspec.msgpack.decode(reply.content, type=wire.PushReply).results

    with ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(send) for _ in range(4)]]
    assert sum(r.new for reply in results for r in reply) == 20
    assert len({tuple(r.seq for r in reply) for reply in results}) == 1
    assert [e.raw for e in device.pull_all()] == raws


def test_account_that_pushes_too_often_is_slowed_down(own_service: RunningService) -> None:
    """The token bucket in the account's row refuses with a time to wait, and fills up again."""
    device = own_service.device()
    raw = device.writer().seal()
    minute = 60_000
    asyncio.run(
        _execute(
            own_service, f"UPDATE account SET allowance = 0, allowed_at = {own_service.clock() + minute}"
        )
    )
    with pytest.raises(Refusal, match="429 slow_down") as refusal:
        device.push(raw)
    assert (refusal.value.problem.retry_after or 0) > 0
    assert int(refusal.value.headers["retry-after"]) >= 1
    own_service.clock.forward(seconds=120)
    assert device.push(raw).results[0].new


async def _execute(service: RunningService, statement: str) -> None:
    connection = await asyncpg.connect(service.owner_url())
    await connection.execute(statement)
    await connection.close()


def test_quota_stops_pushing_and_nothing_else(own_service: RunningService) -> None:
    """I24: over quota, pulls and deletions go on, and a deletion makes room again."""
    device = own_service.device()
    asyncio.run(_execute(own_service, "UPDATE account SET quota = 3000"))
    writer = device.writer()
    device.push(writer.seal(size=2000))
    with pytest.raises(Refusal, match="507 over_quota"):
        device.push(device.writer().seal(size=2000))
    assert len(device.pull_all()) == 1
    device.push(writer.seal(Kind.TOMBSTONE))
    assert device.push(device.writer().seal(size=2000)).results[0].new
