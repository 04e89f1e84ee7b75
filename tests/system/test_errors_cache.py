"""Everything that can be wrong with a home, a cache or a disk: one sentence, the mend, its exit code.

Each row is met by every command it concerns, run as a real process.
"""

import contextlib
import os
import secrets
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atomic_agent.cache.cache import Cache
from system.machines import Machine, MakeMachine, claude_lines
from system.troubles import (
    COMMANDS,
    NOBODY,
    REPAIR,
    SESSION,
    Trouble,
    assert_met,
    assert_seen,
    assert_told,
    copied,
    key_of,
    place,
    root,
    used,
)


def _strange_cache(machine: Machine, folder: Path) -> None:
    os.chown(machine.cache, NOBODY, NOBODY)


def _strange_folder(machine: Machine, folder: Path) -> None:
    os.chown(machine.cache.parent, NOBODY, NOBODY)


def _open_cache(machine: Machine, folder: Path) -> None:
    machine.cache.chmod(0o644)


def _open_folder(machine: Machine, folder: Path) -> None:
    machine.cache.parent.chmod(0o777)


def _open_home(machine: Machine, folder: Path) -> None:
    place(machine).root.chmod(0o777)


def _linked_cache(machine: Machine, folder: Path) -> None:
    machine.cache.rename(folder / "real")
    machine.cache.symlink_to(folder / "real")


def _folder_as_cache(machine: Machine, folder: Path) -> None:
    machine.cache.rename(folder / "real")
    machine.cache.mkdir()


def _file_as_home(machine: Machine, folder: Path) -> None:
    place(machine).root.rename(folder / "real")
    place(machine).root.write_text("")


def _open_keystore(machine: Machine, folder: Path) -> None:
    path = place(machine).keystore
    path.chmod(0o640)


