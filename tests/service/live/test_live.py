"""Pokes: at connect, on every change, across replicas, after a lost listener, and never more than four a second."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg
import httpx
import msgspec
import pytest

from atomic_sessions import wire
from service.devices import Device, Refusal, client
from service.running import RunningService, wait_for


class Listener:
    """Reads a live stream in a thread; `heads` grows as pokes arrive."""

    def __init__(self, device: Device, url: str) -> None:
        self.heads: list[int] = []
        self.times: list[float] = []
        self.ended = threading.Event()
        self._client = client(url)
        self._token = device.token
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        headers = {"authorization": f"Bearer {self._token}"}
        with (
            contextlib.suppress(httpx.HTTPError),
            self._client.stream("GET", "/v1/live", headers=headers) as reply,
        ):
            assert reply.headers["content-type"].startswith("text/event-stream")
            for line in reply.iter_lines():
                if line.startswith("data: "):
                    self.heads.append(msgspec.json.decode(line[6:], type=wire.Poke).head)
                    self.times.append(time.monotonic())
        self.ended.set()

    def saw(self, head: int) -> None:
        wait_for(lambda: head in self.heads)


@contextmanager
def listening(device: Device, service: RunningService) -> Iterator[Listener]:
    """A listener that has had its first poke; the stream is cut at the end of the block."""
    listener = Listener(device, service.url)
    try:
        wait_for(lambda: listener.heads)
        yield listener
    finally:
        listener._client.close()
        with contextlib.suppress(Refusal):
            device.push(device.writer().seal())  # wakes a reader that waits in recv
        assert listener.ended.wait(20)


def test_first_poke_comes_at_connect_and_the_next_with_a_push(service: RunningService) -> None:
    """A machine that connects learns where the log is, and then of every change."""
    device = service.device()
    writer = device.writer()
    device.push(writer.seal(), writer.seal())
    with listening(device, service) as listener:
        assert set(listener.heads) == {2}  # twice when the push's own poke comes after the first
        device.push(writer.seal())
        listener.saw(3)


def test_poke_crosses_replicas(start_service: Callable[[], RunningService]) -> None:
    """A push at one replica reaches a stream at another one."""
    here, there = start_service(), start_service()
    wait_for(there.replica.hub.listening.is_set)
    device = here.device()
    with listening(device, there) as listener:
        device.push(device.writer().seal())
        listener.saw(1)


def test_accounts_are_not_poked_for_each_other(service: RunningService) -> None:
    """A stream shows the heads of its own account only."""
    one, two = service.device(), service.device()
    with listening(one, service) as listener:
        two.push(two.writer().seal(), two.writer().seal())
        one.push(one.writer().seal())
        listener.saw(1)
        assert 2 not in listener.heads


def test_burst_of_pushes_is_few_pokes_and_ends_with_the_last(service: RunningService) -> None:
    """At most four pokes a second of an account, and the newest head is never the one left out."""
    device = service.device()
    writer = device.writer()
    with listening(device, service) as listener:
        started = time.monotonic()
        for _ in range(30):
            device.push(writer.seal())
        listener.saw(30)
        took = time.monotonic() - started
        assert len(listener.heads) <= 3 + took * 4
        assert listener.heads == sorted(listener.heads)


def test_lost_listener_pokes_everybody_when_it_is_back(own_service: RunningService) -> None:
    """What was announced while the listening connection was down is not missed."""
    device = own_service.device()
    wait_for(own_service.replica.hub.listening.is_set)
    with listening(device, own_service) as listener:
        asyncio.run(_cut_listeners(own_service.owner_url()))
        wait_for(lambda: not own_service.replica.hub.listening.is_set())
        device.push(device.writer().seal())
        listener.saw(1)


async def _cut_listeners(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR "
        "(query LIKE '%FROM account WHERE account = ANY%' AND state = 'idle' AND datname = current_database())"
    )
    await connection.close()


def test_left_streams_are_forgotten(own_service: RunningService) -> None:
    """A client that goes away leaves no subscription behind."""
    device = own_service.device()
    with listening(device, own_service):
        assert own_service.replica.hub._streams
    wait_for(lambda: not own_service.replica.hub._streams)


def test_stream_ends_with_its_token(own_service: RunningService) -> None:
    """An expired token hears nothing more."""
    device = own_service.device()
    mate = device.new_mate()
    listener = Listener(mate, own_service.url)
    wait_for(lambda: listener.heads)
    own_service.clock.forward(seconds=wire.TOKEN_SECONDS + 1)
    device.log_in()
    device.push(device.writer().seal())
    assert listener.ended.wait(20)
    listener._client.close()


def test_shutdown_ends_open_streams(start_service: Callable[[], RunningService]) -> None:
    """A replica that stops does not wait for its listeners."""
    service = start_service()
    device = service.device()
    listener = Listener(device, service.url)
    wait_for(lambda: listener.heads)
    started = time.monotonic()
    service._server.should_exit = True
    assert listener.ended.wait(10)
    assert time.monotonic() - started < 5
    listener._client.close()


def test_live_needs_a_token(service: RunningService) -> None:
    """The stream is refused with a problem document like any other route."""
    with pytest.raises(Refusal, match="401"):
        service.stranger().send("GET", "/v1/live")
