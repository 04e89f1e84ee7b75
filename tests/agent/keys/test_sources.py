"""Where the key comes from, in which order, and what is refused on the way."""

import base64
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atomic_agent import private_files
from atomic_agent.keys import keyring_store, sources
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_sessions.errors import CacheRefusedError, KeyMissingError, NoKeyStoreError


def _key(number: int) -> LocalKey:
    return LocalKey(bytes([number]) * 32)


def _text(number: int) -> bytes:
    return base64.b64encode(bytes([number]) * 32) + b"\n"


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ATOMIC_KEY_FD", "ATOMIC_KEY_FILE", "CREDENTIALS_DIRECTORY", "ATOMIC_PASSPHRASE_FD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".atomic")


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good key file that the environment names."""
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(_text(2))
    monkeypatch.setenv("ATOMIC_KEY_FILE", str(path))
    return path


@pytest.fixture
def descriptor() -> Iterator[int]:
    """A descriptor that holds a key."""
    reading, writing = os.pipe()
    os.write(writing, _text(1))
    os.close(writing)
    yield reading
    try:
        os.close(reading)
    except OSError:
        pass  # it was read and closed


def test_the_order(
    home: Home, tmp_path: Path, key_file: Path, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Descriptor, then file, then credential, then the store that was chosen."""
    asked: list[str] = []

    def load(item: str, backend: str) -> LocalKey:
        asked.append(f"{item} {backend}")
        return _key(4)

    monkeypatch.setattr(keyring_store, "load", load)
    private_files.make_folder(home.keys)
    private_files.write(home.key_choice, b'{"store":"keyring","backend":"B","item":"i"}')
    credential = tmp_path / "credentials" / "atomic-key"
    credential.parent.mkdir()
    credential.touch(0o400)
    credential.chmod(0o600)
    credential.write_bytes(_text(3))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credential.parent))
    monkeypatch.setenv("ATOMIC_KEY_FD", str(descriptor))
    assert sources.find(home) == _key(1)
    monkeypatch.delenv("ATOMIC_KEY_FD")
    assert sources.find(home) == _key(2)
    monkeypatch.delenv("ATOMIC_KEY_FILE")
    assert sources.find(home) == _key(3)
    assert sources.is_given()
    credential.unlink()
    assert not sources.is_given()
    assert asked == []
    assert sources.find(home) == _key(4)
    assert asked == ["i B"]


def test_nothing_was_chosen_yet(home: Home) -> None:
    """No source and no choice: no key, no error, nothing made."""
    assert sources.find(home) is None
    assert not home.root.exists()


def test_a_descriptor_is_closed_after_it_was_read(
    descriptor: int, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no child inherits it; a second reading finds it gone and says so."""
    monkeypatch.setenv("ATOMIC_KEY_FD", str(descriptor))
    assert sources.find(home) == _key(1)
    with pytest.raises(NoKeyStoreError, match="not an open file descriptor"):
        sources.find(home)


@pytest.mark.parametrize("number", ["x", "-1", "999999", "1e3", " "])
def test_what_is_no_descriptor(home: Home, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named with the way to open one."""
    monkeypatch.setenv("ATOMIC_KEY_FD", number)
    with pytest.raises(NoKeyStoreError, match="ATOMIC_KEY_FD"):
        sources.find(home)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"short",
        _text(1)[:-3],
        base64.b64encode(bytes(31)),
        base64.b64encode(bytes(33)),
        b"!" * 44,
        bytes(32),
        b"=" * 44,
        b"\xff" * 44,
        _text(1) * 9,
    ],
)
def test_files_that_hold_no_key(home: Home, key_file: Path, content: bytes) -> None:
    """Anything but 32 bytes in base64 is refused, without being shown."""
    key_file.write_bytes(content)
    with pytest.raises(KeyMissingError) as refused:
        sources.find(home)
    assert "openssl rand" in refused.value.mend
    if len(content) > 10:
        assert content.decode("latin1")[:10] not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o610, 0o777])
