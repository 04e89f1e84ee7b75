"""`atomic devices`: list the account's machines, add one, approve one."""

import argparse
import base64
import json
import subprocess
import sys

from atomic_agent.account import pairing
from atomic_agent.cli.terminal import age, confirm, emit_json, now_ms, one_line, say, table
from atomic_agent.locations import home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_agent.sync.identity import connect, membership, names, trusted_ledger
from atomic_sessions.clock import iso
from atomic_sessions.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "add", "approve"], default="list")
    parser.add_argument(
        "words", nargs="*", metavar="WORDS", help="for approve: the four words (`-`: from stdin)"
    )
    parser.add_argument("--yes", action="store_true", help="for approve: do not ask again")
    parser.add_argument("--json", action="store_true", help="one JSON object a machine")


def run(options: argparse.Namespace) -> int:
    with open_journal(home()) as journal:
        membership(journal)
        if options.action == "add":
            return _add(journal)
        if options.action == "approve":
            return _approve(journal, options)
        return _list(journal, options)


def _list(journal: Journal, options: argparse.Namespace) -> int:
    mine = membership(journal)
    with connect(journal, now_ms) as client:
        trusted = trusted_ledger(journal, client)
    called = names(trusted, mine)
    now = now_ms()
    rows = []
    for member in sorted(trusted.members.values(), key=lambda m: m.added):
        state = (
            "removed"
            if member.removed is not None
            else "this machine"
            if member.device == mine.device.id
            else ""
        )
        if options.json:
            emit_json(
                {
                    "name": called[member.device],
                    "role": member.role,
                    "id": member.device.hex(),
                    "added_at": iso(member.at),
                    "state": state or "active",
                }
            )
        rows.append([one_line(called[member.device]), member.role, f"added {age(member.at, now)}", state])
    if not options.json:
        table(rows, flexible=0)
    return 0


def _add(journal: Journal) -> int:
    text, reveal = pairing.offer(journal, now_ms())
    secret = pairing.secret_of(text)
    request = {
        "url": membership(journal).url,
        "mailbox": pairing.mailbox_of(secret).hex(),
        "reveal": base64.b64encode(reveal).decode(),
        "seen": str(journal.home.pairing / pairing.mailbox_of(secret).hex()),
    }
    # It answers the other machine's first message; nothing it holds can be read without the string.
    helper = subprocess.Popen(
        # -P: never a module of the folder one happens to stand in.
        [sys.executable, "-P", "-m", "atomic_agent.account.responder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert helper.stdin is not None
    helper.stdin.write(json.dumps(request).encode() + b"\n")
    helper.stdin.close()
    # The helper outlives this command on purpose.
    helper.returncode = 0
    print(text, flush=True)
    say("On the new machine within 10 minutes: atomic login URL --join -   (and paste the line above)")
    say("It shows four words. Then here: atomic devices approve WORDS")
    return 0


def _approve(journal: Journal, options: argparse.Namespace) -> int:
    typed = sys.stdin.read() if options.words == ["-"] else " ".join(options.words)
    if not typed.strip():
        raise UsageError(
            "Type the words the new machine shows.", "atomic devices approve WORD WORD WORD WORD"
        )
    confirm("Let the machine that shows these words read all sessions of this account?", yes=options.yes)
    print(f"'{one_line(pairing.approve(journal, typed, now_ms()))}' is in the account now.")
    return 0
