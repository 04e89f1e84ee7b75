"""Where a line of a session file hangs in its tree. Most agents' lines say it themselves; a Codex rollout is a log,
in which a roll-back and a fork speak of lines that stand elsewhere. Reads the cache, writes nothing.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from atomic_agent.cache import entries
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.entries import Incoming
from atomic_sessions.entry import Node
from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_log import ROLLED_BACK, History, history_of, kept_after, rolled_back
from atomic_sessions.formats.scan import Scanner, ScanState


class Placing:
    """Reads the lines of one file through a scanner. `flush` puts what was read so far into the cache, where a
    roll-back looks for the turns it takes away."""

    def __init__(
        self, cache: Cache, session: int, agent: str, scanner: Scanner, flush: Callable[[], None]
    ) -> None:
        self._cache, self._session, self._scanner, self._flush = cache, session, scanner, flush
        self._log = agent in codex.NAMES
        self._history: History | None = None
        if self._log and scanner.state.last:
            first = entries.one(cache, session, scanner.state.last)
            self._history = history_of(first.raw) if first is not None and first.pos == 0 else None

    @property
    def state(self) -> ScanState:
        return self._scanner.state

    @property
    def next_pos(self) -> int:
        """The place of the next line."""
        return self.state.pos if self._history is None else self._history.lines + 1

    def read(self, raw: bytes) -> Incoming:
        """The entry of the next line, in its place, and what it says."""
        entry, view = self._scanner.read(raw)
        if not self._log:
            return entry, view
        if entry.pos == 0:
            self._history = history_of(raw)
        elif self._history is not None:
            # The first line of a fork's own; unless its history was written out after all, as in an export.
            if view.kind != "session_meta":
                entry = msgspec.structs.replace(entry, parent=self._history.joint, pos=self.next_pos)
                self.state.pos = self.next_pos + 1
            self._history = None
        elif view.kind == ROLLED_BACK and (turns := rolled_back(raw)):
            self._flush()
            kept = kept_after(self._upward(entry.parent), turns)
            entry = msgspec.structs.replace(entry, parent=kept)
        return entry, view

    def moved(self, batch: Sequence[Incoming]) -> str | None:
        """Where the session stands after a batch that ends in a roll-back: the newest message is one that was
        taken away. A roll-back known before moves nothing."""
        if not self._log:
            return None
        for entry, view in reversed(batch):
            if view.decides:
                return None
            if view.kind == ROLLED_BACK and rolled_back(entry.raw):
                known = entries.one(self._cache, self._session, entry.id) is not None
                return None if known else entry.id
        return None

    def _upward(self, at: str | None) -> Iterator[Node]:
        """The entries above, nearest first."""
        seen: set[str] = set()
        while at is not None and at not in seen:
            seen.add(at)
            entry = entries.one(self._cache, self._session, at)
            if entry is None:
                return
            yield Node(entry.id, entry.parent, entry.stamp, codex.view(entry.raw))
            at = entry.parent
