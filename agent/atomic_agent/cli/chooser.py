"""The plain numbered chooser of `-r`: lists a page of sessions, reads a number or words to search for. Opens nothing.

It needs a terminal but no screen, so it works over any line.
"""

import itertools
import sys
from collections.abc import Iterator

from atomic_agent.cli.terminal import Progress, age, clip, now_ms, one_line, say, width
from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_sessions.errors import UsageError

PAGE = 15
LABEL_COLUMNS = 60
EVERY = 1 << 31


def pick(store: Store, project: str, folder: str) -> Row | None:
    """The session a person chooses, of this project; None when they leave."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "-r asks which session, and there is nobody to ask.", "Name it: atomic --session ID, or use -c."
        )
    found = store.listed(project=project, folder=folder)
    shown = _page(store, found, 0)
    if not shown:
        say("There is no session of this project yet.")
        return None
    rows = shown
    while True:
        reply = _asked(more=len(shown) == PAGE)
        if not reply:
            return None
        if reply.isdecimal() and 1 <= int(reply) <= len(rows):
            return rows[int(reply) - 1]
        if reply == "+":
            shown = _page(store, found, len(rows))
            rows += shown
        elif reply.isdecimal():
            say(f"There is no number {reply[:9]} in the list.")
        else:
            hits = (hit.row for hit in store.search(reply, limit=EVERY))
            found = (row for row in hits if not row.facts.internal and _is_near(row, project, folder))
            rows = shown = _page(store, found, 0)
            if not rows:
                say("No session of this project matches.")
                found = store.listed(project=project, folder=folder)
                rows = shown = _page(store, found, 0)


def _is_near(row: Row, project: str, folder: str) -> bool:
    return row.facts.project == project or bool(folder and row.facts.cwd == folder)


def _page(store: Store, found: Iterator[Row], before: int) -> list[Row]:
    """The next rows of a list, numbered on from those shown `before`."""
    progress = Progress()
    progress.show("Looking for sessions …")
    rows = list(itertools.islice(found, PAGE))
    progress.clear()
    now = now_ms()
    called = store.called(rows)
    columns = max((width(name) for name in called), default=0)
    for number, (row, name) in enumerate(zip(rows, called, strict=True), before + 1):
        label = clip(one_line(row.label), LABEL_COLUMNS)
        pad = " " * (columns - width(name))
        count = f"{row.messages}{'+' if row.partial else ''}"
        say(f"{number:3}  {one_line(name)}{pad}  {age(row.newest_at, now):>4}  {count:>5}  {label}")
    return rows


def _asked(*, more: bool) -> str:
    sys.stderr.write(f"Number{', + for more' if more else ''}, words to search for, or Enter to leave: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip()
