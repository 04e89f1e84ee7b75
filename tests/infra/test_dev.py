"""`./dev` is the one door to the project."""

import re
import sys
from pathlib import Path

from infra.repository import ROOT, run, text


def test_shell_scripts_parse() -> None:
    """Every script of the repository is valid for its shell."""
    for script in ("dev", ".ci/run"):
        assert run("bash", "-n", script).stderr == ""
    for script in ("infra/make-secrets", "infra/postgres/init.sh"):
        assert run("sh", "-n", script).stderr == ""


def test_lists_every_command_it_has() -> None:
    """`./dev` alone shows each command with a line on what it does."""
    commands = set(re.findall(r"^cmd_([a-z]+)\(\)", text("dev"), re.MULTILINE))
    listed = run("bash", "dev")
    assert listed.returncode == 0
    assert {line.split()[0] for line in listed.stdout.splitlines() if line.startswith("  ")} == commands
    assert {"setup", "test", "demo", "lint", "format", "lock", "wheel"} <= commands
    assert all(len(line.split()) > 2 for line in listed.stdout.splitlines() if line.startswith("  "))


def test_unknown_command_is_named_and_fails() -> None:
    """A slip of the fingers gets the list and exit code 2."""
    for slip in ("tset", "cmd_test", "--wrong"):
        outcome = run("bash", "dev", slip)
        assert outcome.returncode == 2
        assert slip in outcome.stderr
        assert "setup" in outcome.stderr


def test_ci_runs_the_same_command_as_a_person() -> None:
    """.ci/run is `./dev test`, and nothing else."""
    commands = [line for line in text(".ci/run").splitlines() if line and not line.startswith("#")]
    assert commands == ["set -euo pipefail", 'cd "$(dirname "${BASH_SOURCE[0]}")/.."', "exec ./dev test"]


def test_scripts_can_be_run() -> None:
    """The scripts are executable."""
    for script in ("dev", ".ci/run", "infra/make-secrets", "infra/postgres/init.sh"):
        assert (ROOT / script).stat().st_mode & 0o111


def test_set_up_left_both_programs() -> None:
    """The environment these tests run in has both programs, installed from this tree."""
    programs = Path(sys.executable).parent
    assert (programs / "atomic").is_file()
    assert (programs / "atomic-service").is_file()
