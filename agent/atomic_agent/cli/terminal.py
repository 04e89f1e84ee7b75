"""What commands print with: plain tables, ages, progress on stderr, confirmation. No session logic."""

import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from atomic_sessions.errors import ConfirmationError
from atomic_sessions.formats.lines import plain

_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_UNSHOWN = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ud800-\udfff]")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def safe(text: str) -> str:
    """Text that cannot drive the terminal: no escapes, control characters or direction marks."""
    return _BIDI.sub("", _CONTROL.sub("", text)).encode("utf-8", "replace").decode()


def one_line(text: str) -> str:
    return " ".join(safe(text).split())


def say(text: str) -> None:
    """A line of talk, on stderr."""
    print(text, file=sys.stderr)


def emit_json(value: object) -> None:
    """One JSON value on a line of stdout. What drives a terminal, and half characters as of paths that
    are no UTF-8, stay escaped."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    sys.stdout.write(_UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def width(text: str) -> int:
    """Columns a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def clip(text: str, columns: int) -> str:
    """Text cut to at most this many columns."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def clip_start(text: str, columns: int) -> str:
    """Text cut to at most this many columns, its end kept: the end of a path says more."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[1:]
    return "…" + text


def table(rows: Sequence[Sequence[str]], *, flexible: int) -> None:
    """Aligned columns on stdout; the flexible one takes what the terminal has left."""
    if not rows:
        return
    columns = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    if sys.stdout.isatty():
        total = shutil.get_terminal_size((100, 24)).columns
        rest = total - sum(c for i, c in enumerate(columns) if i != flexible) - 2 * (len(columns) - 1)
        columns[flexible] = min(columns[flexible], max(16, rest))
    for row in rows:
        cells = [clip(cell, columns[i]) for i, cell in enumerate(row)]
        print("  ".join(c + " " * (columns[i] - width(c)) for i, c in enumerate(cells)).rstrip())


def age(millis: int, now: int) -> str:
    """How long ago, in the shortest form."""
    seconds = max(0, now - millis) // 1000
    for limit, size, unit in (
        (60, 1, "now"),
        (3600, 60, "m"),
        (86_400, 3600, "h"),
        (604_800, 86_400, "d"),
        (2_592_000, 604_800, "w"),
        (31_536_000, 2_592_000, "mo"),
    ):
        if seconds < limit:
            return unit if unit == "now" else f"{seconds // size}{unit}"
    return f"{seconds // 31_536_000}y"


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def here() -> str:
    """The working directory as text that can be kept: of a name that is no UTF-8 only what can be read."""
    return plain(str(Path.cwd()))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Progress:
    """A line on stderr that rewrites itself, only on a terminal and only when work takes long."""

    def __init__(self) -> None:
        self._shown = False
        self._next = time.monotonic() + 0.5
        self._on = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, text: str) -> None:
        at = time.monotonic()
        if self._on and at >= self._next:
            self._next = at + 0.1
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            self._shown = False


def confirm(question: str, *, yes: bool) -> None:
    """Ask for a yes on the terminal; ConfirmationError without one."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfirmationError(f"{question} There is no terminal to ask.", "Give --yes to agree.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfirmationError("Nothing was done.")


def read_secret_argument(value: str, what: str) -> str:
    """A value, or standard input for `-`; secrets belong there, not in argv (A6)."""
    text = (from_stdin(what) if value == "-" else value).strip()
    if not text:
        raise ConfirmationError(
            f"No {what} was given.", "Pass it on standard input: printf %s … | atomic … -"
        )
    return text


def from_stdin(what: str) -> str:
    """What `-` stands for: one line at a terminal, which is asked for, else all of standard input."""
    if sys.stdin.isatty():
        sys.stderr.write(f"Paste the {what}, then press Enter: ")
        sys.stderr.flush()
        return sys.stdin.readline()
    return sys.stdin.read()


def welcome(made_key: str) -> None:
    """Said once, with the first key (D2); `made_key` is what holds it, empty when none was made."""
    if made_key:
        say(f"A key for this machine's cache was made ({made_key}).")
        say("Keep a recovery kit for the day it is lost: atomic recovery save FILE")


def lines(texts: Iterable[str]) -> None:
    for text in texts:
        print(text)
