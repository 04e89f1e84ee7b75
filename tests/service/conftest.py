"""One real Postgres for the whole run, a database of its own for each test. Nothing is left behind."""

import asyncio
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from atomic_service.embedded.databases import clone, drop, prepare
from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_service.settings import S3Settings
from service.running import RunningService

TEMPLATE = "template_atomic"
SERVER = """
import socket, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A server that syncs nothing, with a migrated template."""
    folder = Path(tempfile.mkdtemp(prefix="atomic-test-"))
    server = EmbeddedPostgres(folder, durable=False, connections=120)
    server.start()
    try:
        asyncio.run(prepare(server, TEMPLATE))
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The name of a fresh migrated database."""
    name = f"test_{next(_numbers)}"
    asyncio.run(clone(postgres, TEMPLATE, name))
    yield name
    asyncio.run(drop(postgres, name))


@pytest.fixture
def start_service(
    postgres: EmbeddedPostgres, database: str, tmp_path: Path
) -> Iterator[Callable[..., RunningService]]:
    """Starts replicas over the test's database and stops them at its end."""
    running: list[RunningService] = []

    def start(s3: S3Settings | None = None) -> RunningService:
        running.append(RunningService(postgres, database, tmp_path / "blobs", s3).start())
        return running[-1]

    yield start
    for service in running:
        service.stop()


@pytest.fixture
def own_service(start_service: Callable[..., RunningService]) -> RunningService:
    """A replica over a database and a blob folder of its own, for tests that move the clock or look inside."""
    return start_service()


@pytest.fixture(scope="session")
def service(postgres: EmbeddedPostgres) -> Iterator[RunningService]:
    """One replica for all tests that stay inside accounts of their own."""
    folder = Path(tempfile.mkdtemp(prefix="atomic-test-"))
    asyncio.run(clone(postgres, TEMPLATE, "shared"))
    running = RunningService(postgres, "shared", folder).start()
    yield running
    running.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def s3_settings() -> Iterator[S3Settings]:
    """A moto server in a process of its own, with a bucket."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        client.create_bucket(Bucket="atomic")
        client.close()
        yield S3Settings(endpoint, endpoint, "atomic", "us-east-1", "key", "secret")
        process.communicate("")
