"""Deleting a session: everywhere, for ever (C4)."""

from atomic_agent.cache import outbox, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.stores.journal import Journal


def delete_session(journal: Journal, row: sessions.SessionRow) -> None:
    """Take a session and its sub-agents' out of this cache. Records of it that still wait are dropped;
    the next sync sends its tombstone to the other machines."""
    cache = journal.cache
    with transaction(cache.connection):
        for one in [row, *sessions.children(cache, row.agent, row.id)]:
            if one.wire is not None:
                outbox.rewind_waiting(cache, one.wire, cache.writer)
            sessions.mark_deleted(cache, one.key)
