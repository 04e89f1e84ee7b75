"""A session of the cache as lines for renderers and files. Changes nothing."""

from collections.abc import Iterator

from atomic_agent.cache import entries, sessions
from atomic_agent.cache.cache import Cache
from atomic_sessions.entry import Entry


def lines_of(cache: Cache, row: sessions.SessionRow) -> Iterator[Entry]:
    """The session's own lines in canonical order, side files left out."""
    for stored in entries.read(cache, row.key):
        if not stored.entry.file:
            yield stored.entry
