"""A real service as a process, a model on loopback, and machines in temporary homes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from atomic_agent.demo.provider import DemoProvider
from system.machines import Machine, MakeMachine, RunningService, pair


def _service(root: Path) -> Iterator[RunningService]:
    found = RunningService(root / "service")
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def service() -> Iterator[RunningService]:
    """One service for all tests that leave it running."""
    with tempfile.TemporaryDirectory(prefix="atomic-system-") as folder:
        yield from _service(Path(folder))


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[RunningService]:
    """A service of the test's own, to be killed, stopped or searched."""
    yield from _service(tmp_path)


@pytest.fixture(scope="session")
def model() -> Iterator[DemoProvider]:
    """A model that answers with what it was sent."""
    with DemoProvider() as provider:
        yield provider


@pytest.fixture
def machine(tmp_path: Path, model: DemoProvider) -> MakeMachine:
    """Makes machines that talk to the model."""
    return lambda name: Machine(tmp_path, name, model.openai_url)


@pytest.fixture
def laptop(machine: MakeMachine, service: RunningService) -> Machine:
    """A machine with an account of its own."""
    found = machine("laptop")
    found.atomic("login", service.url, "--invite", "-", "--name", "laptop", stdin=service.invite())
    return found


@pytest.fixture
def desktop(machine: MakeMachine, service: RunningService, laptop: Machine) -> Machine:
    """A second machine in the laptop's account."""
    found = machine("desktop")
    pair(laptop, found, service.url)
    return found
