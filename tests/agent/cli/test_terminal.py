"""Nothing a session says drives the terminal, and columns stay columns."""

import io
import json
import os
import re
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.capture.files import claude, pi, pi_header, text_of
from agent.cli.machine import Machine
from atomic_agent.cli import terminal
from atomic_agent.cli.terminal import age, clip, confirm, emit_json, megabytes, one_line, safe, table, width
from atomic_sessions.errors import ConfirmationError

HOSTILE = st.text(max_size=60) | st.text(
    alphabet="\x1b[]0;3mPX^_\\\x07\x9b\x9d\x00\x7f\r\n\t\u202e\u2066\u200f\u061c\u2028\ud83dab", max_size=40
)
BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


def _is_harmless(text: str) -> bool:
    return not any((unicodedata.category(c) in {"Cc", "Cs"} and c not in "\t\n") or c in BIDI for c in text)


@given(HOSTILE)
def test_safe_text_drives_nothing(text: str) -> None:
    """No control character but tab and newline, no direction mark, nothing that cannot be encoded."""
    shown = safe(text)
    assert _is_harmless(shown)
    shown.encode()
    assert safe(shown) == shown


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cf"]), max_size=60))
def test_harmless_text_is_untouched(text: str) -> None:
    """Everything else is shown as it is."""
    assert safe(text) == text


@given(HOSTILE)
def test_one_line_is_one(text: str) -> None:
    """However a text breaks its lines, it takes one."""
    shown = one_line(text)
    assert len(shown.splitlines()) <= 1
    assert _is_harmless(shown)
    assert "\t" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J\x1b[1;1Hgone",
        "\x1b]0;title\x07x",
        "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
        "\x1bP1;2|payload\x1b\\",
        "\x9b31mred",
        "a\rb",
        "\x1b[?1049h",
        "\x1b]52;c;aGk=\x07",
    ],
)
def test_sequences_that_are_known_to_hurt(text: str) -> None:
    """Clearing the screen, titles, links, clipboard writes, device strings, C1 forms."""
    assert _is_harmless(safe(text))
    assert "\x1b" not in safe(text)


@given(HOSTILE, st.integers(2, 40))
def test_clipped_text_fits(text: str, columns: int) -> None:
    """Never wider than asked, wide characters counted twice; what fits is not cut."""
    shown = clip(one_line(text), columns)
    assert width(shown) <= columns
    if width(one_line(text)) <= columns:
        assert shown == one_line(text)


def test_widths() -> None:
    """Combining marks take no column, East Asian characters two."""
    assert [width(t) for t in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]
    assert clip("日本語", 5) == "日本…"


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns line up by width; no row ends in blanks; no rows print nothing."""
    table([["日", "x"], ["abc", ""]], flexible=1)
    table([], flexible=0)
    assert capsys.readouterr().out == "日   x\nabc\n"


@given(st.integers(0, 2**45), st.integers(0, 2**45))
def test_ages_are_short(then: int, now: int) -> None:
    """Two to five characters, the future reads as now."""
    assert re.fullmatch(r"now|\d{1,4}(m|h|d|w|mo|y)", age(then, now))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (59, "now"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (86_399, "23h"),
        (86_400, "1d"),
        (604_800, "1w"),
        (2_592_000, "1mo"),
        (31_536_000, "1y"),
        (-5, "now"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    """The steps from one unit to the next."""
    assert age(10**12, 10**12 + seconds * 1000) == text


def test_sizes() -> None:
    """Small ones in kB."""
    assert [megabytes(n) for n in (0, 99_999, 100_000, 61_500_000)] == [
        "0.0 kB",
        "100.0 kB",
        "0.1 MB",
        "61.5 MB",
    ]


def test_json_is_one_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it holds: half characters are escaped, not a crash, and it parses again."""
    value = {"a\n": "b\nc\u2028", "half": "\ud83d", "path": os.fsdecode(b"\xff"), "evil": EVIL, "é": 1.5}
    emit_json(value)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "é" in out
    out.encode()
    assert _is_harmless(out)
    assert json.loads(out) == value


@pytest.mark.parametrize("typed", ["", "\n", "n\n", "no\n", "yess\n", "j\n"])
def test_anything_but_yes_is_no(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    """Confirmations are given in full."""
    monkeypatch.setattr(sys, "stdin", _Terminal(typed))
    with pytest.raises(ConfirmationError, match="Nothing was done"):
        confirm("Sure?", yes=False)


@pytest.mark.parametrize("typed", ["y\n", "YES\n", " yes \n", "y"])
def test_yes(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    """In any case, with blanks around it."""
    monkeypatch.setattr(sys, "stdin", _Terminal(typed))
    confirm("Sure?", yes=False)


def test_no_terminal_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then only --yes agrees; a y on a pipe does not."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(ConfirmationError, match="no terminal"):
        confirm("Sure?", yes=False)
    confirm("Sure?", yes=True)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on a pipe or a dumb terminal, nothing in the first half second, and it is wiped at the end."""
    progress = terminal.Progress()
    progress.show("quiet")
    assert capsys.readouterr().err == ""
    screen = _Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("TERM", raising=False)
    clock = iter([0.0, 0.1, 0.6, 0.61, 5.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    progress = terminal.Progress()
    for text in ("early", "shown", "too soon", "again"):
        progress.show(text)
    progress.clear()
    assert [t for t in re.split(r"\r\x1b\[K", screen.getvalue()) if t] == ["shown", "again"]


EVIL = "\x1b[31m\x1b]0;owned\x07Evil\u202e\r\nname\x9b2J"


def test_evil_sessions_print_safely(machine: Machine) -> None:
    """Names, ids, titles, messages, folders and file names full of escapes leave every command harmless."""
    (machine.files / "evil\x1b[31m\r.jsonl").write_bytes(text_of([claude(0, EVIL, cwd=f"/{EVIL}")]))
    (machine.files / "bad\x1b]0;x\x07.jsonl").write_bytes(b"nonsense\n")
    (machine.files / os.fsdecode(b"bad\xff.jsonl")).write_bytes(b"nonsense\n")
    header = pi_header(id=f"id{EVIL}", cwd=f"/{EVIL}")
    named = {"type": "session_info", "id": f"n{EVIL}", "parentId": None, "name": EVIL}
    (machine.files / "pi.jsonl").write_bytes(text_of([header, pi(0, EVIL), named]))
    for words in (
        ("capture", "--from", str(machine.files)),
        ("sessions", "--all"),
        ("sessions", "--all", "--internal"),
        ("sessions", "--search", "evil"),
        ("sessions",),
        ("status",),
        ("sessions", "delete", f"id{EVIL}"),
        ("sessions", "delete", EVIL),
        ("sessions", "delete", f"id{EVIL}", "--yes"),
    ):
        said = machine.atomic(*words)
        assert _is_harmless(said.out), (words, said.out)
        assert _is_harmless(said.err), (words, said.err)
    assert "Evil" in machine.atomic("sessions", "--all").out


def test_two_evil_sessions_of_one_name(machine: Machine) -> None:
    """The list of what an id fits is harmless too."""
    for folder in ("a", "b"):
        (machine.files / f"{folder}.jsonl").write_bytes(
            text_of([pi_header(id=f"id{EVIL}", cwd=f"/{folder}"), pi(0, "q")])
        )
    machine.atomic("capture", "--from", str(machine.files))
    said = machine.atomic("sessions", "delete", f"id{EVIL}", "--yes")
    assert said.code == 7
    assert _is_harmless(said.err)
