"""`atomic capture`: bring in what other agents wrote; --watch goes on doing so."""

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import msgspec

from atomic_agent.capture import run as capturing
from atomic_agent.capture.sources import AGENTS
from atomic_agent.cli.terminal import Progress, emit_json, megabytes, now_ms, one_line, say, welcome
from atomic_agent.locations import home
from atomic_agent.stores.journal import open_journal

SHOWN = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"only these: {', '.join(AGENTS)}")
    parser.add_argument(
        "--from", dest="folder", type=Path, metavar="DIR", help="look here, for any agent's files"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on until interrupted: what an agent writes is taken in about a second later, one line is printed"
        " for each session that grew, errors are told once; needs no service and costs next to nothing while"
        " nobody writes",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object; with --watch one a change")


def run(options: argparse.Namespace) -> int:
    if options.watch:
        return _watch(options)
    found = capturing.gather(options.agents, options.folder)
    progress = Progress()
    with open_journal(home()) as journal:
        welcome(journal.new_key)
        report = capturing.capture(
            journal.cache,
            found,
            only=options.agents,
            now=now_ms(),
            progress=lambda done, of, size: progress.show(f"{done}/{of} files, {megabytes(size)}"),
        )
    progress.clear()
    if options.json:
        emit_json(
            {
                **{k: v for k, v in msgspec.structs.asdict(report).items() if k != "skipped"},
                "skipped": [{"path": str(s.path), "why": s.why} for s in report.skipped],
                "lacking": [msgspec.structs.asdict(one) for one in report.lacking],
            }
        )
        return 0
    _print(report, options)
    return 0


def _watch(options: argparse.Namespace) -> int:
    """Follow the files until Ctrl-C or SIGTERM; both end well."""
    from atomic_agent.capture import watch as watching

    def tell(change: watching.Change) -> None:
        if options.json:
            emit_json(msgspec.structs.asdict(change))
            sys.stdout.flush()
            return
        kind = "new session, " if change.new else ""
        note = "; the file was rewritten, what it held before is kept" if change.rewritten else ""
        entries = f"{change.entries} entr{'y' if change.entries == 1 else 'ies'}"
        print(f"{change.agent} {one_line(change.session)}: {kind}{entries}{note}", flush=True)

    where = watching.places(options.agents, options.folder)
    signal.signal(signal.SIGTERM, _stop)
    try:
        with open_journal(home()) as journal, watching.alone(journal):
            welcome(journal.new_key)
            say("Watching; stop with Ctrl-C.")
            watching.watch(
                journal.cache,
                where,
                options.agents,
                threading.Event().wait,
                tell,
                lambda text: say(one_line(text)),
            )
    except KeyboardInterrupt:
        say("Stopped.")
    return 0


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print(report: capturing.Report, options: argparse.Namespace) -> None:
    if not report.files:
        where = options.folder or "the usual places"
        print(f"No sessions were found in {where}.")
        return
    agents = ", ".join(f"{count} {name}" for name, count in sorted(report.agents.items()))
    print(
        f"{report.new} new, {report.updated} updated, {report.unchanged} unchanged"
        + (f" ({agents})" if agents else "")
        + f"; {report.entries} entries, {megabytes(report.bytes)} read."
    )
    if report.damaged:
        print(f"{report.damaged} damaged lines are kept as they are and not shown.")
    if report.held_back:
        print(f"{report.held_back} files end in an unfinished line; it is read when it is whole.")
    if report.rewritten:
        print(f"{report.rewritten} files were rewritten by their agent; what they held before is kept.")
    for one in report.lacking[:SHOWN]:
        print(
            f"Session {one_line(one.session)} is a fork; what was said before it is in {one_line(one.parent)}, which is"
            " not here. It is put in as soon as that session is captured."
        )
    if report.deleted:
        print(f"{report.deleted} files belong to sessions that were deleted; they stay deleted.")
    if report.skipped:
        print(f"{len(report.skipped)} files were skipped:")
        for skipped in report.skipped[:SHOWN]:
            print(f"  {one_line(str(skipped.path))}: {one_line(skipped.why)}")
        if len(report.skipped) > SHOWN:
            say(f"  … and {len(report.skipped) - SHOWN} more (see --json)")
