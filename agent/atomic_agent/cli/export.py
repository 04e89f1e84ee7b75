"""`atomic export`: a session to a file."""

import argparse
import sys
from pathlib import Path

from atomic_agent.cli.storage import launched
from atomic_agent.cli.terminal import here, megabytes, say
from atomic_agent.cli.trust import store_arguments
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
    store_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from atomic_agent.publish import exporting

    with launched(options) as launch:
        store = launch.store
        row = store.find(options.id, store.project_of(here()))
        if str(options.file) == "-":
            form = options.form
            if form is None:
                raise UsageError("`-` does not say what to write.", "Add --as html, --as jsonl or --as md.")
            rendering = exporting.Rendering(store, row, form, branch=options.branch, redact=options.redact)
            for piece in rendering.pieces():
                sys.stdout.buffer.write(piece)
            report = rendering.report
        else:
            size, report = exporting.export(
                store,
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
