"""`atomic logout`: leave the account on this machine."""

import argparse

from atomic_agent.account.login import leave
from atomic_agent.cache import outbox
from atomic_agent.cli.terminal import confirm
from atomic_agent.locations import home
from atomic_agent.stores.journal import open_journal
from atomic_agent.sync.identity import membership


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(options: argparse.Namespace) -> int:
    with open_journal(home()) as journal:
        membership(journal)
        waiting = outbox.count(journal.cache) + outbox.unsealed_count(journal.cache)
        left = f" {waiting} records or entries were not synced and stay here only." if waiting else ""
        confirm(f"Leave the account on this machine? Its sessions stay in the cache.{left}", yes=options.yes)
        leave(journal)
        print("Logged out. The account still lists this machine; its keys here are gone.")
    return 0
