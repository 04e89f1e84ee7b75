"""I24, the service's side: Postgres or S3 is killed and comes back under load. Nothing acknowledged is lost or
doubled, every answer meanwhile is one an agent waits out, and the same replica goes on by itself."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from atomic_service.embedded.databases import prepare
from atomic_service.embedded.postgres import EmbeddedPostgres
from faults.service_load import Load, check_account, check_objects
from s3.server import NO_RADOSGW, S3Server, running_s3
from service.live.test_live import listening
from service.running import RunningService, wait_for

ROUNDS = 3


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a Postgres can lie: its sockets and its user need a short and open path."""
    found = Path(tempfile.mkdtemp(prefix="atomic-test-"))
    yield found
    shutil.rmtree(found)


@pytest.fixture
def durable(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A Postgres of the test's own that syncs what it acknowledges, and that is started again when it dies."""
    server = EmbeddedPostgres(folder)
    server.start()
    asyncio.run(prepare(server, "atomic"))
    yield server
    server.stop()


@pytest.fixture
def own_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that only this test kills."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


def at_work(service: RunningService, *, uploads: bool) -> list[list[Load]]:
    """Two accounts of two devices each, all of them pushing."""
    accounts = []
    for _ in range(2):
        device = service.device()
        accounts.append([Load(one, uploads=uploads) for one in (device, device.new_mate())])
    for load in all_of(accounts):
        load.start()
    for load in all_of(accounts):
        load.goes_on()
    return accounts


def waits(loads: list[Load], before: int = 0) -> int:
    """How often these clients were told to wait since."""
    return sum(load.down.total() for load in loads) - before


def all_of(accounts: list[list[Load]]) -> list[Load]:
    return [load for account in accounts for load in account]


def test_postgres_killed_under_load_loses_and_doubles_nothing(
    durable: EmbeddedPostgres, folder: Path
) -> None:
    """kill -9 of Postgres, three times: 503 with a time to wait, then everything goes on; the open live stream
    shows what is pushed afterwards."""
    service = RunningService(durable, "atomic", folder / "blobs").start()
    try:
        accounts = at_work(service, uploads=True)
        device = accounts[0][0].device
        with listening(device, service) as listener:
            for _ in range(ROUNDS):
                before = waits(all_of(accounts))
                os.kill(durable.pid, signal.SIGKILL)
                wait_for(partial(waits, all_of(accounts), before))
                for load in all_of(accounts):
                    load.goes_on()
            for load in all_of(accounts):
                load.end()
            for account in accounts:
                check_account(account)
                check_objects(account)
            assert not any(load.down["line"] for load in all_of(accounts)), "an answer was missing"
            wait_for(service.replica.hub.listening.is_set)
            head = device.push(device.writer().seal()).head
            listener.saw(head)
            assert listener.heads == sorted(listener.heads)
    finally:
        service.stop()


def test_s3_killed_under_load_loses_no_object_and_stops_no_push(
    durable: EmbeddedPostgres, own_s3: S3Server
) -> None:
    """While S3 is away uploads wait and pushes of other devices go on; what was uploaded is there whole."""
    gateway = own_s3.gateway
    if gateway is None:
        pytest.skip(NO_RADOSGW)
    service = RunningService(durable, "atomic", s3=own_s3.settings).start()
    try:
        accounts = at_work(service, uploads=True)
        pusher = Load(accounts[0][0].device.new_mate())
        pusher.start()
        for _ in range(ROUNDS):
            before = [waits([load]) for load in all_of(accounts)]
            gateway.kill()
            pusher.goes_on()
            for load, so_far in zip(all_of(accounts), before, strict=True):
                wait_for(partial(waits, [load], so_far))
            assert accounts[0][0].device.http.get("/readyz").status_code == 503
            gateway.start()
            for load in all_of(accounts):
                load.goes_on()
        for load in (*all_of(accounts), pusher):
            load.end()
        assert not pusher.down
        check_account([*accounts[0], pusher])
        check_account(accounts[1])
        for account in accounts:
            check_objects(account)
        wait_for(lambda: accounts[0][0].device.http.get("/readyz").status_code == 200)
    finally:
        service.stop()
