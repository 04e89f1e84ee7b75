"""docs/sdk.md says what is so: its examples run as they stand and print what stands below them."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from atomic_agent import sdk
from atomic_sessions.errors import AtomicError

PAGE = Path(__file__).parents[3] / "docs" / "sdk.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, in an empty folder and home."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "example"}
    for (kind, text), (following, wanted) in pairwise([*blocks, ("", "")]):
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102  # the page is ours
            said = capsys.readouterr()
            assert said.err == ""
            assert said.out == (wanted if following == "text" else ""), text
    assert sum(kind == "python" for kind, _ in blocks) >= 8


def test_every_example_imports_from_the_door_alone() -> None:
    """What a program needs is there."""
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"from (atomic\S+) import", text)) == {"atomic_agent.sdk"}


def test_the_table_has_every_error_of_the_door() -> None:
    """An error that is exported is explained."""
    table = PAGE.read_text(encoding="utf-8").split("## Errors")[1]
    exported = {
        name
        for name in sdk.__all__
        if isinstance(found := getattr(sdk, name), type) and issubclass(found, AtomicError)
    }
    assert {name for name in exported if f"`{name}`" not in table} == set()
