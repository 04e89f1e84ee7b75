"""`atomic shares`: list the account's links, take one back."""

import argparse

from atomic_agent.cli.terminal import emit_json, one_line, read_secret_argument, say, table
from atomic_agent.locations import home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_sessions.clock import iso
from atomic_sessions.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "revoke"], default="list")
    parser.add_argument(
        "link", nargs="?", metavar="ID|-", help="for revoke: the share's id, or `-`: link from stdin"
    )
    parser.add_argument("--links", action="store_true", help="show the links themselves")
    parser.add_argument("--json", action="store_true", help="one JSON object a share")


def run(options: argparse.Namespace) -> int:
    from atomic_agent.publish import shares

    with open_journal(home()) as journal:
        if options.action == "revoke":
            if options.link is None:
                raise UsageError(
                    "Say which share: its id, or `-` and the link on stdin.", "See: atomic shares"
                )
            print(f"Revoked {shares.revoke(journal, read_secret_argument(options.link, 'link'))}.")
            return 0
        return _list(journal, options)


def _list(journal: Journal, options: argparse.Namespace) -> int:
    from atomic_agent.publish import shares

    found = shares.listed(journal)
    rows = []
    for own in found:
        note = own.note
        if options.json:
            emit_json(
                {
                    "id": shares.name_of(own),
                    "kind": own.share.kind,
                    "state": own.share.state,
                    "session": note.session if note else None,
                    "title": note.title if note else None,
                    "revision": own.share.revision,
                    "views_left": own.share.views_left,
                    "created_at": iso(own.share.created_at),
                    "expires_at": iso(own.share.expires_at),
                    **({"link": own.url} if options.links else {}),
                }
            )
        until = f"until {iso(own.share.expires_at)[:10]}" if own.share.state == "live" else own.share.state
        rows.append(
            [
                own.url if options.links else shares.name_of(own),
                own.share.kind,
                f"r{own.share.revision}",
                until,
                one_line(note.title) if note else "(note of another key)",
            ]
        )
    if not options.json:
        if not rows:
            say("Nothing is shared. To share: atomic share ID")
        table(rows, flexible=4)
    return 0
