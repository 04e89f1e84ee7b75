"""`atomic keys`: provider keys, and where this machine keeps its own key. Never prints a key."""

import argparse
import getpass
import os
import sys

from atomic_agent.cli.terminal import emit_json, say
from atomic_agent.keys import sources
from atomic_agent.keys.local_key import KEY_BYTES, LocalKey
from atomic_agent.locations import Home, home
from atomic_agent.stores.journal import open_journal
from atomic_agent.turns.choice import PROVIDERS, known
from atomic_sessions.errors import NoKeyStoreError, UsageError

PLACES = ("keyring", "passphrase")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["set", "list", "remove", "use"])
    parser.add_argument(
        "name", nargs="?", default="", help=f"{', '.join(PROVIDERS)}; for use: {' or '.join(PLACES)}"
    )
    parser.add_argument("source", nargs="?", choices=["-"], help="for set: read the key from standard input")
    parser.add_argument("--json", action="store_true", help="for list: one JSON object a provider")


def run(options: argparse.Namespace) -> int:
    match options.action:
        case "set":
            _set(known(options.name).name, from_stdin=options.source == "-")
        case "list":
            _list(as_json=options.json)
        case "remove":
            _remove(known(options.name).name)
        case _:
            if options.name not in PLACES:
                raise UsageError(
                    "Say where the key shall be kept.",
                    "atomic keys use keyring, or: atomic keys use passphrase",
                )
            use_place(home(), options.name)
    return 0


def _set(provider: str, *, from_stdin: bool) -> None:
    if from_stdin:
        key = sys.stdin.read().strip()
    elif sys.stdin.isatty():
        key = getpass.getpass(f"Key for {provider} (not shown): ").strip()
    else:
        raise UsageError(
            "There is no terminal to ask for the key.",
            f"Pass it on standard input: atomic keys set {provider} -",
        )
    if not key or not key.isascii() or not key.isprintable():
        raise UsageError("That is no key: it is empty or holds characters that no key has.")
    with open_journal(home()) as journal:
        keys = {**journal.secrets.provider_keys, provider: key}
        journal.change(provider_keys=keys)
    say(f"The key for {provider} is kept, sealed on this machine.")


def _list(*, as_json: bool) -> None:
    with open_journal(home()) as journal:
        kept = journal.secrets.provider_keys
    for name, provider in PROVIDERS.items():
        places = [f"environment ({provider.key_name})"] if os.environ.get(provider.key_name) else []
        places += ["this machine"] if name in kept else []
        if as_json:
            emit_json({"provider": name, "places": places})
        else:
            print(f"{name:<10} {', '.join(places) or 'no key'}")


def _remove(provider: str) -> None:
    with open_journal(home()) as journal:
        keys = dict(journal.secrets.provider_keys)
        if keys.pop(provider, None) is None:
            say(f"No key for {provider} is kept here.")
            return
        journal.change(provider_keys=keys)
    say(f"The key for {provider} is forgotten.")


def use_place(at: Home, place: str) -> None:
    """Move this machine's own key to a place, or make the first one there."""
    key = None
    try:
        key = sources.find(at)
    except NoKeyStoreError:
        # The chosen store cannot be used. Without anything sealed under its key, a new one is as good.
        if at.cache.exists() or at.keystore.exists():
            raise
    if key is None and (at.cache.exists() or at.keystore.exists()):
        raise NoKeyStoreError(
            "There is a cache here, but not its key.",
            "Name the key file (ATOMIC_KEY_FILE), or: atomic recovery restore FILE",
        )
    key = key or LocalKey(os.urandom(KEY_BYTES))
    if place == "keyring":
        sources.keep_in_keyring(at, key)
    else:
        sources.keep_under_passphrase(at, key, _new_passphrase())
    where = "in the keyring" if place == "keyring" else "under your passphrase"
    say(f"This machine's key ({key.name}) is kept {where}.")
    if sources.is_given():
        say("The environment names a key too (ATOMIC_KEY_FILE or the like); while it does, that one is used.")


def _new_passphrase() -> str:
    first = sources.ask_passphrase("New passphrase: ")
    if not first:
        raise UsageError("An empty passphrase protects nothing.")
    if (
        sys.stdin.isatty()
        and not os.environ.get("ATOMIC_PASSPHRASE_FD")
        and getpass.getpass("Once more: ") != first
    ):
        raise UsageError("The two passphrases differ; nothing was changed.")
    return first
