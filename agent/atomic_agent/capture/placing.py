"""Where a line of a session file hangs in its tree. Most agents' lines say it themselves; a Codex rollout is a log,
in which a roll-back and a fork speak of lines that stand elsewhere.
"""

from collections.abc import Callable

import msgspec

from atomic_agent.cache import entries
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.entries import Incoming
from atomic_agent.capture import forks
from atomic_agent.capture.rollbacks import kept_above
from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_log import ROLLED_BACK, History, history_of, rolled_back
from atomic_sessions.formats.scan import Scanner, ScanState


class Placing:
    """Reads the lines of one file through a scanner. `flush` puts what was read so far into the cache, where a
    roll-back looks for the turns it takes away. `told` counts the lines a fork got from the session it left."""

    def __init__(
        self, cache: Cache, session: int, agent: str, scanner: Scanner, flush: Callable[[], None]
    ) -> None:
        self._cache, self._session, self._scanner, self._flush = cache, session, scanner, flush
        self._log = agent in codex.NAMES
        self._history: History | None = None
        self.told = 0
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
        if not self._log:
            return self._scanner.read(raw)
        before = msgspec.structs.replace(self.state)
        entry, view = self._scanner.read(raw)
        if entry.pos == 0:
            self._history = history_of(raw)
            return entry, view
        if self._history is not None:
            # The first line of a fork's own; unless its history was written out after all, as in an export.
            if view.kind != "session_meta":
                entry = msgspec.structs.replace(entry, parent=self._history.joint, pos=self.next_pos)
                self.state.pos = self.next_pos + 1
                if not view.damaged:
                    self._begin(self._history, before)
            self._history = None
        if view.kind == ROLLED_BACK and (turns := rolled_back(raw)):
            self._settle(before)
            kept = kept_above(self._cache, self._session, entry.parent, turns)
            entry = msgspec.structs.replace(entry, parent=kept)
        return entry, view

    def _settle(self, before: ScanState) -> None:
        """Put what stands above a line into the cache, with the state in which that line is read again after a kill."""
        after, self._scanner.state = self.state, before
        self._flush()
        self._scanner.state = after

    def _begin(self, history: History, before: ScanState) -> None:
        """What was said before a fork, where it is here already: ahead of its own lines, which may take it back."""
        if entries.one(self._cache, self._session, history.joint) is None:
            self._settle(before)
            self.told += forks.fill(self._cache, self._session, history)
