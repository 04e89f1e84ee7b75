"""The documents say what is so."""

import inspect
import itertools
import re
from pathlib import Path

import pytest

from atomic_agent.cli.app import COMMANDS, INTERRUPTED
from atomic_sessions import envelope, errors

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_guide_or_readme(name: str) -> None:
    """A command that no text names is a command nobody finds."""
    text = "".join(
        (ROOT / page).read_text(encoding="utf-8")
        for page in ("README.md", "docs/guide.md", "docs/providers.md")
    )
    assert f"atomic {name}" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link has its file."""
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_exit_codes_are_one_table() -> None:
    """The table has exactly the codes of the error classes, and success and interruption."""
    table = {
        int(code)
        for code in re.findall(r"^\| (\d+) \|", (ROOT / "docs/exit-codes.md").read_text(), re.MULTILINE)
    }
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.AtomicError)]
    assert table == {c.exit_code for c in classes} | {0, INTERRUPTED}


def test_the_envelope_page_has_the_layout_of_the_code() -> None:
    """Offsets and sizes of docs/envelope.md are those of the struct."""
    page = (ROOT / "docs/envelope.md").read_text(encoding="utf-8").split("## A sealed share")[0]
    rows = [(int(a), int(b)) for a, b in re.findall(r"^\| (\d+) \| (\d+) \|", page, re.MULTILINE)]
    for (offset, size), (following, _) in itertools.pairwise(rows):
        assert offset + size == following
    assert rows[-1][0] + rows[-1][1] == envelope.HEADER_SIZE


def test_the_first_ten_minutes_pass_secrets_on_stdin() -> None:
    """Where a secret goes the README shows only the form that reads standard input (A6)."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for flag in ("--invite", "--join", "--import", "shares revoke"):
        for following in re.findall(rf"{flag} (\S+)", text):
            assert following.strip("`").startswith("-"), (flag, following)


def test_every_proof_is_there() -> None:
    """Each test that docs/proofs.md names exists, and each numbered one is named."""
    page = (ROOT / "docs/proofs.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z]+/[\w/]+\.py)`", page))
    assert {name for name in named if not (ROOT / "tests" / name).is_file()} == set()
    numbered = {
        f"{folder}/{path.name}"
        for folder in ("faults", "attacks")
        for path in (ROOT / "tests" / folder).glob("test_*.py")
    }
    assert numbered <= named


def test_every_part_of_a_proof_is_there() -> None:
    """Each file that docs/proofs.md names without its folder exists, and each test it names is in its file."""
    page = (ROOT / "docs/proofs.md").read_text(encoding="utf-8")
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    for name in re.findall(r"`(?:\w+/)*(test_\w+\.py)`", page):
        assert name in files, name
    for name, parts in re.findall(r"`(?:\w+/)*(test_\w+\.py)` \(((?:`\w+`(?:, )?)+)\)", page):
        tests = re.findall(r"def (test_\w+)", files[name].read_text(encoding="utf-8"))
        for part in re.findall(r"`(\w+)`", parts):
            assert any(part in test for test in tests), (name, part)
