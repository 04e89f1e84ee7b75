"""`atomic sessions`: list and search; rename, delete, fork, clone and info are `session_actions`."""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from atomic_agent.cli.storage import Launch, launched
from atomic_agent.cli.terminal import age, clip_start, emit_json, here, now_ms, one_line, say, table
from atomic_agent.cli.trust import store_arguments
from atomic_agent.projects import display
from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_sessions.clock import iso
from atomic_sessions.errors import UsageError
from atomic_sessions.formats.lines import plain

PLACE_COLUMNS = 28
PAGE = 500
"""Rows whose columns are made to fit each other; the first stand there before the last are read."""
Found = tuple[Row, str, str]
"""A session, and of a search the snippet and the entry it was found in."""


class Listed(Struct):
    """One session as `--json` prints it; stable."""

    id: str
    name: str
    first_message: str
    summary: str
    agent: str
    cwd: str
    project: str
    messages: int
    created_at: str
    newest_at: str
    machines: list[str]
    title: str
    parent: str
    internal: bool
    snippet: str = ""
    entry: str = ""
    partial: bool = False
    file: str = ""
    copies: int = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = ["list", "info", "rename", "delete", "fork", "clone"]
    parser.add_argument("action", nargs="?", choices=actions, default="list", metavar="|".join(actions))
    parser.add_argument("words", nargs="*", metavar="ID", help="the session; rename: and its new name")
    parser.add_argument("--all", action="store_true", help="of every project, not only this folder's")
    parser.add_argument("--internal", action="store_true", help="sub-agents' and workflow sessions too")
    parser.add_argument("--search", metavar="Q", help="full text, over all projects")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="at most this many")
    parser.add_argument("--at", type=plain, metavar="ENTRY", help="fork: begin before this message of yours")
    parser.add_argument("--messages", action="store_true", help="info: what you said, with entry ids")
    parser.add_argument("--json", action="store_true", help="one JSON object a session")
    parser.add_argument("--yes", action="store_true", help="delete: do not ask")
    store_arguments(parser)


def run(options: argparse.Namespace) -> int:
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit needs a number of at least 1.")
    if options.at is not None and options.action != "fork":
        raise UsageError("--at says where a fork begins.", "Use it with: atomic sessions fork ID --at ENTRY")
    with launched(options) as launch:
        if options.action != "list":
            from atomic_agent.cli import session_actions

            return session_actions.run(launch, options)
        if options.words:
            raise UsageError(
                "A list takes no session.", "One session: atomic sessions info ID, or atomic show ID"
            )
        return _list(launch, options)


def _list(launch: Launch, options: argparse.Namespace) -> int:
    store = launch.store
    project = store.project_of(here())
    found = _found(store, project, options)
    if options.json:
        for row, snippet, entry in found:
            emit_json(listed(launch, row, snippet, entry))
        return 0
    page = list(itertools.islice(found, PAGE))
    if not page:
        _print_none(launch, project, options)
    while page:
        _print(store, page, options)
        page = list(itertools.islice(found, PAGE))
    return 0


def _found(store: Store, project: str, options: argparse.Namespace) -> Iterator[Found]:
    """What is asked for, one at a time: there may be very many."""
    if options.search is not None:
        for hit in store.search(options.search, limit=options.limit or 50):
            yield hit.row, hit.snippet, hit.entry
        return
    everywhere = options.all or options.json
    for row in store.listed(
        project=None if everywhere else project,
        folder=here(),
        internal=options.internal,
        limit=options.limit or -1,
    ):
        yield row, "", ""


def listed(launch: Launch, row: Row, snippet: str = "", entry: str = "") -> Listed:
    """A row as scripts get it."""
    facts = row.facts
    return Listed(
        facts.id,
        row.name,
        row.first_message,
        row.summary,
        facts.agent,
        facts.cwd,
        facts.project,
        row.messages,
        iso(facts.created_at),
        iso(row.newest_at),
        _machines(launch, row),
        row.title,
        facts.parent,
        facts.internal,
        snippet,
        entry,
        row.partial,
        row.place,
        row.copies,
    )


def _machines(launch: Launch, row: Row) -> list[str]:
    """Which machines wrote parts of it; elsewhere than in the default store only this one does."""
    if launch.journal is None or row.place:
        return []
    from atomic_agent.cache import sessions
    from atomic_agent.cache.machines import machines_of

    found = sessions.by_key(launch.journal.cache, row.key)
    return machines_of(launch.journal.cache, found) if found is not None else []


def _print_none(launch: Launch, project: str, options: argparse.Namespace) -> None:
    if options.search is not None:
        print("No session matches.")
    else:
        print(f"No sessions of {one_line(display(project, Path.cwd().name))} here yet.")
        own = ". Bring some in: atomic capture, atomic sync" if launch.journal is not None else ""
        say(f"See all projects: --all{own}")


def _print(store: Store, found: list[Found], options: argparse.Namespace) -> None:
    now = now_ms()
    called = store.called([row for row, _, _ in found])
    wide = options.all or options.search is not None
    lines = []
    for (row, snippet, _), name in zip(found, called, strict=True):
        about = one_line(snippet or row.label)
        place = [clip_start(one_line(display(row.facts.project)), PLACE_COLUMNS)] if wide else []
        count = f"{row.messages}{'+' if row.partial else ''}"
        lines.append(
            [
                one_line(name) or '""',
                one_line(row.facts.agent),
                count,
                age(row.newest_at, now),
                *place,
                about,
            ]
        )
    table(lines, flexible=len(lines[0]) - 1)
