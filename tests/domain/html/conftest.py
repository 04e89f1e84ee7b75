"""What the tests of rendering share: a parser that says what a page really contains."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

VOID = {"meta", "br", "hr", "img", "link", "input"}
IMPLIED = {"p", "li", "dt", "dd", "tr", "td", "th", "html", "head", "body"}


class Page(HTMLParser):
    """Tags, attributes and text of a page, and whether its tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.faults.extend(f"open: {tag}" for tag in self._open if tag not in IMPLIED)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] in IMPLIED and self._open[-1] != tag:
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"close: {tag}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in {"script", "style"}:
            self.scripts.append(data)
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"comment: {data}")


@pytest.fixture(scope="session")
def page() -> Callable[[str], Page]:
    """Read a page as a browser would."""
    return Page
