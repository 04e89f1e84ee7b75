"""Attacks 13 to 15: backends that protect nothing, and a keyring that lost its item."""

import tempfile
from pathlib import Path

import pytest

from attacks.secret_service import bus, needs_daemons
from attacks.stage import one_sentence
from system.machines import Machine

# As `keyrings.alt` installs itself: an entry point, a plain file, the best rank.
PLAINTEXT = """
import pathlib
from keyring.backend import KeyringBackend
class PlaintextKeyring(KeyringBackend):
    priority = 99
    path = pathlib.Path.home() / ".local/share/python_keyring/keyring_pass.cfg"
    def get_password(self, service, name):
        return self.path.read_text() if self.path.exists() else None
    def set_password(self, service, name, secret):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(secret)
"""


def _with_plaintext(machine: Machine) -> Machine:
    site = machine.home / "site"
    (site / "keyrings" / "alt").mkdir(parents=True)
    (site / "keyrings" / "alt" / "__init__.py").touch()
    (site / "keyrings" / "alt" / "file.py").write_text(PLAINTEXT)
    found = site / "keyrings.alt-5.0.2.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: keyrings.alt\nVersion: 5.0.2\n")
    (found / "entry_points.txt").write_text("[keyring.backends]\nfile = keyrings.alt.file\n")
    del machine.environment["ATOMIC_KEY_FILE"]
    machine.environment["PYTHONPATH"] = str(site)
    return machine


@pytest.mark.parametrize("chosen", [False, True], ids=["found", "chosen"])
def test_a_plaintext_keyring(tmp_path: Path, *, chosen: bool) -> None:
    """Attack 13: the best ranked or the chosen backend is refused by name, and its file is never written."""
    machine = _with_plaintext(Machine(tmp_path, "laptop"))
    machine.environment |= {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"} if chosen else {}
    for words in (["capture"], ["keys", "use", "keyring"]):
        assert "keyrings.alt.file.PlaintextKeyring" in one_sentence(machine.atomic(*words, code=3))
    assert not (machine.home / ".local").exists()
    assert not machine.cache.exists()


def test_a_null_keyring(tmp_path: Path) -> None:
    """Attack 14: the backend that keeps nothing is refused by name; no key is made that would be lost."""
    machine = Machine(tmp_path, "laptop")
    del machine.environment["ATOMIC_KEY_FILE"]
    machine.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    assert "keyring.backends.null.Keyring" in one_sentence(machine.atomic("capture", code=3))
    assert not machine.cache.exists()


@needs_daemons
def test_the_item_is_gone(tmp_path: Path) -> None:
    """Attack 15: a deleted item is a missing key: exit 4 each time, no new key, the cache as it was."""
    with tempfile.TemporaryDirectory(prefix="at-") as folder, bus(Path(folder) / "b") as on:
        on.keyring(password="first")
        machine = on.join(Machine(tmp_path, "laptop"))
        machine.atomic("capture")
        assert on.delete_items() == 1
        before = {path: path.read_bytes() for path in machine.cache.parent.iterdir()}
        for words in (["sessions"], ["capture"], ["sessions"]):
            assert "no longer has this machine's key" in one_sentence(machine.atomic(*words, code=4))
        assert on.delete_items() == 0
        assert {path: path.read_bytes() for path in machine.cache.parent.iterdir()} == before
        assert "recovery restore" in machine.atomic("doctor", code=1).out
