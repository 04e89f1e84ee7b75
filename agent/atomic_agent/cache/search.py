"""Full-text search over everything in the cache, all machines, offline (D6)."""

from collections.abc import Iterator

from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.entries import searched
from atomic_agent.cache.packing import unpack
from atomic_agent.cache.sessions import SessionRow, get
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.lines import plain

CONTEXT_CHARS = 60


class Hit(Struct, frozen=True):
    """A session that matches, the best entry in it, and some text around the first word found."""

    session: SessionRow
    entry: str
    snippet: str


def match_expression(query: str) -> str:
    """FTS5 syntax for what a person typed: every word must occur, the last one may be a beginning;
    "quoted words" are a phrase. No character of the query is an operator."""
    parts: list[str] = []
    # SQLite ends a text at a NUL, and takes no half characters.
    query = plain(query).replace("\x00", " ")
    for index, piece in enumerate(query.split('"')):
        if index % 2:
            if piece.strip():
                parts.append(f'"{piece}"')
        else:
            parts.extend(f'"{word}"' for word in piece.split())
    if parts and not query.rstrip().endswith('"'):
        parts[-1] += "*"
    return " ".join(parts)


def search(cache: Cache, query: str, *, limit: int = 50) -> Iterator[Hit]:
    """Matching sessions, newest message first, one hit each."""
    expression = match_expression(query)
    if not expression:
        return
    rows = cache.connection.execute(
        cache.sql(
            "SELECT e.session, min(e.row) FROM {p}session_search"
            " JOIN {p}session_entries e ON e.row = {p}session_search.rowid"
            " JOIN {p}session_sessions s ON s.key = e.session"
            " WHERE {p}session_search MATCH ? AND s.deleted = 0"
            " GROUP BY e.session ORDER BY s.newest_at DESC LIMIT ?"
        ),
        (expression, limit),
    ).fetchall()
    for session, row in rows:
        found = get(cache, session)
        entry_id, codec, raw = cache.connection.execute(
            cache.sql("SELECT id, codec, raw FROM {p}session_entries WHERE row = ?"), (row,)
        ).fetchone()
        text = searched(viewer(found.agent, internal=found.internal)(unpack(codec, raw)))
        yield Hit(found, entry_id, snippet(text, query))


def snippet(text: str, query: str) -> str:
    """The part of a text around the first word of the query, on one line."""
    flat = " ".join(text.split())
    words = query.replace('"', " ").split()
    low = flat.lower()
    at = min((i for i in (low.find(word.lower()) for word in words) if i >= 0), default=0)
    start = max(0, at - CONTEXT_CHARS)
    end = min(len(flat), at + CONTEXT_CHARS * 2)
    return ("…" if start else "") + flat[start:end] + ("…" if end < len(flat) else "")
