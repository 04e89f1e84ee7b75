"""`atomic share`: publish a session under one link."""

import argparse
import getpass
import re
import sys
from typing import TYPE_CHECKING

from atomic_agent.cli.storage import launched
from atomic_agent.cli.terminal import confirm, emit_json, here, megabytes, now_ms, one_line, say
from atomic_agent.cli.trust import store_arguments
from atomic_agent.locations import home
from atomic_agent.stores.journal import open_journal
from atomic_agent.stores.rows import Row
from atomic_agent.sync.identity import membership
from atomic_sessions.clock import iso
from atomic_sessions.errors import ConfirmationError, UsageError
from atomic_sessions.wire import DEFAULT_SHARE_SECONDS, MAX_SHARE_SECONDS

if TYPE_CHECKING:
    from atomic_agent.publish.redacting import Fit

UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--public", action="store_true", help="a plain page that the service can read")
    parser.add_argument(
        "--expires", metavar="7d", default=None, help="minutes m, hours h, days d, weeks w (7d)"
    )
    parser.add_argument(
        "--password", action="store_true", help="ask for a password that the reader needs too"
    )
    parser.add_argument("--views", type=int, metavar="N", help="a sealed link that opens N times")
    parser.add_argument("--new", action="store_true", help="a new link, not a new revision of the last one")
    parser.add_argument("--yes", action="store_true", help="do not ask after the report")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    store_arguments(parser)


def seconds_of(text: str | None) -> int:
    """A duration as people write it, in seconds; UsageError for another one."""
    if text is None:
        return DEFAULT_SHARE_SECONDS
    match = re.fullmatch(r"(\d{1,4})([mhdw])", text.strip().lower())
    seconds = int(match.group(1)) * UNITS[match.group(2)] if match else 0
    if not 60 <= seconds <= MAX_SHARE_SECONDS:
        raise UsageError(
            f"--expires {text}: that is no time between one minute and a year.", "Write it like 12h or 7d."
        )
    return seconds


def run(options: argparse.Namespace) -> int:
    from atomic_agent.publish import redacting, shares

    seconds = seconds_of(options.expires)
    if options.public and (options.password or options.views is not None):
        raise UsageError("A public page has neither password nor limited views.", "Leave out --public.")
    if options.views is not None and options.views < 1:
        raise UsageError("--views needs a number of at least 1.")
    with open_journal(home()) as journal, launched(options) as launch:
        store = launch.store
        row = store.find(options.id, store.project_of(here()))
        membership(journal)
        ready = redacting.fit(store, row, now_ms())
        _report(ready, row, public=options.public)
        confirm("Publish it?", yes=options.yes)
        password = _ask_password() if options.password else None
        made = shares.publish(
            journal,
            ready,
            kind="public" if options.public else "sealed",
            seconds=seconds,
            password=password or None,
            views=options.views,
            fresh_link=options.new,
        )
    if options.json:
        emit_json(
            {
                "link": made.link,
                "revision": made.revision,
                "expires_at": iso(made.expires_at),
                "bytes": made.size,
            }
        )
        return 0
    print(made.link)
    until = iso(made.expires_at)[:16].replace("T", " ")
    say(f"Open until {until} UTC, revision {made.revision}, {megabytes(made.size)}.")
    if not options.public:
        say("Whoever has the whole link can read it: chats, histories and link previews may keep it.")
    say("Take it back: atomic shares revoke -   (paste the link)")
    return 0


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise ConfirmationError("There is no terminal to ask for the password.", "Share from a terminal.")
    first = getpass.getpass("Password for the reader: ")
    if not first or getpass.getpass("The same again: ") != first:
        raise UsageError("The two passwords differ, or are empty.", "Try again.")
    return first


def _report(ready: "Fit", row: Row, *, public: bool) -> None:
    how = (
        "a page anyone with the link can read, and the service too"
        if public
        else "sealed, readable only with the link"
    )
    shown = sum(1 for entry in ready.bundle.entries if not entry.loose)
    say(f"'{one_line(ready.bundle.name)[:70]}': {row.messages} messages, {shown} entries, {how}.")
    if ready.left_out:
        say(f"{ready.left_out} lines are left out: system prompts, request snapshots and the like.")
    for line in ready.report.summary_lines():
        say(f"  replaced  {line}" if ready.report.findings else f"  {line}")
    say("What no rule knows stays: read it through before you pass it on (atomic show, atomic export).")
    sys.stderr.flush()
