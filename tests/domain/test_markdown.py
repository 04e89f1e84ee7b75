"""The Markdown form of a session: readable, complete for the active branch, and safe from its own fences."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions.entry import Text, ToolCall, ToolResult
from atomic_sessions.markdown import fenced, render_markdown
from documents import KINDS, chain, deep, document, node


def test_whole_text() -> None:
    """Header, a heading for each message, call and result in fences."""
    header = (
        '---\ntitle: "A session"\nagent: "atomic"\nsession: "11111111-2222-4333-8444-555555555555"\n'
        'started: "2026-11-30T12:00:00Z"\nfolder: "~/work/parser"\nmodels: ["claude-x"]\n'
        'messages: {"user": 0, "assistant": 1, "tool calls": 1}\n---'
    )
    assert render_markdown(KINDS["tool"]) == "\n\n".join(
        [
            header,
            "# A session",
            "## Assistant · 12:00:00",
            "running",
            "**Tool call: bash**",
            "```sh\n# run the tests\npytest -q\n```",
            "Result:",
            "```\n" + "\n".join(f"line {n}" for n in range(1, 31)) + "\n```\n",
        ]
    )


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind(name: str) -> None:
    """Every kind of entry can be written, can be encoded, and is the same again."""
    text = render_markdown(KINDS[name])
    text.encode("utf-8")
    assert text == render_markdown(KINDS[name])
    assert text.endswith("\n")


def test_only_the_active_branch() -> None:
    """Other branches are left out."""
    text = render_markdown(KINDS["branches"])
    assert "the other way" in text
    assert "left behind" not in text


@settings(deadline=None)
@given(st.text(alphabet="`~a\n ", max_size=60))
def test_fence_is_longer_than_any_inside(text: str) -> None:
    """Whatever stands in a code block, its fence closes it and nothing before does."""
    first, *body, last = fenced(text, "sh").split("\n")
    fence = first.removesuffix("sh")
    assert last == fence
    assert not any(row.strip().startswith(fence) for row in body)


@settings(deadline=None)
@given(st.text(alphabet="`~ab\n ", max_size=60))
def test_open_fence_of_a_message_is_closed(text: str) -> None:
    """A message that leaves a code block open cannot swallow the next one."""
    doc = document(
        *chain(node("u1", None, Text(text + "x")), node("a1", None, Text("NEXT"), role="assistant"))
    )
    fence = ""
    for row in render_markdown(doc).split("\n"):
        if row == "NEXT":
            assert fence == ""
        mark = re.match(r" {0,3}(`{3,}|~{3,})([^`]*)$", row)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""


def test_failed_and_unreadable_calls() -> None:
    """A failed call says so; arguments that are no JSON stand as they are."""
    text = render_markdown(
        document(
            *chain(
                node("a1", None, ToolCall("c1", "x", '{"a":'), role="assistant"),
                node("r1", None, ToolResult("c1", "x", (Text("no"),), is_error=True), role="tool"),
            )
        )
    )
    assert '```\n{"a":\n```' in text
    assert "Failed:\n\n```\nno\n```" in text


def test_deep_sessions() -> None:
    """100,000 entries one below the other are no problem."""
    assert render_markdown(deep(100_000)).count("\n## ") == 100_000
