"""One golden page for every kind of entry, compared byte for byte.

After a wanted change: `ATOMIC_WRITE_GOLDEN=1 pytest tests/domain/html/test_golden.py`, then read the difference.
"""

import os
import re
from pathlib import Path

import pytest

from atomic_sessions.html.render import render_page
from documents import KINDS

GOLDEN = Path(__file__).parents[2] / "data" / "html"


def body_of(html: str) -> str:
    """The page without its style, its script and what depends on their bytes; one element a line, to be read."""
    html = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    html = re.sub(r"'sha256-[^']+'", "'sha256-…'", html)
    html = re.sub(r"content=[0-9a-f]{16}>", "content=…>", html)
    return re.sub(
        r"(?=<(?:article|header|main|section|details|div|pre|p|h\d|ul|ol|table|body|title|meta)\b)",
        "\n",
        html,
    )


@pytest.mark.parametrize("name", sorted(KINDS))
def test_page_is_as_recorded(name: str) -> None:
    """Each kind of entry is drawn as its golden file says."""
    shown = body_of(render_page(KINDS[name], script=False))
    path = GOLDEN / f"{name}.html"
    if os.environ.get("ATOMIC_WRITE_GOLDEN"):
        path.write_text(shown, encoding="utf-8", newline="\n")
    assert shown == path.read_text(encoding="utf-8")


def test_no_golden_without_a_kind() -> None:
    """Every golden file belongs to a kind that still exists."""
    assert {path.stem for path in GOLDEN.glob("*.html")} == set(KINDS)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_same_bytes_again(name: str) -> None:
    """Rendering twice gives the same page, and one that can be written to a file."""
    first = render_page(KINDS[name])
    assert first == render_page(KINDS[name])
    first.encode("utf-8")
