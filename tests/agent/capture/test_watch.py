"""What a watch does with a cache that does not take anything, and what it says of what it cannot read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.capture.files import SID, append, claude, exported, text_of
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import _keyed
from atomic_agent.capture import watch as watching
from atomic_agent.capture.lookout import Place
from atomic_agent.keys.local_key import LocalKey


def _watch(
    cache: Cache, folder: Path, steps: list[Callable[[], object]]
) -> tuple[list[watching.Change], list[str], list[float]]:
    """Watch a folder, with something done in each pause, until all is done: what was told, said and waited."""
    told: list[watching.Change] = []
    said: list[str] = []
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        if not steps:
            return True
        steps.pop(0)()
        return False

    watching.watch(cache, [Place("", folder)], (), wait, told.append, said.append)
    return told, said, waited


@pytest.fixture(autouse=True)
def _polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells nothing, so that each pause is the test's own."""
    monkeypatch.setattr(watching, "notices", lambda: None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "files" / f"{SID}.jsonl"
    path.parent.mkdir()
    path.write_bytes(text_of([claude(0, "question")]))
    return path


def test_a_cache_that_another_process_holds(cache: Cache, key: LocalKey, file: Path) -> None:
    """It is said once that it waits, once that it goes on; nothing is lost."""
    cache.connection.execute("PRAGMA busy_timeout = 1")
    other = _keyed(cache.path, key)
    other.execute("BEGIN IMMEDIATE")
    told, said, waited = _watch(
        cache,
        file.parent,
        [lambda: append(file, claude(1, "answer")), lambda: other.execute("ROLLBACK"), lambda: None],
    )
    other.close()
    assert [(change.session, change.entries) for change in told] == [(SID, 2)]
    assert [line.partition(":")[0] for line in said] == ["atomic", "atomic"]
    assert "busy" in said[0]
    assert waited[:2] == [watching.RETRY_SECONDS] * 2
    assert set(waited[2:]) == {watching.LOOK_SECONDS}
    assert exported(cache) == file.read_bytes()


def test_what_is_no_session_is_named_when_it_stays_so(
    cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however often it is touched; one that becomes a session is not named at all."""
    monkeypatch.setattr(watching, "SETTLED_SECONDS", 0.0)
    odd = file.with_name("odd.jsonl")
    odd.write_bytes(b'{"hello":1}\n')
    _, said, _ = _watch(cache, file.parent, [lambda: append(odd, b"{}\n"), lambda: append(odd, b"{}\n")])
    assert said == [f"atomic: {odd}: not a session."]
    monkeypatch.setattr(watching, "SETTLED_SECONDS", 60.0)
    early = file.with_name("early.jsonl")
    early.write_bytes(b"")
    told, said, _ = _watch(cache, file.parent, [lambda: append(early, claude(0, "hello", sid="x"))])
    assert [change.session for change in told] == ["early"]
    assert said == []
