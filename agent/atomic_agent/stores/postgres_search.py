"""Full-text search in Postgres: which entries may match, by an index of their words. Decides none: `words` does.

The words are made by us, not by the database's languages, so that every store finds the same.
"""

from collections.abc import Iterator

from atomic_agent.stores import words
from atomic_agent.stores.postgres_connection import Database
from atomic_agent.stores.postgres_entries import Viewer, pages
from atomic_agent.stores.postgres_sessions import listed
from atomic_agent.stores.postgres_text import indexed
from atomic_agent.stores.rows import Hit
from atomic_agent.stores.words import Query
from atomic_sessions.formats.agents import viewer

_MAY_MATCH = (
    'SELECT DISTINCT session FROM "{p}session_entries"'
    " WHERE words @@ $1::text::tsquery OR (spoken AND words IS NULL)"
)


def search(database: Database, text: str, limit: int) -> Iterator[Hit]:
    """What `Store.search` answers."""
    query = words.parse(text)
    if not query.runs or limit <= 0:
        return
    wanted = _tsquery(query)
    among = {int(found["session"]) for found in database.fetch(_MAY_MATCH, wanted)}
    for key, row in listed(database, internal=True, among=among):
        view: Viewer = viewer(row.facts.agent, internal=row.facts.internal)
        entries = pages(database, key, matching=wanted)
        hit = words.first_hit(query, row, ((entry, view(entry.raw)) for entry in entries))
        if hit is not None:
            yield hit
            limit -= 1
            if not limit:
                return


def _tsquery(query: Query) -> str:
    """All words of the query, which are letters, digits and underscores by now."""
    found = [f"'{word}'" for run in query.runs for word in map(indexed, run)]
    return " & ".join(found) + (":*" if query.open_end else "")
