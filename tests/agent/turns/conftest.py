"""A machine of its own for each test, and a real provider on loopback."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.turns.machines import CANARY, Machine, NotATerminal
from atomic_agent.demo.provider import DemoProvider


@pytest.fixture
def provider() -> Iterator[DemoProvider]:
    with DemoProvider(keys=(CANARY,)) as found:
        yield found


@pytest.fixture
def machine(
    tmp_path: Path,
    provider: DemoProvider,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Machine:
    found = Machine(tmp_path, provider, capsys)
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_PROXY", "_proxy")) or name.startswith(
            ("ATOMIC_", "OPENCODE_")
        ):
            monkeypatch.delenv(name)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(found.project)
    monkeypatch.setattr(sys, "stdin", NotATerminal())
    return found
