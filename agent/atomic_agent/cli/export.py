"""`atomic export`: a session to a file."""

import argparse
import sys
from pathlib import Path

from atomic_agent.cache import sessions
from atomic_agent.cli.terminal import megabytes, say
from atomic_agent.locations import home
from atomic_agent.projects import project_of
from atomic_agent.stores.journal import open_journal
from atomic_sessions.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("file", type=Path, metavar="FILE", help=".html, .jsonl or .md; `-`: to stdout")
    parser.add_argument(
        "--as", dest="form", choices=["html", "jsonl", "md"], help="the form, when FILE is `-`"
    )
    parser.add_argument("--branch", action="store_true", help="only the open branch")
    parser.add_argument("--redact", action="store_true", help="without secrets and home paths")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def run(options: argparse.Namespace) -> int:
    from atomic_agent.publish import exporting

    with open_journal(home()) as journal:
        row = sessions.find(journal.cache, options.id, project_of(str(Path.cwd())))
        if str(options.file) == "-":
            form = options.form
            if form is None:
                raise UsageError("`-` does not say what to write.", "Add --as html, --as jsonl or --as md.")
            rendering = exporting.Rendering(
                journal.cache, row, form, branch=options.branch, redact=options.redact
            )
            for piece in rendering.pieces():
                sys.stdout.buffer.write(piece)
            report = rendering.report
        else:
            size, report = exporting.export(
                journal.cache,
                row,
                options.file,
                branch=options.branch,
                redact=options.redact,
                replace=options.force,
            )
            print(f"{options.file} ({megabytes(size)})")
    if report is not None:
        say("Redacted: " + "; ".join(report.summary_lines()))
    else:
        say(
            "The file holds everything the session holds, secrets too. To pass it on: --redact, or atomic share"
        )
    return 0
