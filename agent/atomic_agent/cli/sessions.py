"""`atomic sessions`: list, search, delete."""

import argparse
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from atomic_agent.cache import sessions as rows
from atomic_agent.cache.machines import machines_of
from atomic_agent.cache.search import search
from atomic_agent.cli.terminal import age, clip_start, confirm, emit_json, now_ms, one_line, say, table
from atomic_agent.locations import home
from atomic_agent.projects import display, project_of
from atomic_agent.stores.journal import Journal, open_journal
from atomic_sessions.clock import iso
from atomic_sessions.errors import UsageError

PLACE_COLUMNS = 28
PAGE = 500
"""Rows whose columns are made to fit each other; the first stand there before the last are read."""
Found = tuple[rows.SessionRow, str, str]
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


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "delete"], default="list")
    parser.add_argument("ids", nargs="*", metavar="ID", help="for delete: the sessions' ids")
    parser.add_argument("--all", action="store_true", help="of every project, not only this folder's")
    parser.add_argument("--internal", action="store_true", help="sub-agents' and workflow sessions too")
    parser.add_argument("--search", metavar="Q", help="full text, over all projects")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="at most this many")
    parser.add_argument("--json", action="store_true", help="one JSON object a session")
    parser.add_argument("--yes", action="store_true", help="for delete: do not ask")


def run(options: argparse.Namespace) -> int:
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit needs a number of at least 1.")
    with open_journal(home()) as journal:
        if options.action == "delete":
            return _delete(journal, options)
        project = project_of(str(Path.cwd()))
        found = _found(journal, project, options)
        if options.json:
            for row, snippet, entry in found:
                emit_json(listed(journal, row, snippet, entry))
            return 0
        page = list(itertools.islice(found, PAGE))
        if not page:
            _print_none(project, options)
        while page:
            _print(journal, page, options)
            page = list(itertools.islice(found, PAGE))
    return 0


def _found(journal: Journal, project: str, options: argparse.Namespace) -> Iterator[Found]:
    """What is asked for, one at a time: there may be very many."""
    if options.search is not None:
        for hit in search(journal.cache, options.search, limit=options.limit or 50):
            yield hit.session, hit.snippet, hit.entry
        return
    everywhere = options.all or options.json
    for row in rows.listed(
        journal.cache,
        project=None if everywhere else project,
        folder=str(Path.cwd()),
        internal=options.internal,
        limit=options.limit or -1,
    ):
        yield row, "", ""


def listed(journal: Journal, row: rows.SessionRow, snippet: str = "", entry: str = "") -> Listed:
    """A row as scripts get it."""
    return Listed(
        row.id,
        row.name,
        row.first_message,
        row.summary,
        row.agent,
        row.cwd,
        row.project,
        row.messages,
        iso(row.created_at),
        iso(row.newest_at),
        machines_of(journal.cache, row),
        row.title,
        row.parent,
        row.internal,
        snippet,
        entry,
    )


def _print_none(project: str, options: argparse.Namespace) -> None:
    if options.search is not None:
        print("No session matches.")
    else:
        print(f"No sessions of {one_line(display(project, Path.cwd().name))} here yet.")
        say("See all projects: atomic sessions --all. Bring some in: atomic capture, atomic sync")


def _print(journal: Journal, found: list[Found], options: argparse.Namespace) -> None:
    now = now_ms()
    wide = options.all or options.search is not None
    lines = []
    for row, snippet, _ in found:
        about = one_line(snippet or row.label)
        place = [clip_start(one_line(display(row.project)), PLACE_COLUMNS)] if wide else []
        lines.append(
            [
                one_line(rows.called(journal.cache, row.id)),
                one_line(row.agent),
                f"{row.messages}",
                age(row.newest_at, now),
                *place,
                about,
            ]
        )
    table(lines, flexible=len(lines[0]) - 1)


def _delete(journal: Journal, options: argparse.Namespace) -> int:
    from atomic_agent.sync.delete import delete_session

    if not options.ids:
        say("Name the sessions to delete: atomic sessions delete ID…")
        return 2
    project = project_of(str(Path.cwd()))
    for wanted in options.ids:
        row = rows.find(journal.cache, wanted, project)
        confirm(
            f"Delete '{one_line(row.label)[:60]}' ({row.messages} messages) on all machines, for ever?"
            " Files of the agent that wrote it stay.",
            yes=options.yes,
        )
        delete_session(journal, row)
        later = (
            "" if journal.secrets.membership is None else " The other machines follow with their next sync."
        )
        print(f"Deleted {one_line(row.id)}.{later}")
    if journal.secrets.membership is not None:
        from atomic_agent.sync.background import sync_quietly

        sync_quietly(journal, seconds=float(os.environ.get("ATOMIC_SYNC_WAIT", "5")))
    return 0
