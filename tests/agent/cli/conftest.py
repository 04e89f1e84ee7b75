"""A machine of its own for each test."""

import io
import os
import sys
from pathlib import Path

import pytest

from agent.cli.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    found = Machine(tmp_path, capsys)
    for name in list(os.environ):
        if name.startswith(("ATOMIC_", "CLAUDE_", "PI_", "OPENCODE_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(found.project)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return found
