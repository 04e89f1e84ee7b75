"""An exported page, opened from the disk in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from atomic_sessions.entry import Text
from atomic_sessions.html.render import render_page
from documents import KINDS, document, node, showcase

CONTRAST = """() => {
  const part = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(part);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
    return "rgb(255,255,255)";
  };
  const texts = "p, pre, ins, del, a, summary, b, small, mark".split(", ").map((t) => "main " + t) + ",dt,dd,h1,button";
  return [...document.querySelectorAll(texts)].filter((e) => e.checkVisibility()).map((e) => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return [(a + .05) / (b + .05), e.outerHTML.slice(0, 80)];
  });
}"""
Watch = Any  # the watch fixture of conftest.py, which cannot be imported


@pytest.fixture
def open_file(tmp_path: Path, watch: Watch) -> Any:  # a function that returns a Watched of conftest.py
    def opened(html: str, fragment: str = "", **options: object) -> Any:
        path = tmp_path / "session.html"
        path.write_text(html, encoding="utf-8")
        watched = watch(**options)
        watched.page.goto(path.as_uri() + fragment)
        return watched

    return opened


def assert_quiet(watched: Any) -> None:  # a Watched of conftest.py
    assert [url for url in watched.requests if not url.startswith(("file:", "data:image/png"))] == []
    assert len([url for url in watched.requests if url.startswith("file:")]) == 1
    assert watched.console == []
    assert watched.dialogs == []


def test_asks_for_nothing(open_file: Any) -> None:
    """The page makes no request but for itself, and its own policy blocks nothing of it."""
    watched = open_file(render_page(showcase()))
    expect(watched.page.get_by_role("treeitem").first).to_be_visible()
    assert_quiet(watched)


def test_search_and_filters(open_file: Any) -> None:
    """Search takes words in any order and looks through whole entries; filters are those of the tree."""
    page = open_file(render_page(showcase())).page
    rows, total = page.get_by_role("treeitem"), page.locator(".sum-line")
    page.get_by_role("button", name="User", exact=True).click()
    expect(rows).to_have_count(8)
    for text in rows.all_text_contents():
        assert "user:" in text
    page.get_by_role("button", name="Labeled").click()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Default").click()
    page.get_by_placeholder("Search").fill("line 29 BASH")
    expect(rows).to_have_count(2)
    expect(total).to_contain_text("2 of")
    page.keyboard.press("Escape")
    expect(page.get_by_placeholder("Search")).to_have_value("")
    page.get_by_role("button", name="All").click()
    expect(page.get_by_role("treeitem", name="unheard of: what?")).to_have_count(1)
    page.get_by_role("button", name="No tools").click()
    expect(page.get_by_role("treeitem", name="[bash")).to_have_count(0)


def test_toggles(open_file: Any) -> None:
    """T hides thinking, O unfolds all output; typing in the search does neither."""
    page = open_file(render_page(showcase())).page
    thinking, rest = page.get_by_text("let me <see>"), page.get_by_text("line 30")
    expect(thinking).to_be_visible()
    expect(rest).to_be_hidden()
    page.get_by_placeholder("Search").press_sequentially("to")
    expect(thinking).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("t")
    page.keyboard.press("o")
    expect(thinking).to_be_hidden()
    expect(rest).to_be_visible()
    page.get_by_role("button", name="Thinking").click()
    page.get_by_role("button", name="Full output").click()
    expect(thinking).to_be_visible()
    expect(rest).to_be_hidden()


def test_branches(open_file: Any) -> None:
    """A row of another branch shows the path to it and hides the rest; Escape goes back."""
    page = open_file(render_page(KINDS["branches"])).page
    expect(page.get_by_role("article").filter(has_text="the other way")).to_be_visible()
    expect(page.get_by_role("article").filter(has_text="its answer")).to_be_hidden()
    page.get_by_role("treeitem", name="its answer").click()
    for shown in ("first", "answer one", "left behind", "its answer"):
        expect(page.locator("article", has_text=shown).first).to_be_visible()
    for hidden in ("the other way", "a branch of the branch"):
        expect(page.locator("article", has_text=hidden)).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("article", has_text="the other way")).to_be_visible()
    expect(page.locator("article", has_text="its answer")).to_be_hidden()


def test_links_to_entries(open_file: Any) -> None:
    """A fragment opens at its entry, folded or on another branch too; a click on the time makes one."""
    watched = open_file(render_page(KINDS["branches"]), "#e-a2")
    expect(watched.page.locator("#e-a2")).to_be_in_viewport()
    watched.page.locator("#e-u2 .at").click()
    assert watched.page.url.endswith("#e-u2")
    strange = 'we"ird <id> & é'
    watched = open_file(render_page(document(node(strange, None, Text("x")))))
    watched.page.locator(".at").click()
    url = watched.page.url
    watched.page.goto("about:blank")
    watched.page.goto(url)
    expect(watched.page.locator("article")).to_be_in_viewport()
    assert watched.console == []


def test_without_javascript(open_file: Any) -> None:
    """Without JavaScript the page is the whole transcript, folds open by themselves, and no control is dead."""
    watched = open_file(render_page(KINDS["branches"]), java_script_enabled=False)
    page = watched.page
    expect(page.get_by_text("the other way")).to_be_visible()
    expect(page.locator("button,input")).to_have_count(0)
    page.locator("summary", has_text="left behind").click()
    expect(page.locator("article", has_text="a branch of the branch")).to_be_visible()
    assert_quiet(watched)


def test_phone(open_file: Any) -> None:
    """On a phone nothing is wider than the screen, and the tree is a drawer."""
    page = open_file(render_page(showcase()), viewport={"width": 360, "height": 700}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    expect(page.get_by_role("tree")).to_be_hidden()
    page.get_by_role("button", name="Contents", exact=True).click()
    page.get_by_role("treeitem", name="user: look").click()
    expect(page.locator("article", has_text="look")).to_be_in_viewport()
    expect(page.get_by_role("tree")).to_be_hidden()


def test_keys_reach_everything(open_file: Any) -> None:
    """The tree is walked with the arrow keys, and what has the focus is marked."""
    page = open_file(render_page(showcase())).page
    page.get_by_role("tree").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_contain_text("Plan")
    expect(page.locator("article.here")).to_have_count(1)
    assert page.get_by_role("main").count() == page.get_by_role("navigation").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(open_file: Any, scheme: str) -> None:
    """Text keeps 4.5 to 1 against what is behind it, in light and in dark."""
    page = open_file(render_page(showcase()), color_scheme=scheme).page
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 50
    assert [where for ratio, where in ratios if ratio < 4.5] == []
