"""A home and a project of its own for each test, and stores of sessions that are opened again and again."""

import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.turns.machines import CANARY
from atomic_agent.demo.provider import DemoProvider
from atomic_agent.sdk import Store, open_session_store

SELECTIONS: Mapping[str, Mapping[str, Any]] = {
    "memory": {"memory": True},
    "jsonl": {"dir": "kept"},
    "sqlite": {"path": "kept.sqlite"},
}


class Shelf:
    """A kind of store at a place; `again` opens it anew, as the next program would (memory stays the same one)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.selection = SELECTIONS[kind]
        self.store = open_session_store(self.selection)

    def again(self) -> Store:
        if self.kind != "memory":
            self.store.close()
            self.store = open_session_store(self.selection)
        return self.store


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; variables name a home and a key file and nothing else of ours."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_PROXY", "_proxy")) or name.startswith("ATOMIC_"):
            monkeypatch.delenv(name)
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_bytes(base64.b64encode(bytes(range(32))))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ATOMIC_HOME", str(tmp_path / "home" / ".atomic"))
    monkeypatch.setenv("ATOMIC_KEY_FILE", str(key))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(project)
    return project


@pytest.fixture(params=SELECTIONS)
def shelf(request: pytest.FixtureRequest) -> Iterator[Shelf]:
    found = Shelf(request.param)
    yield found
    found.store.close()


@pytest.fixture
def provider() -> Iterator[DemoProvider]:
    with DemoProvider(keys=(CANARY,)) as found:
        yield found