def test_key_files_open_to_others(home: Home, key_file: Path, mode: int) -> None:
    """Any right of group or others is too much; the mend is the command."""
    key_file.chmod(mode)
    with pytest.raises(NoKeyStoreError) as refused:
        sources.find(home)
    assert "chmod 600" in refused.value.mend


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "missing", "dangling"])
def test_key_files_that_are_no_files(
    home: Home, key_file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe, folder, device or nothing is refused at once, without waiting."""
    key_file.unlink()
    match kind:
        case "fifo":
            os.mkfifo(key_file, 0o600)
        case "folder":
            key_file.mkdir(mode=0o700)
        case "device":
            monkeypatch.setenv("ATOMIC_KEY_FILE", "/dev/null")
        case "dangling":
            key_file.symlink_to(key_file.with_name("nowhere"))
    with pytest.raises(NoKeyStoreError, match="key file"):
        sources.find(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_file_of_another_user(home: Home, key_file: Path) -> None:
    """Whoever owns it could have put it there."""
    os.chown(key_file, 12345, 12345)
    with pytest.raises(NoKeyStoreError, match="another user"):
        sources.find(home)


def test_a_key_file_is_never_replaced(tmp_path: Path) -> None:
    """Writing one makes a new 0600 file that opens again, and refuses an existing file or link."""
    path = tmp_path / "key"
    sources.write_key_file(path, _key(5))
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(NoKeyStoreError, match="exists"):
        sources.write_key_file(path, _key(6))
    assert path.read_bytes() == _text(5)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(NoKeyStoreError, match="exists"):
        sources.write_key_file(link, _key(6))


@pytest.mark.parametrize("content", [b"", b"{", b'{"store":"file"}', b"[]", b"\xff"])
def test_a_choice_that_says_nothing(home: Home, content: bytes) -> None:
    """A damaged choice is an error with its mend, not a missing one."""
    private_files.make_folder(home.keys)
    private_files.write(home.key_choice, content)
    with pytest.raises(NoKeyStoreError) as refused:
        sources.find(home)
    assert "atomic keys use" in refused.value.mend


def test_a_choice_others_can_read_or_that_is_a_link(home: Home) -> None:
    """What says where the key is must be ours alone."""
    private_files.make_folder(home.keys)
    private_files.write(home.key_choice, b'{"store":"passphrase"}')
    home.key_choice.chmod(0o644)
    with pytest.raises(CacheRefusedError):
        sources.find(home)


def test_an_item_gone_from_the_keyring(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chosen keyring without the item is a missing key: no new one is made."""
    monkeypatch.setattr(keyring_store, "load", lambda *_: None)
    private_files.make_folder(home.keys)
    private_files.write(home.key_choice, b'{"store":"keyring","item":"i"}')
    with pytest.raises(KeyMissingError, match="no longer"):
        sources.find(home)


def _passphrase(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    monkeypatch.setenv("ATOMIC_PASSPHRASE_FD", str(reading))


@pytest.mark.parametrize("typed", ["schönes Pferd\n".encode(), b"\xff\xfe latin"])
def test_a_passphrase_from_a_descriptor(home: Home, typed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept under a passphrase of any bytes, opened with it, a wrong one refused, a lost file named."""
    _passphrase(monkeypatch, typed)
    sources.keep_under_passphrase(home, _key(7), sources.ask_passphrase(""))
    assert home.passphrase_file.stat().st_mode & 0o777 == 0o600
    _passphrase(monkeypatch, typed.rstrip(b"\n"))
    assert sources.find(home) == _key(7)
    home.passphrase_file.unlink()
    with pytest.raises(KeyMissingError, match="gone"):
        sources.find(home)


def test_a_passphrase_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says how a script gives it."""
    monkeypatch.setattr(sys, "stdin", open(os.devnull, encoding="utf-8"))  # noqa: PTH123, SIM115  # closed with the test
    with pytest.raises(NoKeyStoreError) as refused:
        sources.ask_passphrase("Passphrase: ")
    assert "ATOMIC_PASSPHRASE_FD" in refused.value.mend
    sys.stdin.close()


def test_no_error_shows_a_key(home: Home, key_file: Path) -> None:
    """Whatever is refused, the file's content is not in the message."""
    key_file.write_bytes(_text(2)[:-6])
    with pytest.raises(KeyMissingError) as refused:
        sources.find(home)
    assert "AgIC" not in str(refused.value)
