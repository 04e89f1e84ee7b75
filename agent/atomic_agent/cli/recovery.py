"""`atomic recovery`: save a kit, or restore from one."""

import argparse
from pathlib import Path

from atomic_agent.account import recovery
from atomic_agent.cli.terminal import now_ms, say
from atomic_agent.locations import home
from atomic_agent.stores.journal import open_journal
from atomic_agent.sync.run import synchronise


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["save", "restore"])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--key-file", type=Path, metavar="PATH", help="for restore: put the key here, not in the keyring"
    )


def run(options: argparse.Namespace) -> int:
    if options.action == "save":
        with open_journal(home()) as journal:
            recovery.save(journal, options.file, now_ms())
        print(f"The recovery kit is in {options.file}. Print it or move it off this machine.")
        return 0
    found = recovery.read(options.file)
    key = recovery.restore_local(home(), found, options.key_file)
    if key is not None:
        print(f"The key {key.name} of this machine's cache is back.")
        if options.key_file is not None:
            say(f"Name it from now on: export ATOMIC_KEY_FILE='{options.key_file}'")
        return 0
    with open_journal(home()) as journal:
        mine = recovery.restore_account(journal, found)
        print(f"This machine is in the account again, as '{mine.device.name}'.", flush=True)
        done = synchronise(journal)
    print(f"Synced: {done.entries} entries of {done.sessions} sessions fetched.")
    say("Save this machine's own kit too: atomic recovery save FILE")
    return 0
