"""The keystore opens with its key alone, and is replaced whole or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from atomic_agent import private_files
from atomic_agent.keys import keystore
from atomic_agent.keys.keystore import Device, Membership, Secrets, Token
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_sessions.errors import CacheRefusedError, KeyMissingError, StoreWriteError

KEY = LocalKey(bytes(32))
CANARY = "sk-canary-7f3a9"
FULL = Secrets(
    recovery=CANARY.encode(),
    membership=Membership(
        "https://h",
        b"a" * 16,
        Device(b"d" * 16, "laptop", CANARY.encode(), CANARY.encode()),
        1,
        CANARY.encode(),
        b"i",
        b"r",
        b"h",
        1,
    ),
    token=Token(CANARY, 1),
    provider_keys={"openai": CANARY},
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".atomic")


def test_what_is_kept_comes_back(home: Home) -> None:
    """Everything, in a 0600 file in a 0700 folder, with nothing of it in clear."""
    assert keystore.load(home, KEY) == Secrets()
    assert not home.root.exists()
    keystore.save(home, KEY, FULL)
    assert keystore.load(home, KEY) == FULL
    assert CANARY.encode() not in home.keystore.read_bytes()
    assert home.keystore.stat().st_mode & 0o777 == 0o600
    assert home.keys.stat().st_mode & 0o777 == 0o700


def test_secrets_do_not_show_themselves() -> None:
    """Neither the whole nor a part prints what it holds."""
    assert FULL.membership is not None
    for part in (FULL, FULL.membership, FULL.membership.device, FULL.token):
        assert CANARY not in f"{part} {part!r} {[part]}"


def test_a_wrong_key_changes_nothing(home: Home) -> None:
    """The key is named, the file stays."""
    keystore.save(home, KEY, FULL)
    before = home.keystore.read_bytes()
    other = LocalKey(b"o" * 32)
    with pytest.raises(KeyMissingError, match=other.name):
        keystore.load(home, other)
    assert home.keystore.read_bytes() == before


def test_every_flipped_byte_is_noticed(home: Home) -> None:
    """One changed bit anywhere, or a cut, and it does not open."""
    keystore.save(home, KEY, FULL)
    sound = home.keystore.read_bytes()
    for at in range(len(sound)):
        home.keystore.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(KeyMissingError):
            keystore.load(home, KEY)
    for size in (0, 1, 12, 28, len(sound) - 1):
        home.keystore.write_bytes(sound[:size])
        with pytest.raises(KeyMissingError):
            keystore.load(home, KEY)


def test_a_newer_content_is_not_misread(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later version wrote is named as such and kept."""

    class Later(Secrets):
        version: int = 2  # type: ignore[assignment]  # the version to come

    monkeypatch.setattr(msgspec.msgpack, "encode", lambda _: msgspec.json.encode({"version": 2}))
    keystore.save(home, KEY, Later())
    monkeypatch.undo()
    with pytest.raises(KeyMissingError, match="newer"):
        keystore.load(home, KEY)


def test_a_keystore_open_to_others(home: Home) -> None:
    """Refused before it is read."""
    keystore.save(home, KEY, FULL)
    home.keystore.chmod(0o640)
    with pytest.raises(CacheRefusedError, match="Others"):
        keystore.load(home, KEY)


DYING = """
import os, signal, sys
from pathlib import Path
from atomic_agent.keys import keystore
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
setattr(Path if sys.argv[2] == "replace" else os, sys.argv[2], die)
keystore.save(Home(Path(sys.argv[1])), LocalKey(bytes(32)), keystore.Secrets(recovery=b"new"))
"""


@pytest.mark.parametrize(("step", "kept"), [("fdopen", "old"), ("fsync", "old"), ("replace", "old")])
def test_a_kill_while_saving(home: Home, step: str, kept: str) -> None:
    """Killed before the rename the old content is there, whole; the next save works."""
    keystore.save(home, KEY, Secrets(recovery=b"old"))
    done = subprocess.run([sys.executable, "-c", DYING, str(home.root), step], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    assert keystore.load(home, KEY).recovery == kept.encode()
    keystore.save(home, KEY, Secrets(recovery=b"newer"))
    assert keystore.load(home, KEY).recovery == b"newer"


def test_a_full_disk_while_saving(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused write leaves the old content and no scrap beside it."""
    keystore.save(home, KEY, Secrets(recovery=b"old"))

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreWriteError, match="No space left"):
        keystore.save(home, KEY, Secrets(recovery=b"new"))
    assert keystore.load(home, KEY).recovery == b"old"
    assert [path.name for path in home.keys.iterdir()] == ["keystore"]


def test_folders_are_made_private_whatever_the_umask(tmp_path: Path) -> None:
    """Each missing folder on the way is 0700; existing ones that others can write to are refused."""
    before = os.umask(0)
    try:
        private_files.make_folder(tmp_path / "a" / "b")
        private_files.write(tmp_path / "a" / "b" / "f", b"x")
    finally:
        os.umask(before)
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "f")
    }
    assert modes == {"a": 0o700, "b": 0o700, "f": 0o600}
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(CacheRefusedError, match="Others can write"):
        private_files.make_folder(tmp_path / "a")


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    """In the folder's place, or on the way to it."""
    (tmp_path / "f").touch()
    with pytest.raises(CacheRefusedError, match="not a folder"):
        private_files.make_folder(tmp_path / "f")
    with pytest.raises(StoreWriteError):
        private_files.make_folder(tmp_path / "f" / "g")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreWriteError):
        private_files.make_folder(tmp_path / "link")
