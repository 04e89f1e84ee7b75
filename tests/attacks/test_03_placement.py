"""Attack 3: a cache that is a link, is open to others, or belongs to another user."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks.stage import one_sentence
from system.machines import Machine, MakeMachine

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


CASES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "link": (_link, "symbolic link", "Put the file itself there"),
    "dangling link": (_dangling, "symbolic link", "Put the file itself there"),
    "readable by all": (lambda path: path.chmod(0o644), "Others can read", "chmod 600"),
    "readable by the group": (lambda path: path.chmod(0o640), "Others can read", "chmod 600"),
    "writable by all": (lambda path: path.chmod(0o602), "Others can read", "chmod 600"),
    "another user's": (lambda path: os.chown(path, 12345, 12345), "another user", "chown"),
}


def _state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, modes and bytes; nothing is opened, and a link is not followed."""
    return {
        path.name: (path.lstat().st_mode, b"" if path.is_symlink() else path.read_bytes())
        for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=root_only if one == "another user's" else ()) for one in CASES]
)
@pytest.mark.parametrize("which", ["workflows/journal.sqlite", "keys/keystore"])
def test_a_badly_placed_file(filled: Machine, which: str, name: str) -> None:
    """Attack 3: exit 5 with the command that mends it; not a byte, mode or name changes."""
    damage, said, mend = CASES[name]
    path = filled.home / ".atomic" / which
    damage(path)
    before = _state(path.parent)
    for words in (["status"], ["keys", "list"]):
        line = one_sentence(filled.atomic(*words, code=5))
        assert said in line
        assert mend in line
        assert str(path) in line
    assert _state(path.parent) == before
    assert said in filled.atomic("doctor", code=1).out
    assert _state(path.parent) == before


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_others_can_write_to(filled: Machine, mode: int) -> None:
    """Attack 3: whoever can write to the folder can swap the file, so the folder counts as well."""
    folder = filled.cache.parent
    folder.chmod(mode)
    before = _state(folder)
    assert "chmod go-w" in one_sentence(filled.atomic("sessions", code=5))
    assert _state(folder) == before


@root_only
def test_a_folder_of_another_user(filled: Machine) -> None:
    """Attack 3: nor is a cache used that lies in another user's folder."""
    os.chown(filled.cache.parent, 12345, 12345)
    assert "another user" in one_sentence(filled.atomic("sessions", code=5))


@pytest.fixture
def filled(machine: MakeMachine) -> Machine:
    """A machine with a cache and a keystore."""
    found = machine("laptop")
    found.atomic("capture")
    return found
