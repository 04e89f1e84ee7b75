"""What a page holds: everything, once, in the right place; and what it costs."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions.entry import Image, Text, ToolCall, ToolResult, Usage
from atomic_sessions.html.outline import outline
from atomic_sessions.html.render import render_page
from atomic_sessions.html.tools import folded
from atomic_sessions.html.totals import count, totals
from documents import DIFF, KINDS, PIXEL, chain, deep, document, node

Read = Callable[[str], Any]  # the Page of conftest.py, which cannot be imported


def test_every_branch_is_there(page: Read) -> None:
    """The active path is shown; every other branch is folded, named, and leaves from where it left."""
    html = render_page(KINDS["branches"], script=False)
    found = page(html)
    for said in (
        "first",
        "answer one",
        "left behind",
        "its answer",
        "a branch of the branch",
        "the other way",
        "another root",
    ):
        assert said in found.text
    path = html[html.index("class=path") : html.index("class=others")]
    assert "the other way" in path
    assert "its answer" not in path
    origins = [a.get("data-from") for t, a in found.tags if t == "details" and a.get("class") == "branch"]
    assert origins == ["e-a1", "e-u2", "e-a1", None]


def test_each_entry_has_its_anchor_once(page: Read) -> None:
    """Every entry can be linked to, results too, and no element id is there twice."""
    for name, kind in KINDS.items():
        found = page(render_page(kind, script=False))
        ids = [a["id"] for _, a in found.tags if "id" in a]
        assert len(ids) == len(set(ids)), name
        if name != "strange":
            assert {f"e-{n.id}" for n in kind.nodes} <= set(ids)


def test_result_is_drawn_inside_its_call() -> None:
    """A result stands in its call and nowhere else, even from another branch (parallel calls of Claude Code)."""
    call, other = ToolCall("c1", "bash", "{}"), ToolCall("c2", "bash", "{}")
    html = render_page(
        document(
            node("a1", None, call, role="assistant"),
            node("r1", "a1", ToolResult("c1", "bash", (Text("FIRST-RESULT"),)), role="tool", minute=1),
            node("a2", "a1", other, role="assistant", minute=2),
            node("r2", "a2", ToolResult("c2", "bash", (Text("SECOND-RESULT"),)), role="tool", minute=3),
        ),
        script=False,
    )
    assert html.count("FIRST-RESULT") == html.count("SECOND-RESULT") == 1
    assert html.index('id="e-a1"') < html.index("FIRST-RESULT") < html.index('id="e-a2"')
    assert "Other branches" not in html


def test_one_entry_with_many_results_has_one_anchor(page: Read) -> None:
    """Results of parallel calls that came in one entry share its anchor; text beside them keeps its own piece."""
    calls = (ToolCall("c1", "a", "{}"), ToolCall("c2", "b", "{}"))
    results = (ToolResult("c1", "a", (Text("one"),)), ToolResult("c2", "b", (Text("two"),)))
    for extra in ((), (Text("a note"),)):
        doc = document(
            *chain(
                node("a1", None, *calls, role="assistant"), node("r1", None, *results, *extra, role="tool")
            )
        )
        found = page(render_page(doc, script=False))
        assert sorted(str(a["id"]) for _, a in found.tags if "id" in a and a["id"] != "transcript") == [
            "e-a1",
            "e-r1",
        ]


def test_repeated_call_ids_stay_apart() -> None:
    """Models that number their calls anew each turn get each result in the call above it."""
    nodes = []
    for turn in range(200):
        nodes.append(node(f"a{turn}", None, ToolCall("call_0", "bash", "{}"), role="assistant"))
        nodes.append(
            node(f"r{turn}", None, ToolResult("call_0", "bash", (Text(f"out {turn}"),)), role="tool")
        )
    plan = outline(document(*chain(*nodes)))
    assert all(plan.answers[f"a{turn}", 0][0] == f"r{turn}" for turn in range(200))


def test_long_output_is_there_once() -> None:
    """Output beyond a few lines is folded, whole and not repeated."""
    html = render_page(KINDS["tool"], script=False)
    for number in range(1, 31):
        assert html.count(f"line {number}\n") + html.count(f"line {number}<") == 1
    assert "<summary>24 more lines</summary>" in html


@settings(deadline=None)
@given(st.text(alphabet='ab&<\n"', max_size=6000), st.integers(1, 20))
def test_folding_keeps_text(text: str, preview: int) -> None:
    """A fold cuts between lines or inside a long one, never inside an entity, and loses nothing."""
    from html import unescape

    html = folded(text * 3, preview)
    pieces = html.split("</pre>")
    shown = [unescape(p.split("<pre>", 1)[1]) for p in pieces if "<pre>" in p]
    expected = (text * 3).strip("\n")
    if len(shown) == 1:
        assert shown[0] == expected
    else:
        assert expected in {shown[0] + shown[1], shown[0] + shown[1][1:]}
        assert shown[1].startswith("\n")


def test_edit_shows_its_diff() -> None:
    """An edit shows the diff it made, coloured; without one, that of its arguments."""
    html = render_page(KINDS["tool-edit"], script=False)
    assert "<del>-    return x\n</del><ins>+    return x + 1\n</ins>" in html
    assert "<del>- b\n</del><ins>+ c\n</ins>" in html
    assert DIFF.splitlines()[-1].replace("<", "&lt;").replace(">", "&gt;") in html


def test_raster_images_are_shown(page: Read) -> None:
    """A PNG is shown from inside the page; SVG and what is no picture are named."""
    found = page(render_page(KINDS["image"], script=False))
    assert [a["src"] for t, a in found.tags if t == "img"] == [f"data:image/png;base64,{PIXEL}"]
    assert found.text.count("Image not shown") == 2


def test_header_tells_the_session(page: Read) -> None:
    """Title, agent, id, date, models, counts, tokens and cost stand on top; parts of one answer count once."""
    usage = Usage(1_200, 340, 41_000, 0, 0.5)
    text = page(
        render_page(
            document(
                *chain(
                    node("u1", None, Text("hi")),
                    node("a1", None, Text("x"), role="assistant", model="m-1", group="g", usage=usage),
                    node("a2", None, Text("y"), role="assistant", model="m-1", group="g", usage=usage),
                    node("a3", None, Text("z"), role="assistant", model="m-2", usage=usage),
                )
            ),
            script=False,
        )
    ).text
    for said in (
        "A session",
        "atomic",
        "11111111-2222",
        "2026-11-30",
        "m-1, m-2",
        "1 user · 2 assistant",
        "2.4k in",
        "$1.000",
    ):
        assert said in text


def test_counts_are_short() -> None:
    """Large numbers keep two digits."""
    assert [count(n) for n in (0, 999, 1_000, 41_250, 1_234_567, 2_000_000_000)] == [
        "0",
        "999",
        "1.0k",
        "41k",
        "1.2M",
        "2.0G",
    ]
    assert totals(()).usage == Usage()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.text(alphabet="abc ", min_size=1, max_size=5),
            st.sampled_from(["user", "assistant", "custom"]),
        ),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_nothing_is_lost_in_any_tree(page: Read, shape: list[tuple[int, str, str]], leaf: int) -> None:
    """Whatever the tree, every entry's text is in the page once."""
    nodes = [
        node(
            f"n{i}",
            f"n{parent}" if parent < i else None,
            Text(f"[[{i}:{text.strip()}]]"),
            minute=i,
            role=role,
        )
        for i, (parent, text, role) in enumerate(shape)
    ]
    doc = document(*nodes, leaf=f"n{leaf}" if leaf < len(nodes) else None)
    for script in (True, False):
        found = page(render_page(doc, script=script))
        articles = [a["id"] for t, a in found.tags if t == "article"]
        assert sorted(str(i) for i in articles) == sorted(f"e-{n.id}" for n in nodes)


