"""Forks of Codex sessions whose file holds only what was said since: what was said before is copied from the session
they left, as older versions of Codex did in the file. Repeating it changes nothing.
"""

from collections.abc import Callable

from msgspec import Struct

from atomic_agent.cache import entries, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.capture import rollbacks
from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_log import History, copies, history_of, told_before
from atomic_sessions.ids import session_key

AGENT = "codex"
FORKS = "SELECT key FROM {p}session_sessions WHERE agent = ? AND parent <> '' AND deleted = 0 ORDER BY key"


class Lacking(Struct, frozen=True):
    """A fork whose beginning is not here: it stands in the file of session `parent`."""

    session: str
    parent: str


def complete(
    cache: Cache, grown: Callable[[int, int], None] = lambda *_: None, whole: set[int] | None = None
) -> list[Lacking]:
    """Give each fork what was said before it; those for which it is not here. A fork of a fork waits for the one
    it left. `grown` hears (session, entries) of each that is whole now, `whole` remembers which need no look."""
    known = whole if whole is not None else set()
    waiting: dict[int, History] = {}
    for (key,) in cache.connection.execute(cache.sql(FORKS), (AGENT,)).fetchall():
        if key in known:
            continue
        begun, history, here = _beginning(cache, key)
        if history is not None and not here:
            waiting[key] = history
        elif begun and (history is None or rollbacks.place_again(cache, key)):
            known.add(key)
    going = True
    while waiting and going:
        going = False
        for key, history in list(waiting.items()):
            if count := fill(cache, key, history):
                del waiting[key]
                grown(key, count)
                going = True
    return [Lacking(sessions.get(cache, key).id, history.thread) for key, history in waiting.items()]


def lacks(cache: Cache, key: int) -> History | None:
    """What a session points to and does not have."""
    _, history, here = _beginning(cache, key)
    return None if here else history


def _beginning(cache: Cache, key: int) -> tuple[bool, History | None, bool]:
    """Whether a session's first line is here, what it points to, and whether it has that."""
    condition = "session = ? AND file = '' AND pos < 2 ORDER BY pos, stamp, id LIMIT 2"
    first = [stored.entry for stored in entries.stored_rows(cache, condition, (key,))]
    begun = bool(first) and first[0].pos == 0
    history = history_of(first[0].raw) if first else None
    if history is None:
        return begun, None, False
    if entries.one(cache, key, history.joint) is not None:
        return begun, history, True
    # A line in the second place is a history that was written out.
    return begun, history if first[-1].pos == 0 else None, False


def fill(cache: Cache, key: int, history: History) -> int:
    """How many lines came into the fork: all that it lacked, or none. Its roll-backs of them get their places."""
    left = sessions.by_key(cache, session_key(AGENT, history.thread, ""))
    if left is None or left.key == key:
        return 0
    condition = "session = ? AND file = '' AND pos < ? ORDER BY pos, stamp, id"
    there = [stored.entry for stored in entries.stored_rows(cache, condition, (left.key, history.lines))]
    told = told_before(history, there)
    if told is None or any(rollbacks.is_open(entry) for entry in told):
        return 0
    incoming = [(entry, codex.view(entry.raw)) for entry in copies(history, told)]
    with transaction(cache.connection):
        count = entries.insert(cache, key, incoming).new
    rollbacks.place_again(cache, key)
    return count
