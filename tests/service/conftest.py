"""One real Postgres for the whole run, a database of its own for each test. Nothing is left behind."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from atomic_service.embedded.databases import clone, drop, prepare
from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_service.settings import S3Settings
from s3.server import S3Server, running_s3
from service.running import RunningService

TEMPLATE = "template_atomic"
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
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server with a bucket: radosgw, or moto where that is not installed."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def s3_settings(s3_server: S3Server) -> S3Settings:
    """How to reach it."""
    return s3_server.settings


@pytest.fixture(scope="session")
def s3_service(postgres: EmbeddedPostgres, s3_settings: S3Settings) -> Iterator[RunningService]:
    """One replica over S3 for all tests that stay inside accounts of their own."""
    asyncio.run(clone(postgres, TEMPLATE, "shared_s3"))
    running = RunningService(postgres, "shared_s3", s3=s3_settings).start()
    yield running
    running.stop()


@pytest.fixture(params=["folder", "s3"])
def storing_service(request: pytest.FixtureRequest) -> RunningService:
    """The common replica over each kind of object store."""
    found: RunningService = request.getfixturevalue({"folder": "service", "s3": "s3_service"}[request.param])
    return found


@pytest.fixture(params=["folder", "s3"])
def own_storing_service(
    request: pytest.FixtureRequest, start_service: Callable[..., RunningService]
) -> RunningService:
    """A replica of the test's own over each kind of object store."""
    return start_service(s3=request.getfixturevalue("s3_settings") if request.param == "s3" else None)
