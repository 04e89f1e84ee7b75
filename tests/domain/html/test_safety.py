"""Nothing a session says can become markup, an address that runs, or a request."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions.entry import Image
from atomic_sessions.html import policy
from atomic_sessions.html.escaping import clean, line, target
from atomic_sessions.html.markdown import to_html
from atomic_sessions.html.render import render_page
from documents import HOSTILE, KINDS, document, everywhere, node

Read = Callable[[str], Any]  # the Page of conftest.py, which cannot be imported

TAGS = {
    "html", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "h5", "h6", "bdi", "dl", "div", "dt",
    "dd", "main", "section", "article", "b", "a", "p", "pre", "code", "details", "summary", "ul", "ol", "li", "em",
    "strong", "del", "ins", "blockquote", "hr", "table", "tr", "th", "td", "img", "mark", "small", "span", "script",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "rel", "target", "aria-label", "data-l",
    "data-from", "start", "src", "alt", "loading",
}  # fmt: skip

_TEXT = st.one_of(
    st.lists(
        st.one_of(
            st.sampled_from(HOSTILE), st.text(max_size=20), st.sampled_from(list("<>\"'&*_`[]()|#-\n \\~!"))
        ),
        max_size=8,
    ).map("".join),
    st.text(max_size=60),
)


def assert_harmless(read: Read, html: str) -> None:
    found = read(html)
    assert found.faults == []
    for tag, attributes in found.tags:
        assert tag in TAGS - {"script"}
        assert set(attributes) <= ATTRIBUTES
        if "href" in attributes:
            assert re.match(r"#|https?://|mailto:", str(attributes["href"]), re.IGNORECASE)
        if tag == "a" and not str(attributes["href"]).startswith("#"):
            assert (attributes["rel"], attributes["target"]) == ("noreferrer noopener", "_blank")
        if "src" in attributes:
            assert re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$", str(attributes["src"]))
        if attributes.get("http-equiv"):
            assert attributes["http-equiv"] == "Content-Security-Policy"
    assert len(found.scripts) == 1  # the style sheet
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(page: Read, text: str) -> None:
    """Known tricks come out as text, in every field of an entry."""
    assert_harmless(page, render_page(everywhere(text), script=False))


@settings(max_examples=150, deadline=None)
@given(text=_TEXT)
def test_no_text_becomes_markup(page: Read, text: str) -> None:
    """No text at all yields a tag, an attribute, a script or an address that is not allowed."""
    assert_harmless(page, render_page(everywhere(text), script=False))


@settings(deadline=None)
@given(text=_TEXT)
def test_markdown_keeps_tags_balanced(page: Read, text: str) -> None:
    """Whatever is written, every element that Markdown opens is closed in order."""
    found = page(f"<main>{to_html(text)}</main>")
    assert found.faults == []
    assert {tag for tag, _ in found.tags} <= TAGS - {"script", "style", "img"}


@settings(deadline=None)
@given(text=st.text())
def test_clean_leaves_nothing_odd(text: str) -> None:
    """Cleaned text can be encoded, holds no controls and no bidi overrides, and is stable."""
    shown = clean(text)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert clean(shown) == shown


@settings(deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["C"])))
def test_clean_leaves_text_alone(text: str) -> None:
    """Text without controls is not changed."""
    assert clean(text) == text


def test_terminal_escapes_cannot_hide_text() -> None:
    """Colours, titles and links of a terminal go; an escape that never ends hides nothing."""
    assert clean("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x \x1b]8;;http://u\x1b\\link") == "red x link"
    assert clean("\x1b]0;never closed text") == "\u241b]0;never closed text"
    assert clean("a\u202eb") == "a\u27e6U+202E\u27e7b"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil",
        "/x",
        "file:///x",
        "ftp://x",
        "http://a b",
        "http://a\u202e",
        "",
        "http:x",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    """Only http, https and mailto become a link, and only without spaces and controls."""
    assert target(url) is None


def test_line_is_one_line() -> None:
    """A title or a row is one line of a bounded length."""
    assert line("a\n b\t c " * 1000, 20) == "a b c a b c a b c a\u2026"
    assert line("short", 20) == "short"


@pytest.mark.parametrize("mime", ["image/svg+xml", "text/html", "image/png;x", "image/bmp", ""])
def test_other_pictures_are_named(mime: str) -> None:
    """What is no raster image of an allowed type, or only says so, is named and not shown."""
    html = render_page(
        document(node("u1", None, Image(mime, "PHN2Zz4="), Image("image/png", "PHN2Zz4="))), script=False
    )
    assert "<img" not in html
    assert "Image not shown" in html


def test_policy_matches_the_page(page: Read) -> None:
    """The hashes of the policy are of the bytes in the page, so the page's own style and script may run."""
    found = page(render_page(KINDS["user"]))
    hashes = policy.script_and_style_hashes()
    assert [policy._source(text) for text in found.scripts] == [hashes.style, hashes.script]
    inside = next(a["content"] for t, a in found.tags if a.get("http-equiv"))
    assert inside == (
        f"default-src 'none'; script-src {hashes.script}; style-src {hashes.style}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def test_share_policy_is_the_header_of_the_design() -> None:
    """The header of the share page is the one of design.md section 8, with the renderer's hashes."""
    hashes = policy.script_and_style_hashes()
    assert policy.share_policy() == (
        f"default-src 'none'; script-src 'self' {hashes.script}; style-src 'self' {hashes.style}; img-src data:; "
        "connect-src 'self'; require-trusted-types-for 'script'; trusted-types share; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def test_script_free_page_has_no_script(page: Read) -> None:
    """Without a script the page allows none and holds none."""
    html = render_page(KINDS["user"], script=False)
    assert "<script" not in html
    assert "script-src 'none'" in html


def test_script_makes_no_markup() -> None:
    """The page's script and style cannot end their element, use no markup sinks and name no address."""
    for text in (policy.SCRIPT, policy.STYLE):
        assert not re.search(
            r"</|<!--|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|https?:|url\(|@import", text
        )
