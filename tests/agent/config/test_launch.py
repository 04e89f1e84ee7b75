"""What a launch does with settings and trust: `atomic trust`, `--trust`, the question, the one line."""

import argparse
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from atomic_agent.cli import trust as command
from atomic_agent.config import trust
from atomic_agent.config.errors import SelectionError, SettingsError
from atomic_agent.config.precedence import Placement
from atomic_agent.config.selection import CacheSelection, DriverSelection, FolderSelection
from atomic_agent.locations import Home, home
from atomic_sessions.errors import UsageError

SECRET = "hunter2-in-a-file"


class Terminal(io.StringIO):
    """Standard input or error with somebody before it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose settings choose a folder, and a home that nothing is in."""
    for name in list(os.environ):
        if name.startswith(("ATOMIC_", "ATOM_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".atomic").mkdir()
    (tmp_path / "home").mkdir()
    _settings(root, {"sessions": {"storage": {"dir": "/chosen"}}})
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return root


def _settings(root: Path, members: dict[str, Any]) -> None:
    (root / ".atomic" / "settings.json").write_text(json.dumps(members))


def _launch(*arguments: str, ask: bool = False) -> Placement:
    parser = argparse.ArgumentParser()
    command.store_arguments(parser)
    parser.add_argument("--no-session", action="store_true")
    options = parser.parse_args(arguments)
    return command.placement(command.flags_of(options), os.environ, ask=ask, approve=options.trust)


def _atomic_trust(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.arguments(parser)
    return command.run(parser.parse_intermixed_args(arguments))


def _seat(monkeypatch: pytest.MonkeyPatch, typed: str) -> Terminal:
    """A person at the terminal who types this; what they are shown."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    return shown


def _is_default(placement: Placement) -> bool:
    return isinstance(placement.sessions.selection, CacheSelection)


def test_untrusted_settings_are_ignored_with_one_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A launch without a person asks nothing, says one line, and uses the default store."""
    assert _is_default(_launch(ask=True))
    said = capsys.readouterr()
    line = f"This project's settings ({project}/.atomic/settings.json) are ignored until you trust it: atomic trust\n"
    assert (said.out, said.err) == ("", line)
    assert trust.answers(home()) == []


def test_nothing_is_said_where_nothing_is_chosen(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings that choose no store ask for no trust."""
    _settings(project, {"theme": "dark"})
    assert _is_default(_launch(ask=True))
    (project / ".atomic" / "settings.json").unlink()
    assert _is_default(_launch(ask=True))
    assert capsys.readouterr().err == ""


def test_the_flag_has_effect_in_the_same_launch(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--trust applies the settings at once and for every later launch."""
    for arguments in (("--trust",), ()):
        found = _launch(*arguments)
        assert found.sessions.selection == FolderSelection("/chosen")
        assert isinstance(found.runs.selection, CacheSelection)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("typed", "trusted"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False)]
)
def test_the_question_is_asked_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, typed: str, trusted: bool
) -> None:
    """A yes has effect in that same launch; either answer is remembered and never asked for again."""
    shown = _seat(monkeypatch, typed)
    assert _is_default(_launch(ask=True)) is not trusted
    assert "choose where sessions are kept: sessions.storage." in shown.getvalue()
    assert f"Trust the project {project}?" in shown.getvalue()
    again = _seat(monkeypatch, "y\n")
    assert _is_default(_launch(ask=True)) is not trusted
    assert "Trust the project" not in again.getvalue()


def test_no_answer_is_no_answer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of input trusts nobody and remembers nothing; a script is not asked although a terminal is there."""
    _seat(monkeypatch, "")
    assert _is_default(_launch(ask=True))
    assert trust.answers(home()) == []
    shown = _seat(monkeypatch, "y\n")
    assert _is_default(_launch(ask=False))
    assert trust.answers(home()) == []
    assert "?" not in shown.getvalue()


def test_a_broken_untrusted_file_stops_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Untrusted settings that cannot be read are ignored with one line; trusted ones are an error."""
    (project / ".atomic" / "settings.json").write_text("{")
    assert _is_default(_launch(ask=True))
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SettingsError, match="line 1"):
        _launch("--trust")


def test_settings_of_a_folder_below_do_not_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a trusted repository the root's settings hold in every folder, and no others: what lies in a folder of
    dependencies has another author."""
    below = project / "node_modules" / "dependency"
    (below / ".atomic").mkdir(parents=True)
    _settings(below, {"storage": {"dir": "/stolen"}})
    _launch("--trust")
    monkeypatch.chdir(below)
    assert _launch().sessions.selection == FolderSelection("/chosen")


def test_the_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`atomic trust` trusts, `list` lists, `revoke` takes back; each prints the project's root."""
    (project / "sub").mkdir()
    assert _atomic_trust("sub") == 0
    assert capsys.readouterr().out == f"{project} is trusted: its settings (.atomic/settings.json) hold.\n"
    assert not _is_default(_launch())
    _atomic_trust("list")
    assert str(project) in capsys.readouterr().out
    _atomic_trust("list", "--json")
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["folder"], found["trusted"]) == (str(project), True)
    assert found["settings"] == f"{project}/.atomic/settings.json"
    _atomic_trust("revoke")
    assert "is not trusted" in capsys.readouterr().out
    assert _is_default(_launch())
    assert json.loads(_json(capsys, "--json"))["trusted"] is True


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    _atomic_trust(*arguments)
    return capsys.readouterr().out


def test_the_command_names_what_it_cannot_do(project: Path) -> None:
    """No such folder, too many words."""
    for words in (("gone",), ("a", "b"), ("list", "a"), ("revoke", "a", "b")):
        with pytest.raises(UsageError):
            _atomic_trust(*words)
    assert _atomic_trust("revoke", "gone") == 0


def test_session_dir_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The removed setting is named in the person's settings, and chooses nothing."""
    agent = Home(home().root).root / "agent"
    agent.mkdir(parents=True)
    (agent / "settings.json").write_text('{"sessionDir": "/old"}')
    _settings(project, {})
    assert _is_default(_launch())
    assert '"sessions": {"storage": {"dir": "/old"}}' in capsys.readouterr().err


def test_a_storage_file(project: Path, tmp_path: Path) -> None:
    """A file is read and can be named again; a pipe is read once; what cannot be read is named."""
    file = tmp_path / "store.json"
    file.write_text('{"driver":"pg","options":{"password":"x"}}')
    found = _launch("--storage-file", str(file))
    assert found.sessions.selection == DriverSelection("pg", {"password": "x"}, str(file))
    assert found.runs == found.sessions
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"driver":"pg"}',))
    writer.start()
    found = _launch("--storage-file", str(pipe))
    writer.join()
    assert found.sessions.selection == DriverSelection("pg", {}, "")
    for name in (str(tmp_path / "gone"), str(tmp_path)):
        with pytest.raises(SelectionError, match=f"--storage-file {name} cannot be read"):
            _launch("--storage-file", name)
    file.write_bytes(b"\xff" + SECRET.encode())
    with pytest.raises(SelectionError, match="not UTF-8") as caught:
        _launch("--storage-file", str(file))
    assert SECRET not in str(caught.value)


def test_flags_are_checked_first(project: Path) -> None:
    """Flags that exclude each other are named before any settings are read."""
    (project / ".atomic" / "settings.json").write_text("{")
    with pytest.raises(SelectionError, match="--session-store and --no-session"):
        _launch("--trust", "--no-session", "--session-store", "s")
