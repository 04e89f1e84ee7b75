"""Replicas hold nothing but sockets: any of them answers any request, and killing one loses nothing acknowledged."""

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_sessions import wire
from faults.service_load import Load, check_account, check_objects
from faults.service_replicas import UPSTREAM, Installation
from infra.repository import text
from infra.test_proxy import needs_nginx
from s3.server import S3Server, running_s3
from service.devices import Device, Refusal
from service.live.test_live import Listener
from service.running import wait_for

pytestmark = needs_nginx
PULLS_AND_PUSHES = (
    'atomic_requests_total{method="GET",route="/v1/pull"',
    'atomic_requests_total{method="POST",route="/v1/push"',
)
"""Not pushes alone: the proxy takes turns, and so does a client, so all pushes of one may meet the same replica."""
PAUSE = 0.05
"""The proxy lets in fifty requests a second of an address."""
EVENTS = "atomic_events_total "


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The bucket behind the proxy."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def installation(postgres: EmbeddedPostgres, database: str, s3: S3Server) -> Iterator[Installation]:
    """Two replicas and the proxy, running."""
    folder = Path(tempfile.mkdtemp(prefix="atomic-test-"))
    made = Installation(postgres, database, s3, folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


@contextlib.contextmanager
def streams(*places: tuple[Device, str]) -> Iterator[list[Listener]]:
    """Open live streams that have had their first poke."""
    listeners = [Listener(device, url) for device, url in places]
    try:
        for listener in listeners:
            wait_for(partial(getattr, listener, "heads"))
        yield listeners
    finally:
        for listener in listeners:
            listener._client.close()
        for device, _ in places:
            with contextlib.suppress(Refusal, httpx.HTTPError):
                device.push(device.writer().seal())  # wakes a reader that waits in recv
        assert all(listener.ended.wait(25) for listener in listeners)


def test_proxy_treats_the_replicas_as_shipped() -> None:
    """The line these tests put their own addresses into is the one that ships."""
    assert UPSTREAM in text("infra/proxy/nginx.conf")


def test_any_replica_answers_what_another_began(installation: Installation) -> None:
    """A token of one is good at the other, a push through one pokes the streams of both and of the proxy, pushes
    are spread, an upload announced at one is read through the other."""
    one, two = installation.replicas
    device = installation.device()
    here, there = installation.at(device, one), installation.at(device, two)
    here.log_in(origin=installation.url)
    there.token = here.token
    with streams((here, one.url), (there, two.url), (device, installation.url)) as listeners:
        for pusher in (here, there, device):
            head = pusher.push(pusher.writer().seal()).head
            for listener in listeners:
                listener.saw(head)
    before = [replica.count(EVENTS) for replica in (one, two)]
    for _ in range(6):
        device.push(device.writer().seal())
    assert all(replica.count(EVENTS) > so_far for replica, so_far in zip((one, two), before, strict=True))
    object_id = here.upload(b"body", "blob", b"s" * 16)
    transfer = there.get(f"/v1/uploads/{object_id.hex()}", wire.Transfer)
    assert transfer.url.startswith(installation.url)
    assert Load(there).fetch(object_id) == b"body"
    for one_of_them in (device, here, there):
        one_of_them.close()


def test_killed_replica_loses_nothing_acknowledged(installation: Installation) -> None:
    """kill -9 of each replica in turn under load: clients go on through the proxy, and the load is spread."""
    device = installation.device()
    mate = device.new_mate()
    loads = [Load(device, uploads=True, pause=PAUSE), Load(mate, pause=PAUSE)]
    for load in loads:
        load.start()
    for replica in installation.replicas:
        for load in loads:
            load.goes_on()
        wait_for(partial(replica.count, *PULLS_AND_PUSHES))
        replica.end(signal.SIGKILL)
        for load in loads:
            load.goes_on()
        replica.start()
        wait_for(partial(replica.count, *PULLS_AND_PUSHES), 40)
    for load in loads:
        load.end()
    check_account(loads)
    check_objects(loads[:1])
    assert not any(load.down["line"] for load in loads), "the proxy left a request without an answer"
    device.close()


def test_replica_that_is_told_to_stop_lets_go_of_its_streams(installation: Installation) -> None:
    """SIGTERM under load with open live streams: it ends in order and soon, the streams end, clients listen and push
    through the proxy again."""
    stopping, staying = installation.replicas
    device = installation.device()
    load = Load(device.new_mate(), pause=PAUSE)
    load.start()
    load.goes_on()
    with streams((device, stopping.url), (device, staying.url), (device, installation.url)) as listeners:
        assert stopping.end(signal.SIGTERM) == 0
        assert listeners[0].ended.wait(10)
        assert not listeners[1].ended.is_set()
        load.goes_on()
        with streams((device, installation.url)) as again:
            load.goes_on()
            load.end()
            head = check_account([load])
            again[0].saw(head)
            listeners[1].saw(head)
    assert "Traceback" not in stopping.log()
    device.close()
