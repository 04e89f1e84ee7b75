"""`atomic login`: make an account with an invite, or join one from another machine."""

import argparse

from atomic_agent.account import login, pairing
from atomic_agent.cli.terminal import now_ms, read_secret_argument, safe, say, welcome
from atomic_agent.locations import home
from atomic_agent.stores.journal import open_journal
from atomic_agent.sync.run import synchronise
from atomic_sessions.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the service's address")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--invite", metavar="CODE", help="make a new account with this invite (`-`: from stdin)")
    how.add_argument(
        "--join", metavar="STRING", help="join with the string of `atomic devices add` (`-`: from stdin)"
    )
    parser.add_argument("--name", default=None, help="what this machine is called in the account")


def run(options: argparse.Namespace) -> int:
    if options.invite is None and options.join is None:
        raise UsageError(
            "Say how to log in: --invite - for a new account, --join - to join yours.",
            "An invite comes from the service's operator; the string from `atomic devices add` on another machine.",
        )
    name = safe(options.name or login.machine_name())
    with open_journal(home()) as journal:
        welcome(journal.new_key)
        login.check_free(journal)
        if options.invite is not None:
            login.create_account(journal, options.url, read_secret_argument(options.invite, "invite"), name)
            print(f"A new account at {options.url}; this machine is '{name}'.")
            say(
                "Keep a recovery kit of this account: atomic recovery save FILE. Add a machine: atomic devices add"
            )
        else:
            text = read_secret_argument(options.join, "pairing string")
            pairing.join(journal, options.url, text, name, _show, now_ms)
            print(f"Joined as '{name}'.", flush=True)
        done = synchronise(journal)
        print(f"Synced: {done.sent} records sent, {done.entries} entries fetched.")
    return 0


def _show(words: str) -> None:
    print(f"Words: {words}", flush=True)
    say("Type them on the machine that made the string: atomic devices approve WORDS")
