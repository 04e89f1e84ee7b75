"""Full-text search for stores without an index: the rules of the encrypted cache's, word by word. Pure."""

import re
import unicodedata
from collections.abc import Iterable

from msgspec import Struct

from atomic_agent.cache.entries import searched
from atomic_agent.cache.search import snippet
from atomic_agent.stores.rows import Hit, Row
from atomic_sessions.entry import Entry, View
from atomic_sessions.formats.lines import plain

_WORD = re.compile(r"[^\W_]+")


class Query(Struct, frozen=True):
    """What must occur in one entry: runs of words, each a phrase; with `open_end` the last is a beginning."""

    text: str
    runs: tuple[tuple[str, ...], ...]
    open_end: bool


def parse(text: str) -> Query:
    """What a person typed. No character of it is an operator."""
    text = plain(text).replace("\x00", " ")
    runs: list[tuple[str, ...]] = []
    for index, piece in enumerate(text.split('"')):
        for part in (piece,) if index % 2 else piece.split():
            if found := tuple(words_of(part)):
                runs.append(found)
    return Query(text, tuple(runs), open_end=not text.rstrip().endswith('"'))


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared: in one case, without accents."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return _WORD.findall(text.casefold())


def matches(query: Query, text: str) -> bool:
    """True when a text holds everything asked for; nothing asked for is nowhere."""
    if not query.runs:
        return False
    words = words_of(text)
    last = len(query.runs) - 1
    return all(_holds(words, run, query.open_end and at == last) for at, run in enumerate(query.runs))


def _holds(words: list[str], run: tuple[str, ...], open_end: bool) -> bool:
    *head, end = run
    for at in range(len(words) - len(head)):
        last = words[at + len(head)]
        if words[at : at + len(head)] == head and (last.startswith(end) if open_end else last == end):
            return True
    return False


def first_hit(query: Query, row: Row, said: Iterable[tuple[Entry, View]]) -> Hit | None:
    """The first entry of a session that matches."""
    for entry, view in said:
        text = searched(view)
        if text and matches(query, text):
            return Hit(row, entry.id, snippet(text, query.text))
    return None
