"""The documented table of exit codes, the classes and the tests speak of the same things."""

import re
from pathlib import Path

from atomic_sessions import errors
from atomic_sessions.errors import AtomicError

DOCS = Path(__file__).parents[2] / "docs" / "exit-codes.md"
ROW = re.compile(r"^\| (\d+) \|([^|]*)\|", re.MULTILINE)


def _documented() -> dict[str, int]:
    """Class name -> code, as the table says; a code without a class stands under its number."""
    found: dict[str, int] = {}
    for code, classes in ROW.findall(DOCS.read_text()):
        for name in re.findall(r"`(\w+)`", classes) or [code]:
            assert name not in found
            found[name] = int(code)
    return found


def _classes() -> dict[str, int]:
    found = [AtomicError]
    for one in found:
        found += [kind for kind in one.__subclasses__() if kind.__module__ == errors.__name__]
    return {one.__name__: one.exit_code for one in found}


def test_the_table_and_the_classes_agree() -> None:
    """Each class has its row with its code, and each row a class, but for success and Ctrl-C."""
    assert _documented() == {**_classes(), "0": 0, "130": 130}


def test_the_drawn_tree_and_the_classes_agree() -> None:
    """The tree in the module's docstring draws every class with its code."""
    drawn = re.findall(r"(\w+Error)\s+(?:exit )?(\d+)", errors.__doc__ or "")
    assert {name: int(code) for name, code in drawn} == _classes()


def test_each_kind_of_error_has_a_code_of_its_own() -> None:
    """A class directly below the root shares its code with its kinds alone."""
    codes = [kind.exit_code for kind in AtomicError.__subclasses__() if kind.__module__ == errors.__name__]
    assert len(set(codes)) == len(codes)
    for kind in AtomicError.__subclasses__():
        assert all(below.exit_code == kind.exit_code for below in kind.__subclasses__())


def test_every_code_is_met_by_a_real_process() -> None:
    """The tables of the system tests name each documented code."""
    here = Path(__file__).parent
    texts = "".join(path.read_text() for path in here.glob("test_errors*.py"))
    met = {int(found) for found in re.findall(r"(?:code=|, |== |\n +)(\d{1,3})\b", texts)}
    assert set(_documented().values()) <= met
