"""Everything that can be wrong with the key: one sentence, the mend, its exit code.

Each row is met by every command it concerns, run as a real process.
"""

import base64
import os
import secrets
import shutil
from pathlib import Path

import pytest

from system.machines import Machine, MakeMachine
from system.troubles import (
    NOBODY,
    Environment,
    Trouble,
    assert_met,
    assert_nothing_leaked,
    copied,
    place,
    root,
    used,
)

KEYRING = '{"store": "keyring", "backend": "keyring.backends.SecretService.Keyring", "item": "local-key-1"}'
FAKE_KEYRING = """
class Keyring:
    __module__ = "keyring.backends.SecretService"
    def get_password(self, service, account):
        {what}
    set_password = get_password
def get_keyring():
    return Keyring()
"""
KEYRING_ERRORS = """
class KeyringError(Exception): pass
class KeyringLocked(KeyringError): pass
class InitError(KeyringError): pass
class NoKeyringError(KeyringError): pass
"""


def _no_key_named(machine: Machine, folder: Path) -> Environment:
    return {"ATOMIC_KEY_FILE": ""}


def _anew(machine: Machine, folder: Path) -> Environment:
    shutil.rmtree(place(machine).root)
    return {"ATOMIC_KEY_FILE": "", "DBUS_SESSION_BUS_ADDRESS": ""}


def _plaintext_keyring(machine: Machine, folder: Path) -> Environment:
    return {**_anew(machine, folder), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def _keyring(what: str, machine: Machine, folder: Path) -> Environment:
    """A keyring that behaves like this, chosen once and shadowing the library in the child process."""
    package = folder / "keyring"
    package.mkdir()
    (package / "__init__.py").write_text(FAKE_KEYRING.format(what=what))
    (package / "errors.py").write_text(KEYRING_ERRORS)
    choice = place(machine).key_choice
    choice.touch(0o600)
    choice.write_text(KEYRING)
    return {"ATOMIC_KEY_FILE": "", "PYTHONPATH": str(folder), "PYTHON_KEYRING_BACKEND": "any"}


def _locked_keyring(machine: Machine, folder: Path) -> Environment:
    return _keyring("from keyring.errors import KeyringLocked; raise KeyringLocked", machine, folder)


def _silent_keyring(machine: Machine, folder: Path) -> Environment:
    return _keyring("import threading; threading.Event().wait()", machine, folder)


def _empty_keyring(machine: Machine, folder: Path) -> Environment:
    return _keyring("return None", machine, folder)


def _odd_choice(machine: Machine, folder: Path) -> Environment:
    choice = place(machine).key_choice
    choice.touch(0o600)
    choice.write_text("{")
    return {"ATOMIC_KEY_FILE": ""}


def _passphrase(machine: Machine, folder: Path) -> Environment:
    home = place(machine)
    for path, content in ((home.key_choice, '{"store": "passphrase"}'), (home.passphrase_file, "x")):
        path.touch(0o600)
        path.write_text(content)
    return {"ATOMIC_KEY_FILE": ""}


def _other_key(machine: Machine, folder: Path) -> None:
    machine.key_file.write_bytes(base64.b64encode(secrets.token_bytes(32)))


def _key_file(content: bytes) -> "Trouble":
    def make(machine: Machine, folder: Path) -> None:
        machine.key_file.write_bytes(content)

    name = f"a key file of {len(content)} bytes"
    return Trouble(name, make, 4, "does not hold a key", "openssl rand", commands=("sessions", "sync"))


def _no_key_file(machine: Machine, folder: Path) -> Environment:
    return {"ATOMIC_KEY_FILE": str(folder / "none")}


def _key_folder(machine: Machine, folder: Path) -> Environment:
    return {"ATOMIC_KEY_FILE": str(folder)}


def _open_key_file(machine: Machine, folder: Path) -> None:
    machine.key_file.chmod(0o644)


def _strange_key_file(machine: Machine, folder: Path) -> None:
    os.chown(machine.key_file, NOBODY, NOBODY)


def _odd_keystore(machine: Machine, folder: Path) -> None:
    place(machine).keystore.write_bytes(b"x" * 200)


KEYS = [
    Trouble("no keyring", _anew, 3, "There is no keyring", "ATOMIC_KEY_FILE", seen=""),
    Trouble(
        "a plaintext keyring",
        _plaintext_keyring,
        3,
        "null.Keyring does not protect keys",
        "passphrase",
        seen="",
    ),
    Trouble("a locked keyring", _locked_keyring, 3, "The keyring is locked", "unlock"),
    Trouble(
        "a silent keyring", _silent_keyring, 3, "did not answer in 5 s", "ATOMIC_KEY_FILE", ("sessions",)
    ),
    Trouble(
        "an empty keyring", _empty_keyring, 4, "no longer has this machine's key", "atomic recovery restore"
    ),
    Trouble(
        "an odd choice",
        _odd_choice,
        3,
        "does not say where the key is",
        "atomic keys use",
        ("sessions", "sync"),
    ),
    Trouble("a passphrase unasked", _passphrase, 3, "no terminal to ask", "ATOMIC_PASSPHRASE_FD"),
    Trouble(
        "no key named",
        _no_key_named,
        4,
        "key is missing",
        "recovery restore",
        told="nothing says where its key",
    ),
    Trouble("another key", _other_key, 4, "Wrong key", "atomic recovery restore"),
    *map(_key_file, (b"", b"short", b"!" * 44)),
    Trouble("no key file", _no_key_file, 3, "is not there", "Put it back"),
    Trouble("a folder as key file", _key_folder, 3, "not a regular file", "umask 077", ("sessions", "sync")),
    Trouble("an open key file", _open_key_file, 3, "Others can read the key file", "chmod 600"),
    Trouble(
        "a damaged keystore",
        _odd_keystore,
        4,
        "does not open with the key",
        "recovery restore",
        ("sync", "status"),
    ),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return used(Machine(tmp_path_factory.mktemp("errors"), "original"))


@pytest.fixture
def laptop(original: Machine, machine: MakeMachine) -> Machine:
    """A machine with one session, in no account."""
    return copied(original, machine("laptop"))


@pytest.mark.parametrize("trouble", KEYS, ids=lambda trouble: trouble.id)
def test_the_key(laptop: Machine, tmp_path: Path, trouble: Trouble) -> None:
    """A key that is not there, not right, not safe, or in a store that does not give it."""
    folder = tmp_path / "beside"
    folder.mkdir()
    assert_met(laptop, trouble, folder)


@root
def test_a_key_file_of_another_user(laptop: Machine, tmp_path: Path) -> None:
    """It is not used, whoever can read it."""
    trouble = Trouble("", _strange_key_file, 3, "belongs to another user", "chown", ("sessions", "sync"))
    assert_met(laptop, trouble, tmp_path)


def test_nothing_is_lost_by_looking(laptop: Machine) -> None:
    """The machine of these tests is sound: otherwise each row would prove nothing."""
    assert laptop.atomic("doctor", "--repair").out == "The cache is sound; nothing was changed.\n"
    done = laptop.atomic("doctor")
    assert "problem " not in done.out
    assert_nothing_leaked(laptop, done)
