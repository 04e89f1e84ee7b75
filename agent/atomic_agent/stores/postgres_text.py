"""Text as Postgres keeps it for us: bytes, since its own text refuses NUL and lone surrogates. Pure.

The order of the bytes is that of the characters, so lists come out as they do elsewhere. Words of the search index
are the one text that goes in as text: as ASCII, because not every database has an encoding for all of them.
"""

import hashlib
import json

from atomic_agent.stores.words import words_of
from atomic_sessions.ids import SessionKey

# What a tsvector takes: 2,046 bytes a word, a megabyte in all.
_LONGEST_WORD = 1000
_MOST_WORDS = 500_000


def kept(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")


def said(raw: bytes) -> str:
    """The text that `kept` was given."""
    return raw.decode("utf-8", "surrogatepass")


def kept_or_none(text: str | None) -> bytes | None:
    return None if text is None else kept(text)


def said_or_none(raw: bytes | None) -> str | None:
    return None if raw is None else said(raw)


def identity(session: SessionKey) -> bytes:
    """What a session is called in an index, which takes no more than 2,700 bytes where an id may be of any length."""
    return hashlib.sha256(json.dumps([session.agent, session.id, session.scope]).encode()).digest()


def indexed(word: str) -> str:
    """A word as the index holds it: what begins with another does so here too."""
    return word.encode("unicode_escape").decode("ascii").replace("\\", "_")[:_LONGEST_WORD]


def index_of(text: str) -> list[str] | None:
    """The words of a text for the index; None when they are too many, and the text has to be looked at itself."""
    found = {indexed(word) for word in words_of(text)}
    return sorted(found) if sum(map(len, found)) < _MOST_WORDS else None
