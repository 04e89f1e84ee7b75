"""Settings files: found, read tolerantly, never written; what is broken is named with its line."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_agent.config import settings
from atomic_agent.config.errors import SettingsError
from atomic_agent.config.paths import Folders
from atomic_agent.config.settings import SettingsFile
from atomic_agent.locations import Home

FOLDERS = Folders("/h/.atomic", "/w", "/h")
HOME = Home(Path("/h/.atomic"))


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_where_they_lie(tmp_path: Path) -> None:
    """The person's in the Atomic home, or where ATOMIC_CODING_AGENT_DIR says; the project's at its root."""
    assert settings.global_path(HOME, {}, FOLDERS) == Path("/h/.atomic/agent/settings.json")
    moved = {"ATOMIC_CODING_AGENT_DIR": "~/x"}
    assert settings.global_path(HOME, moved, FOLDERS) == Path("/h/x/settings.json")
    assert settings.project_path(tmp_path, HOME) == tmp_path / ".atomic" / "settings.json"


def test_the_atomic_home_is_no_project(tmp_path: Path) -> None:
    """In the folder that holds the Atomic home, also by a link, there are no project settings."""
    (tmp_path / ".atomic").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / ".atomic")
    assert settings.project_path(tmp_path, Home(tmp_path / "link")) is None


@pytest.mark.parametrize("content", [b"", b" \n", b"{}", b"\xef\xbb\xbf{}"])
def test_empty_is_empty(tmp_path: Path, content: bytes) -> None:
    """Nothing in the file means no settings; no file is None."""
    found = settings.read(_write(tmp_path / "s.json", content))
    assert found is not None
    assert found.members == {}
    assert settings.read(tmp_path / "none.json") is None
    assert settings.read(tmp_path / "s.json" / "below.json") is None


def test_unknown_members_are_kept_and_nothing_is_written(tmp_path: Path) -> None:
    """Members this program does not know stay, and reading changes neither content nor time nor mode."""
    path = _write(tmp_path / "s.json", b'{"theme": "dark", "storage": {"dir": "a"}, "x": [1, {"y": null}]}')
    path.chmod(0o444)
    before = path.stat()
    found = settings.read(path)
    assert found is not None
    assert found.members == {"theme": "dark", "storage": {"dir": "a"}, "x": [1, {"y": None}]}
    assert settings.chosen_by(found) == ("storage",)
    after = path.stat()
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{\n "a": 1,\n "b": secret\n}', "line 3, column 7"),
        (b"[1]", "has to hold a JSON object"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 text"),
        (b"[" * 200_000, "beyond all measure"),
        (b'{"a": ' + b"9" * 5000 + b"}", "beyond all measure"),
        (b" " * (settings.MAX_BYTES + 1), "is larger than 1 MiB"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    """One sentence with the file and the line, one with the mend, nothing of the content."""
    path = _write(tmp_path / "s.json", content)
    with pytest.raises(SettingsError) as caught:
        settings.read(path)
    assert said in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.mend
    assert "secret" not in str(caught.value)


def test_what_is_no_file_does_not_block(tmp_path: Path) -> None:
    """A pipe, a folder and a link to itself in its place are errors at once."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "folder", "loop"):
        with pytest.raises(SettingsError, match=str(tmp_path / name)):
            settings.read(tmp_path / name)


@given(st.binary(max_size=80))
def test_any_bytes_are_members_or_an_error(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Whatever the file holds, reading it raises nothing but SettingsError."""
    path = _write(tmp_path_factory.getbasetemp() / "any.json", raw)
    try:
        found = settings.read(path)
    except SettingsError:
        return
    assert found is not None


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        ("/data/s", "/data/s"),
        ("~/s", "~/s"),
        ("s/../t", "/w/t"),
        ("", "FOLDER"),
        (7, "FOLDER"),
    ],
)
def test_session_dir_is_reported(value: object, instead: str) -> None:
    """The old setting names the new one to write, with the same folder, and is a choice of nothing."""
    file = SettingsFile("/s.json", {"sessionDir": value})
    said = settings.removed(file, FOLDERS)
    assert said is not None
    assert "/s.json was removed and is not used" in said
    assert json.loads("{" + said.split("instead: ")[1] + "}") == {"sessions": {"storage": {"dir": instead}}}
    assert settings.chosen_by(file) == ()
    assert settings.removed(SettingsFile("/s.json", {}), FOLDERS) is None


def test_what_a_file_chooses() -> None:
    """Named as a person writes them, a broken one too, so that it is not passed over."""
    assert settings.chosen_by(SettingsFile("/s", {"sessions": {"storage": 1}, "storage": 2})) == (
        "sessions.storage",
        "storage",
    )
    assert settings.chosen_by(SettingsFile("/s", {"sessions": {"other": 1}})) == ()
    assert settings.chosen_by(SettingsFile("/s", {"sessions": 5})) == ("sessions.storage",)
