"""Where a roll-back of a Codex session hangs: below the last line that stands after the turns are taken away. Where the
turns stand in a session that is not here yet, its place says so and is found when they are.

The parent such a roll-back has until then loses against any other when copies are joined, so that machines which found
the place and machines which did not come to the same tree in any order.
"""

from collections.abc import Iterator

import msgspec

from atomic_agent.cache import entries
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_sessions.entry import Entry, Node
from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_log import kept_after, rolled_back

OPEN = "~"
"""Before the id of the line above in the file: greater than every id of a Codex line, and no line's own."""
_WAITING = "session = ? AND file = '' AND kind = 'event/thread_rolled_back' AND parent >= '~' ORDER BY pos, stamp, id"


def kept_above(cache: Cache, session: int, before: str | None, turns: int) -> str | None:
    """The parent of a roll-back that follows the line `before`."""
    missing = False

    def upward() -> Iterator[Node]:
        nonlocal missing
        seen: set[str] = set()
        at = before
        while at is not None and at not in seen:
            seen.add(at)
            entry = entries.one(cache, session, at)
            if entry is None:
                missing = True
                return
            yield Node(entry.id, entry.parent, entry.stamp, codex.view(entry.raw))
            at = entry.parent

    kept = kept_after(upward(), turns)
    return f"{OPEN}{before}" if missing else kept


def is_open(entry: Entry) -> bool:
    """True for a roll-back that has no place yet."""
    return (entry.parent or "").startswith(OPEN)


def place_again(cache: Cache, session: int) -> bool:
    """Give each roll-back that waits its place where its turns are here now; True when none waits any more. A later
    one may take back what an earlier one left."""
    moved = False
    left = 0
    for stored in list(entries.stored_rows(cache, _WAITING, (session,))):
        entry = stored.entry
        before = (entry.parent or "").removeprefix(OPEN)
        placed = msgspec.structs.replace(
            entry, parent=kept_above(cache, session, before, rolled_back(entry.raw))
        )
        if is_open(placed):
            left += 1
            continue
        with transaction(cache.connection):
            entries.insert(cache, session, [(placed, codex.view(entry.raw))])
        moved = True
    if moved:
        entries.refresh_stale(cache)
    return not left
