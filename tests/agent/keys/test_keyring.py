"""The keyring, asked through the real child process: what it refuses, and that it never waits for ever."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atomic_agent.keys import keyring_child, keyring_store, sources
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_sessions.errors import KeyMissingError, KeyringLockedError, KeyringSilentError, NoKeyStoreError

KEY = LocalKey(bytes(range(32)))

FAKES = """
import json, os, pathlib, time
from keyring.backend import KeyringBackend
from keyring import errors

class _Fake(KeyringBackend):
    priority = 9
    @property
    def path(self): return pathlib.Path(os.environ["FAKE_KEYRING"])
    def get_password(self, service, name):
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        return kept.get(f"{service}/{name}")
    def set_password(self, service, name, secret):
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.path.write_text(json.dumps({**kept, f"{service}/{name}": secret}))

class Good(_Fake): pass
class Plain(_Fake): pass
class Hanging(_Fake):
    def get_password(self, *_):
        self.path.write_text(str(os.getpid()))
        time.sleep(600)
    set_password = get_password
class Locked(_Fake):
    def get_password(self, *_): raise errors.KeyringLocked("locked")
    set_password = get_password
class Dismissed(_Fake):
    def get_password(self, *_): raise errors.InitError("prompt dismissed")
    set_password = get_password
class Broken(_Fake):
    def get_password(self, *_): raise RuntimeError("sk-canary in an error")
    set_password = get_password
class Mac(_Fake):
    def get_password(self, *_): raise errors.KeyringError("(-25308, 'Unknown Error')")
    set_password = get_password
class Forgetful(_Fake):
    def set_password(self, *_): pass
class Garbled(_Fake):
    def get_password(self, *_): return "not base64!"
class Short(_Fake):
    def get_password(self, *_): return "AAAA"
class Chatty(_Fake):
    def get_password(self, *_): print("hello"); return None
for one in _Fake.__subclasses__():
    one.__module__ = "keyrings.alt.file" if one is Plain else "keyring.backends.SecretService"
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the fake backends keep things; the environment has no D-Bus and no other keyring."""
    (tmp_path / "fakes.py").write_text(FAKES)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.setenv("FAKE_KEYRING", str(tmp_path / "kept"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "PYTHON_KEYRING_BACKEND",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "kept"


def _use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", name if "." in name else f"fakes.{name}")


def test_a_key_is_kept_and_found(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored, read back, found again by the backend that was chosen; an unknown item is None."""
    _use(monkeypatch, "Good")
    backend = keyring_store.store("item", KEY)
    assert backend == "keyring.backends.SecretService.Good"
    assert keyring_store.load("item", backend) == KEY
    assert keyring_store.load("item", "") == KEY
    assert keyring_store.load("other", backend) is None
    assert base64.b64encode(KEY.reveal()).decode() in kept.read_text()