def test_very_deep_sessions_render() -> None:
    """100,000 entries one below the other, and as many forks, are no problem."""
    html = render_page(deep(100_000))
    assert html.count("<article") == 100_000
    forks = [node("n0", None, Text("x"))]
    for i in range(1, 20_000):
        forks.append(node(f"n{i}", f"n{i - 1}", Text(f"say {i}"), minute=i))
        forks.append(node(f"side{i}", f"n{i - 1}", Text(f"side {i}"), minute=0))
    html = render_page(document(*forks, leaf="n19999"))
    assert html.count("class=branch") == 19_999


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "`a``b" * 20_000,
        "*a **b " * 20_000,
        "> " * 20_000,
        "- " * 20_000,
        "[a](" * 20_000,
        "|" * 50_000 + "\n|-|",
        "1. a\n\n" * 10_000,
        "http://" * 20_000,
        "<a" * 30_000,
        "_a" * 40_000,
    ],
)
def test_markdown_is_quick(text: str) -> None:
    """No text makes the renderer slow: eight times as much takes well under forty times as long."""

    def seconds(part: str) -> float:
        doc = document(node("u1", None, Text(part)))
        started = time.process_time()
        render_page(doc)
        return time.process_time() - started

    small = text[: len(text) // 8]
    assert seconds(text) < 40 * max(seconds(small), 0.003)


def test_image_data_is_not_reread() -> None:
    """A picture of megabytes stands in the page once."""
    html = render_page(document(node("u1", None, Image("image/png", PIXEL))))
    assert html.count(PIXEL) == 1
