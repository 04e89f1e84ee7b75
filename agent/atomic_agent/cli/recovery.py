"""`atomic recovery`: save a kit, or restore from one."""

import argparse
import os
import secrets
from pathlib import Path

from atomic_agent.account import recovery
from atomic_agent.cli.terminal import now_ms, say
from atomic_agent.keys import sources
from atomic_agent.keys.local_key import KEY_BYTES, LocalKey
from atomic_agent.locations import home
from atomic_agent.stores.journal import open_journal
from atomic_agent.sync.run import synchronise
from atomic_sessions.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["save", "restore"])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--key-file", type=Path, metavar="PATH", help="for restore: put the key here, not in the keyring"
    )


def _named_key_file() -> Path | None:
    """The file ATOMIC_KEY_FILE names, when it is not there: the place to put a key."""
    named = os.environ.get("ATOMIC_KEY_FILE")
    path = Path(named).expanduser() if named else None
    return path if path is not None and not path.exists() else None


def run(options: argparse.Namespace) -> int:
    if options.action == "save":
        if str(options.file) == "-":
            raise UsageError(
                "A kit goes into a file that only you can read.", "atomic recovery save ~/atomic-kit.txt"
            )
        with open_journal(home()) as journal:
            recovery.save(journal, options.file, now_ms())
        print(f"The recovery kit is in {options.file}. Print it or move it off this machine.")
        return 0
    found = recovery.read(options.file)
    place = options.key_file or _named_key_file()
    key = recovery.restore_local(home(), found, place)
    if key is not None:
        print(f"The key {key.name} of this machine's cache is back.")
        if place is not None:
            say(f"Name it from now on: export ATOMIC_KEY_FILE='{place}'")
        return 0
    if place is not None:
        sources.write_key_file(place, LocalKey(secrets.token_bytes(KEY_BYTES)))
        os.environ["ATOMIC_KEY_FILE"] = str(place)
        say(f"A key for this machine is in {place}. Name it from now on: export ATOMIC_KEY_FILE='{place}'")
    with open_journal(home()) as journal:
        mine = recovery.restore_account(journal, found)
        print(f"This machine is in the account again, as '{mine.device.name}'.", flush=True)
        done = synchronise(journal)
    print(f"Synced: {done.entries} entries of {done.sessions} sessions fetched.")
    say("Save this machine's own kit too: atomic recovery save FILE")
    return 0
