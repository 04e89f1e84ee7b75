"""Attacks 10 to 12: no keyring, a real one in each of its states, and one that never answers."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.secret_service import DENYING, SILENT, Bus, bus, needs_daemons
from attacks.stage import one_sentence
from system.machines import Machine

WAYS = ("unlock or install a keyring", "ATOMIC_KEY_FILE", "atomic keys use passphrase")


@pytest.fixture
def on() -> Iterator[Bus]:
    """A bus with nothing on it. In a short folder: a socket's path holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="at-") as folder, bus(Path(folder) / "b") as found:
        yield found


def _made(machine: Machine) -> set[str]:
    """What of ours lies in the home, empty folders and locks left out."""
    root = machine.home / ".atomic"
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.stat().st_size}


def _is_refused(machine: Machine, *arguments: str, said: str) -> None:
    """Exit 3, one sentence, three ways out, and nothing made."""
    before = _made(machine)
    done = machine.atomic(*arguments, code=3)
    line = one_sentence(done)
    assert said in line
    assert all(way in line for way in WAYS)
    assert "canary" not in done.out + done.err
    assert _made(machine) == before


@pytest.mark.parametrize("words", [["capture"], ["sessions"], ["keys", "use", "keyring"]], ids=" ".join)
@pytest.mark.parametrize("backend", ["", "keyring.backends.fail.Keyring"], ids=["nothing", "fail"])
def test_no_keyring_at_all(tmp_path: Path, words: list[str], backend: str) -> None:
    """Attack 10: without a bus, or with the `fail` backend: exit 3, three ways out, no key and no cache."""
    machine = Machine(tmp_path, "laptop")
    del machine.environment["ATOMIC_KEY_FILE"]
    machine.environment |= {"PYTHON_KEYRING_BACKEND": backend} if backend else {}
    _is_refused(machine, *words, said="no keyring")
    assert not _made(machine)


@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="no bus here (apt-get install dbus)")
def test_a_bus_without_a_keyring(tmp_path: Path, on: Bus) -> None:
    """Attack 10: a bus on which nobody keeps secrets is no keyring either; doctor goes on to the end."""
    machine = on.join(Machine(tmp_path, "laptop"))
    _is_refused(machine, "sessions", said="no keyring")
    assert "None yet" in machine.atomic("doctor", code=None).out
    assert not _made(machine)


@needs_daemons
def test_a_real_keyring(tmp_path: Path, on: Bus) -> None:
    """Attack 11: a real GNOME Keyring keeps the key over restarts; locked, it is named within 5 s, exit 3."""
    on.keyring(password="first")
    machine = on.join(Machine(tmp_path, "laptop"))
    machine.claude_file("0c000000-0000-4000-8000-000000000001", _lines(machine))
    machine.atomic("capture")
    assert "keyring" in machine.status()["key_store"]
    assert [one["messages"] for one in machine.sessions("--all")] == [2]
    assert "keyring.backends.SecretService.Keyring" in machine.atomic("doctor", code=None).out
    kept = b"".join(path.read_bytes() for path in (on.home / ".local/share/keyrings").iterdir())
    assert b"local-key-" not in kept
    before = machine.cache.read_bytes()
    on.lock()
    begun = time.monotonic()
    _is_refused(machine, "sessions", said="locked")
    _is_refused(machine, "capture", said="locked")
    assert time.monotonic() - begun < 10
    doctor = machine.atomic("doctor", code=1).out
    assert "The keyring is locked." in doctor
    assert machine.cache.read_bytes() == before


@needs_daemons
def test_a_keyring_nobody_ever_unlocked(tmp_path: Path, on: Bus) -> None:
    """Attack 11: a keyring that has no collection yet, and whose prompt nobody sees, counts as locked."""
    on.keyring(password=None)
    machine = on.join(Machine(tmp_path, "laptop"))
    _is_refused(machine, "capture", said="locked")
    assert not _made(machine)


@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="no bus here (apt-get install dbus)")
def test_a_keyring_that_denies(tmp_path: Path, on: Bus) -> None:
    """Attack 11: a service that answers everything with `access denied` fails with a name and no word of it."""
    on.answer_with(DENYING)
    machine = on.join(Machine(tmp_path, "laptop"))
    _is_refused(machine, "capture", said="keyring")
    assert not _made(machine)


@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="no bus here (apt-get install dbus)")
def test_a_keyring_that_never_answers(tmp_path: Path, on: Bus) -> None:
    """Attack 12: the command ends within 6 s and its start-up, and no process of it is left."""
    on.answer_with(SILENT)
    machine = on.join(Machine(tmp_path, "laptop"))
    begun = time.monotonic()
    _is_refused(machine, "sessions", said="did not answer in 5 s")
    # A busy machine starts two interpreters slowly; the wait itself is 5 s.
    assert time.monotonic() - begun < 9
    assert not _processes(machine)
    assert not _made(machine)


def _processes(machine: Machine) -> list[str]:
    """Command lines of processes that run in this machine's home."""
    found = subprocess.run(["ps", "eww", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if f"HOME={machine.home} " in line]


def _lines(machine: Machine) -> list[dict[str, object]]:
    from system.machines import claude_lines

    return claude_lines("0c000000-0000-4000-8000-000000000001", str(machine.folder), ["q", "a"])
