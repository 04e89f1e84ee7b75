"""`atomic sync`: send and fetch once, or keep going with --watch."""

import argparse
import sys

import msgspec

from atomic_agent.cli.terminal import Progress, emit_json, megabytes, say
from atomic_agent.locations import home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_agent.sync.run import Synced, synchronise


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="keep capturing and syncing until interrupted")
    parser.add_argument("--json", action="store_true", help="one JSON object a sync")


def run(options: argparse.Namespace) -> int:
    with open_journal(home()) as journal:
        if options.watch:
            from atomic_agent.capture.watch import beside
            from atomic_agent.sync.watch import watch

            say("Watching; stop with Ctrl-C.")
            try:
                with beside(journal, lambda _: None, say):
                    watch(journal, lambda done: _tell(done, options), say)
            except KeyboardInterrupt:
                say("Stopped.")
            return 0
        progress = Progress()
        done = synchronise(journal, progress=progress.show)
        progress.clear()
        _tell(done, options)
        _warn(journal, done)
    return 0


def _tell(done: Synced, options: argparse.Namespace) -> None:
    if options.json:
        emit_json(msgspec.structs.asdict(done))
        sys.stdout.flush()
        return
    parts = [f"{done.sent} records sent ({megabytes(done.sent_bytes)})"] if done.sent else []
    if done.entries or done.sessions:
        parts.append(f"{done.entries} entries of {done.sessions} sessions fetched")
    if done.deleted:
        parts.append(f"{done.deleted} sessions deleted elsewhere")
    print(("; ".join(parts) or "Nothing new") + ".", flush=True)


def _warn(journal: Journal, done: Synced) -> None:
    if done.dropped:
        say(f"{done.dropped} sessions were deleted on another machine while this one still wrote to them.")
    if done.refused:
        say(f"{done.refused} records did not verify and were refused; see: atomic status")
    if done.reset:
        say("The service's log had changed; it was read from its start and what it lacked was sent again.")