def _foreign(machine: Machine, folder: Path) -> None:
    machine.cache.unlink()
    machine.cache.touch(0o600)
    with contextlib.closing(sqlite3.connect(machine.cache)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def _damaged_head(machine: Machine, folder: Path) -> None:
    _flip(machine.cache, 100)


def _blank_head(machine: Machine, folder: Path) -> None:
    with machine.cache.open("r+b") as stream:
        stream.write(bytes(4096))


def _cut(machine: Machine, folder: Path) -> None:
    os.truncate(machine.cache, machine.cache.stat().st_size // 2)


def _damaged_entries(machine: Machine, folder: Path) -> None:
    with Cache.open(machine.cache, key_of(machine), place(machine).keyinfo) as cache:
        (page,) = cache.connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'session_entries'"
        ).fetchone()
    _flip(machine.cache, (page - 1) * 4096 + 100)


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def _newer_schema(machine: Machine, folder: Path) -> None:
    with Cache.open(machine.cache, key_of(machine), place(machine).keyinfo) as cache:
        cache.put("schema", (99).to_bytes(2, "big"))


def _odd_keyinfo(machine: Machine, folder: Path) -> None:
    place(machine).keyinfo.write_text("{")


CACHES = [
    Trouble("an open cache", _open_cache, 5, "Others can read", "chmod 600"),
    Trouble("an open folder", _open_folder, 5, "Others can write to the folder", "chmod go-w"),
    Trouble("an open home", _open_home, 5, "Others can write to the folder", "chmod go-w"),
    Trouble("a linked cache", _linked_cache, 5, "is a symbolic link", "Put the file itself there"),
    Trouble("a folder as cache", _folder_as_cache, 5, "is not a file", "Move it away"),
    Trouble("a file as home", _file_as_home, 5, "is not a folder", "ATOMIC_HOME"),
    Trouble("an open keystore", _open_keystore, 5, "Others can read", "chmod 600", ("sync", "status")),
    Trouble("another program's cache", _foreign, 5, "another program's database", "ATOMIC_HOME"),
    Trouble("a damaged first page", _damaged_head, 5, "is damaged", REPAIR),
    Trouble("a blank first page", _blank_head, 5, "is damaged", REPAIR),
    Trouble("a cache cut in half", _cut, 5, "is damaged", REPAIR),
    Trouble("a newer cache", _newer_schema, 5, "newer version", "Update atomic-sessions"),
    Trouble("a damaged keyinfo", _odd_keyinfo, 5, "is damaged", "atomic recovery restore"),
]
OWNERS = [
    Trouble("a strange cache", _strange_cache, 5, "belongs to another user", "chown"),
    Trouble("a strange folder", _strange_folder, 5, "belongs to another user", "chown"),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return used(Machine(tmp_path_factory.mktemp("errors"), "original"))


@pytest.fixture
def laptop(original: Machine, machine: MakeMachine) -> Machine:
    """A machine with one session, in no account."""
    return copied(original, machine("laptop"))


@pytest.mark.parametrize("trouble", CACHES, ids=lambda trouble: trouble.id)
def test_the_cache(laptop: Machine, tmp_path: Path, trouble: Trouble) -> None:
    """What is wrong with the home, its folders or the cache."""
    folder = tmp_path / "beside"
    folder.mkdir()
    assert_met(laptop, trouble, folder)


@root
@pytest.mark.parametrize("trouble", OWNERS, ids=lambda trouble: trouble.id)
def test_what_belongs_to_another_user(laptop: Machine, tmp_path: Path, trouble: Trouble) -> None:
    """A file or folder of somebody else is not used."""
    assert_met(laptop, trouble, tmp_path)


def test_a_broken_page_in_the_middle(laptop: Machine, tmp_path: Path) -> None:
    """Commands that meet it leave with 5, those that do not still work, and doctor names the mend."""
    _damaged_entries(laptop, tmp_path)
    for name in ("export", "turn", "share"):
        done = laptop.atomic(*COMMANDS[name], code=None)
        if name == "share":  # in no account, which is looked at first
            assert done.code == 9
            continue
        assert done.code == 5, (name, done.err)
        assert_told(laptop, done, "damaged", REPAIR)
    assert SESSION in laptop.atomic("sessions", "--all", "--json").out
    trouble = Trouble("", _damaged_entries, 5, "damaged", REPAIR)
    assert_seen(laptop, trouble, {})


# --- the disk ----------------------------------------------------------------------------


@contextlib.contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(mode=0o700)
    options = f"size={size},mode=0700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@root
def test_a_full_disk(machine: MakeMachine) -> None:
    """Exit 15 for what writes; what was there stays readable, and once there is room all goes on."""
    laptop = machine("laptop")
    with _small_disk(place(laptop).root, "1m"):
        laptop.say("before the disk was full")
        laptop.claude_file(SESSION, _large(laptop))
        for command in (("capture",), ("capture", "--json")):
            done = laptop.atomic(*command, code=15)
            assert_told(laptop, done, "The disk is full", "Free some space")
        assert laptop.sessions("--all")
        subprocess.run(["mount", "-o", "remount,size=64m", str(place(laptop).root)], check=True)
        laptop.atomic("capture")
        assert len(laptop.sessions("--all")) == 2


def _large(machine: Machine) -> list[dict[str, Any]]:
    return claude_lines(SESSION, str(machine.folder), [secrets.token_hex(40_000) for _ in range(40)])


@root
def test_a_read_only_disk(original: Machine, machine: MakeMachine) -> None:
    """Exit 15, told from damage; doctor says so beforehand."""
    laptop = machine("laptop")
    with _small_disk(place(laptop).root, "64m"):
        laptop.say("kept")
        subprocess.run(["mount", "-o", "remount,ro", str(place(laptop).root)], check=True)
        trouble = Trouble("", _open_home, 15, "cannot be written to", "read-only")
        for name in ("capture", "sessions", "turn", "sync", "status"):
            done = laptop.atomic(*COMMANDS[name], code=None)
            assert done.code == 15, (name, done.code, done.err)
            assert_told(laptop, done, trouble.said, trouble.mend)
        assert_seen(laptop, trouble, {})