def test_the_first_key_is_made_in_the_keyring(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice is recorded after the key is safe, and names the backend that holds it."""
    _use(monkeypatch, "Good")
    monkeypatch.delenv("ATOMIC_KEY_FILE", raising=False)
    home = Home(tmp_path / ".atomic")
    key = sources.make(home)
    choice = sources.read_choice(home)
    assert choice is not None
    assert choice.backend.endswith("SecretService.Good")
    assert sources.find(home) == key
    kept.unlink()
    with pytest.raises(KeyMissingError, match="no longer"):
        sources.find(home)


def test_another_backend_than_the_chosen_one(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store does not switch by itself: another backend, though allowed, is not asked."""
    _use(monkeypatch, "Good")
    keyring_store.store("item", KEY)
    with pytest.raises(NoKeyStoreError):
        keyring_store.load("item", "keyring.backends.kwallet.DBusKeyring")


@pytest.mark.parametrize(
    ("backend", "kind", "words"),
    [
        ("keyring.backends.fail.Keyring", NoKeyStoreError, "no keyring"),
        ("keyring.backends.null.Keyring", NoKeyStoreError, "keyring.backends.null.Keyring"),
        ("Plain", NoKeyStoreError, "keyrings.alt.file.Plain"),
        ("Locked", KeyringLockedError, "locked"),
        ("Dismissed", KeyringLockedError, "locked"),
        ("Mac", KeyringLockedError, "locked"),
        ("Broken", NoKeyStoreError, "failed"),
        ("no.such.module", NoKeyStoreError, "keyring"),
    ],
)
@pytest.mark.usefixtures("kept")
def test_backends_that_cannot_be_used(
    tmp_path: Path, backend: str, kind: type[NoKeyStoreError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own sentence with three ways out; nothing is written anywhere and no choice is recorded."""
    _use(monkeypatch, backend)
    home = Home(tmp_path / ".atomic")
    before = {path for path in tmp_path.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    with pytest.raises(NoKeyStoreError) as refused:
        sources.make(home)
    assert type(refused.value) is kind
    assert words in refused.value.message
    for way in ("keyring", "ATOMIC_KEY_FILE", "atomic keys use passphrase"):
        assert way in refused.value.mend
    assert "canary" not in str(refused.value)
    with pytest.raises(NoKeyStoreError):
        keyring_store.load("item", "")
    assert sources.read_choice(home) is None
    after = {path for path in tmp_path.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert after == before


@pytest.mark.usefixtures("kept")
def test_a_keyring_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is read back before it counts."""
    _use(monkeypatch, "Forgetful")
    with pytest.raises(NoKeyStoreError, match="did not keep"):
        keyring_store.store("item", KEY)


@pytest.mark.parametrize("backend", ["Garbled", "Short"])
@pytest.mark.usefixtures("kept")
def test_a_keyring_that_holds_no_key(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that somebody edited is a missing key, not a crash."""
    _use(monkeypatch, backend)
    with pytest.raises(KeyMissingError):
        keyring_store.load("item", "")


@pytest.mark.usefixtures("kept")
def test_a_backend_that_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of a backend on stdout do not stand for an answer."""
    _use(monkeypatch, "Chatty")
    assert keyring_store.load("item", "") is None


def test_a_keyring_that_never_answers(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit the child is killed and the person told; nothing is left running."""
    _use(monkeypatch, "Hanging")
    monkeypatch.setattr(keyring_store, "TIMEOUT_SECONDS", 1.5)
    with pytest.raises(KeyringSilentError, match="did not answer"):
        keyring_store.load("item", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(kept.read_text()), 0)


def test_modules_of_the_folder_one_stands_in_are_not_run(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that holds a `keyring.py` does not get to see the key."""
    _use(monkeypatch, "Good")
    hostile = tmp_path / "project"
    hostile.mkdir()
    for name in ("keyring.py", "json.py", "atomic_agent.py"):
        (hostile / name).write_text(f"open({str(hostile / 'stolen')!r}, 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(hostile)
    keyring_store.store("item", KEY)
    assert keyring_store.load("item", "") == KEY
    assert not (hostile / "stolen").exists()


def test_no_secret_is_in_the_childs_arguments_or_environment(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key travels on the child's standard input alone."""
    _use(monkeypatch, "Good")
    seen: list[object] = []
    real = subprocess.run

    def recording(*arguments: object, **named: object) -> object:
        seen.append((arguments, {k: v for k, v in named.items() if k != "input"}))
        return real(*arguments, **named)  # type: ignore[call-overload]  # passed on as it came

    monkeypatch.setattr(subprocess, "run", recording)
    keyring_store.store("item", KEY)
    assert base64.b64encode(KEY.reveal()).decode() not in repr((seen, dict(os.environ)))
    assert kept.exists()


@pytest.mark.usefixtures("kept")
def test_a_recorded_secret_service_without_a_bus() -> None:
    """The short way to the backend that was chosen tells a missing bus as the library does."""
    with pytest.raises(NoKeyStoreError, match="no keyring"):
        keyring_store.load("item", keyring_child.LINUX)


def test_the_short_way_loads_no_library(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the recorded Secret Service the keyring library, its config file and its backends are not read."""
    poisoned = kept.parent / "keyring"
    poisoned.mkdir()
    (poisoned / "__init__.py").write_text("raise SystemExit(9)")
    with pytest.raises(NoKeyStoreError, match="no keyring"):
        keyring_store.load("item", keyring_child.LINUX)
    _use(monkeypatch, "Good")
    with pytest.raises(NoKeyStoreError, match="could not be asked"):
        keyring_store.load("item", keyring_child.LINUX)


def _asked(monkeypatch: pytest.MonkeyPatch, direct: str | None) -> str:
    """Who answers for the recorded Secret Service when the short way finds this."""
    found = {"ok": True, "backend": keyring_child.LINUX, "secret": direct}
    monkeypatch.setattr(keyring_child, "_from_secret_service", lambda _: found)
    monkeypatch.setattr(keyring_child, "_by_library", lambda _: {"ok": True, "secret": "library"})
    request = {"do": "get", "account": "item", "backend": keyring_child.LINUX}
    return str(keyring_child.answer(request)["secret"])


@pytest.mark.usefixtures("kept")
def test_what_the_short_way_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is asked before a key counts as missing."""
    assert _asked(monkeypatch, "direct") == "direct"
    assert _asked(monkeypatch, None) == "library"


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KEYRING_PROPERTY_PREFERRED_COLLECTION", "/org/freedesktop/secrets/collection/mine"),
        ("KEYRING_PROPERTY_SCHEME", "KeePassXC"),
        ("PYTHON_KEYRING_BACKEND", "keyring.backends.SecretService.Keyring"),
    ],
)
def test_a_persons_variables_are_the_librarys(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Where a variable says how the keyring is asked, the short way does not know it."""
    monkeypatch.setenv(name, value)
    assert _asked(monkeypatch, "direct") == "library"


@pytest.mark.parametrize("where", ["HOME", "XDG_CONFIG_HOME"])
def test_a_persons_config_file_is_the_librarys(
    kept: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """So it is where a file names the backend."""
    folder = kept.parent / (".config" if where == "HOME" else "elsewhere") / "python_keyring"
    if where == "XDG_CONFIG_HOME":
        monkeypatch.setenv(where, str(folder.parent))
    assert _asked(monkeypatch, "direct") == "direct"
    folder.mkdir(parents=True)
    (folder / "keyringrc.cfg").touch()
    assert _asked(monkeypatch, "direct") == "library"
