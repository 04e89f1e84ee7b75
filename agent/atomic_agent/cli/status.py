"""`atomic status`: what is here, what is not synced, and with whom."""

import argparse
import os

from atomic_agent.cache import outbox
from atomic_agent.cli.terminal import age, emit_json, now_ms
from atomic_agent.cli.trust import flags_of, placement, store_arguments
from atomic_agent.keys import sources
from atomic_agent.locations import home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_agent.stores.opening import described, is_default
from atomic_agent.sync.run import LAST_SYNC
from atomic_sessions.clock import iso


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")
    store_arguments(parser)


def run(options: argparse.Namespace) -> int:
    chosen = placement(flags_of(options), os.environ, ask=False, approve=options.trust).sessions
    with open_journal(home()) as journal:
        found = facts(journal)
    found["sessions_go_to"] = described(chosen.selection)
    found["chosen_by"] = chosen.source
    found["sessions_sync"] = is_default(chosen.selection, home())
    if options.json:
        emit_json(found)
        return 0
    _print(found)
    return 0


def facts(journal: Journal) -> dict[str, object]:
    """What `--json` prints; stable. Never a secret."""
    cache = journal.cache
    sessions, internal = cache.connection.execute(
        cache.sql("SELECT count(*), coalesce(sum(internal), 0) FROM {p}session_sessions WHERE deleted = 0")
    ).fetchone()
    entries = cache.connection.execute(cache.sql("SELECT count(*) FROM {p}session_entries")).fetchone()[0]
    mine = journal.secrets.membership
    last = cache.get(LAST_SYNC)
    choice = sources.read_choice(journal.home)
    return {
        "cache": str(cache.path),
        "cache_bytes": cache.path.stat().st_size,
        "key": journal.key.name,
        "key_store": "given" if sources.is_given() else choice.store if choice is not None else "none",
        "recovery_kit_saved": journal.secrets.recovery_saved,
        "sessions": sessions - internal,
        "internal_sessions": internal,
        "entries": entries,
        "service": mine.url if mine is not None else None,
        "machine": mine.device.name if mine is not None else None,
        "unsynced_entries": outbox.unsealed_count(cache) if mine is not None else None,
        "unsynced_records": outbox.count(cache) if mine is not None else None,
        "last_sync": iso(int.from_bytes(last, "big")) if last and mine is not None else None,
        "last_sync_age": age(int.from_bytes(last, "big"), now_ms()) if last and mine is not None else None,
        "refused_records": [{"reason": why, "records": count} for why, count in outbox.quarantined(cache)],
    }


def _print(found: dict[str, object]) -> None:
    if not found["sessions_sync"]:
        print(
            f"store     new sessions go to {found['sessions_go_to']} ({found['chosen_by']}); they never sync"
        )
    print(f"cache     {found['cache']} ({found['sessions']} sessions, {found['entries']} entries), encrypted")
    print(f"key       {found['key']}, store: {found['key_store']}")
    if not found["recovery_kit_saved"]:
        print("recovery  no kit saved yet: atomic recovery save FILE")
    if found["service"] is None:
        print("account   none: atomic login URL --invite -   or   atomic login URL --join -")
        return
    print(f"account   {found['service']}, this machine is '{found['machine']}'")
    entries, records = found["unsynced_entries"], found["unsynced_records"]
    state = (
        "everything is synced"
        if not entries and not records
        else f"{entries} entries and {records} records wait"
    )
    print(f"sync      {state}; last sync: {found['last_sync_age'] or 'never'}")
    for refused in found["refused_records"]:  # type: ignore[attr-defined]  # a list, see facts
        print(f"refused   {refused['records']} records: {refused['reason']}")
