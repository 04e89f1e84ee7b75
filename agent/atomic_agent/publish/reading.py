"""A session of the cache as a document for renderers, and as lines for files. Changes nothing."""

from collections.abc import Iterator

from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_sessions.document import Document, read
from atomic_sessions.entry import Entry


def lines_of(cache: Cache, row: sessions.SessionRow) -> Iterator[Entry]:
    """The session's own lines in canonical order, side files left out."""
    for stored in entries.read(cache, row.key):
        if not stored.entry.file:
            yield stored.entry


def document_of(cache: Cache, row: sessions.SessionRow) -> Document:
    """The whole session as it opens here."""
    return read(row.facts, row.label, leaf.leaf(cache, row.key), lines_of(cache, row), row.summary)
