"""Damaged session files of every format: read, shown and kept, or refused in one sentence; never a crash."""

import random
import resource

import pytest

from atomic_sessions import document, tree
from atomic_sessions.context import build as build_context
from atomic_sessions.entry import Facts, Node, View
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.detect import detect
from atomic_sessions.formats.lines import split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import read_header, upgrade
from atomic_sessions.html.render import render_page
from atomic_sessions.redact import redact_entries
from fuzz.cases import share
from fuzz.corpus import LINES
from fuzz.mutations import cases

NOW = 1_796_040_000_000
GROWTH = 128 * 1024 * 1024


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(view: View, name: str) -> None:
    """What every view promises to those who show it."""
    texts = [view.kind, view.text, view.id or "", view.parent or "", view.model, view.cwd, view.spoken()]
    for text in texts:
        assert isinstance(text, str), name
        text.encode()
    assert view.at is None or 0 <= view.at < 1 << 63, name


@pytest.mark.parametrize("agent", LINES)
def test_lines(agent: str) -> None:
    """Any line is a view, whatever was done to it, and memory stays where it was."""
    view = viewer(agent)
    before = peak()
    for name, raw in cases(LINES[agent], share(12), seed=1):
        for piece in raw.split(b"\n"):
            check(view(piece), name)
    assert peak() - before < GROWTH


@pytest.mark.parametrize("agent", LINES)
def test_a_line_read_as_another_agents(agent: str) -> None:
    """A file that lies about its agent is no worse."""
    others = [viewer(other) for other in LINES if other != agent]
    for name, raw in cases(LINES[agent], share(1), seed=2):
        for view in others:
            check(view(raw), name)


@pytest.mark.parametrize("agent", LINES)
def test_files(agent: str) -> None:
    """A file of damaged lines is scanned into a tree that can be listed, sent to a model and drawn."""
    for number in range(share(0.25)):
        name = f"file {number}"
        draw = random.Random(number)
        picked = [draw.choice(LINES[agent]) for _ in range(draw.randrange(1, 12))]
        made = [raw for _, raw in cases(picked, draw.randrange(1, 12), seed=number)]
        content = b"\n".join([*picked[:2], *made]) + (b"\n" if draw.random() < 0.7 else b"")
        lines = [line.raw for line in split([content[:700], content[700:]])]
        assert b"\n".join(lines) == content.removesuffix(b"\n"), name
        detect(lines)
        scanner = Scanner(agent, ScanState(), now=NOW, stamp_of=lambda _: 0)
        scanned = [scanner.read(raw) for raw in lines]
        entries = [entry for entry, _ in scanned]
        assert [entry.raw for entry in entries] == lines, name
        nodes = [
            Node(entry.id, entry.parent, entry.stamp, view) for entry, view in scanned if not entry.loose
        ]
        for one in nodes:
            check(one.view, name)
        built = tree.build(nodes)
        opened = tree.leaf(built, {})
        path = tree.path(built, opened)
        build_context(path, [node for node in nodes if node not in path], "next", provider="anthropic")
        page = document.read(Facts(agent, "s", "", "/p", "", 0), "", opened, entries)
        render_page(page).encode()
        redact_entries(entries, home=("/home/dev",), users=("dev",))


@pytest.mark.parametrize("agent", ["pi", "atomic"])
def test_upgrades(agent: str) -> None:
    """A damaged old file is upgraded or refused by name."""
    for _, raw in cases(LINES[agent], share(4), seed=3):
        lines = raw.split(b"\n")
        try:
            header = read_header(lines[0])
        except BadSessionFileError:
            continue
        list(upgrade(header, [*lines[1:], *LINES[agent][3:6]]))
