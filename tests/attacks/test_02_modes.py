"""Attack 2: whatever the umask, what is ours is 0600 in folders of 0700."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cache import stored
from agent.cache.stored import Place
from atomic_agent.cache import open as opening
from atomic_agent.keys.local_key import LocalKey
from system.machines import MakeMachine, claude_lines

SESSION = "0e200000-0000-4000-8000-000000000001"
OPEN = "import os, sys; os.umask(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def _modes(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in root.rglob("*")}


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_every_file_of_whole_commands(machine: MakeMachine) -> None:
    """Attack 2: after a capture, a turn, a passphrase, a kit, a key file and a page, all made with umask 000."""
    laptop = machine("laptop")

    def run(*arguments: str, **environment: str) -> None:
        subprocess.run(
            [sys.executable, "-c", OPEN, *laptop.command(*arguments)[1:]],
            env={**laptop.environment, **environment},
            cwd=laptop.folder,
            check=True,
            capture_output=True,
            timeout=60,
        )

    laptop.claude_file(SESSION, claude_lines(SESSION, str(laptop.folder), ["q", "a"]))
    run("capture")
    run("-c", "-p", "hello", "--provider", "openai", "--model", "m")
    run("recovery", "save", str(laptop.home / "kit"))
    run("recovery", "restore", str(laptop.home / "kit"), "--key-file", str(laptop.home / "again"))
    root = laptop.home / ".atomic"
    for path in [root, *root.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path.name
    assert {"journal.sqlite", "journal.keyinfo", "keystore"} <= set(_modes(root))
    for name in ("kit", "again"):
        assert (laptop.home / name).stat().st_mode & 0o777 == 0o600, name


@pytest.mark.usefixtures("no_umask")
def test_side_files_while_open(tmp_path: Path) -> None:
    """Attack 2: the cache, its -wal and -shm and the keyinfo, as they are while a command runs."""
    place, key = Place(tmp_path), LocalKey(bytes(range(32)))
    with place.open(key) as cache:
        opening.write_keyinfo(place.keyinfo, opening.KeyInfo(1, key.name, key.check_value))
        stored.ensure(cache)
        assert _modes(place.folder) == dict.fromkeys(
            [
                "journal.sqlite",
                "journal.sqlite-wal",
                "journal.sqlite-shm",
                "journal.sqlite.lock",
                "journal.keyinfo",
            ],
            0o600,
        )
        assert place.folder.stat().st_mode & 0o777 == 0o700
