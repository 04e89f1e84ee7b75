"""A session of the cache as a document for renderers, and as lines for files. Changes nothing."""

from collections.abc import Iterable, Iterator

from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_sessions.document import Document
from atomic_sessions.entry import Entry, Facts, Node
from atomic_sessions.formats.agents import viewer
from atomic_sessions.tree import labels


def lines_of(cache: Cache, row: sessions.SessionRow) -> Iterator[Entry]:
    """The session's own lines in canonical order, side files left out."""
    for stored in entries.read(cache, row.key):
        if not stored.entry.file:
            yield stored.entry


def document(facts: Facts, title: str, summary: str, opened: str | None, found: Iterable[Entry]) -> Document:
    """What a renderer needs, from entries in canonical order."""
    view = viewer(facts.agent, internal=facts.internal)
    nodes = tuple(
        Node(entry.id, entry.parent, entry.stamp, view(entry.raw))
        for entry in found
        if not entry.loose and not entry.file
    )
    return Document(
        facts.id, facts.agent, title, facts.cwd, facts.created_at, opened, nodes, labels(nodes), summary
    )


def document_of(cache: Cache, row: sessions.SessionRow) -> Document:
    """The whole session as it opens here."""
    return document(row.facts, row.label, row.summary, leaf.leaf(cache, row.key), lines_of(cache, row))


def jsonl(facts: Facts, found: Iterable[Entry]) -> Iterator[bytes]:
    """The lines of a JSONL file, each with its newline: the header of a format 4 session, then every
    line as it is. Captured sessions carry their header among their lines."""
    if facts.header:
        yield facts.header + b"\n"
    for entry in found:
        yield entry.raw + b"\n"
