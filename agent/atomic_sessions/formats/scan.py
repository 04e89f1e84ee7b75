"""Lines of one file to entries: ids for lines without one, places, stamps. Can stop and go on.

The same lines give the same ids on every machine, wherever the reading was interrupted.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from atomic_sessions.clock import stamp
from atomic_sessions.entry import Entry, View
from atomic_sessions.formats import codex
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import digest, line_id
from atomic_sessions.unreadable import UNREADABLE

MAX_ID = 256
MAX_REMEMBERED = 65_536


class ScanState(Struct):
    """Where a scan stands between two calls; small, and stored with the file's offset.

    `last` is the id of the last line that has one of its own (for ids of lines without), `chain` the
    last tree node (the parent of the next record of a linear format 1 file), `last_stamp` the stamp
    of the last line, `repeats` counts equal lines since `last`. `linear` is None before the header. In a
    log (Codex) `last` is simply the line before.
    """

    pos: int = 0
    last: str = ""
    chain: str | None = None
    last_stamp: int = 0
    repeats: dict[str, int] = {}
    linear: bool | None = None


class Scanner:
    """Reads the lines of one session file in order.

    `stamp_of` answers the stamp of an entry read in an earlier run (0 when unknown), `now` the
    clock's ms. `internal` is set for a sub-agent's own file.
    """

    def __init__(
        self,
        agent: str,
        state: ScanState,
        *,
        now: int,
        stamp_of: Callable[[str], int],
        internal: bool = False,
    ) -> None:
        self.state = state
        self._view = viewer(agent, internal=internal)
        self._linear_format = agent in {"pi", "atomic"}
        self._log = agent in codex.NAMES
        self._now = now
        self._stamp_of = stamp_of
        self._stamps: dict[str, int] = {}

    def read(self, raw: bytes) -> tuple[Entry, View]:
        """The entry of the next line and what it says."""
        state = self.state
        view = self._view(raw)
        if self._log:
            return self._below(raw, view), view
        if len(view.id or "") > MAX_ID or len(view.parent or "") > MAX_ID:
            # No agent makes such ids; as a line without one it is kept like any other.
            view = msgspec.structs.replace(view, id=None, parent=None)
        if state.linear is None and view.kind != "damaged":
            state.linear = self._linear_format and view.kind == "session" and _is_format_1(raw)
        loose = view.id is None or view.kind == "session"
        if not loose and view.id is not None:
            entry_id, parent = view.id, view.parent
            state.last, state.repeats = entry_id, {}
        else:
            entry_id, parent = self._line_id(raw), None
            if view.kind == "message" or (state.linear and view.kind not in {"session", "damaged"}):
                loose, parent = False, state.chain
        if not loose:
            state.chain = entry_id
        before = self._known(parent) if parent is not None else 0
        at = stamp(view.at if view.at is not None else state.last_stamp, before, self._now)
        self._remember(entry_id, at)
        state.last_stamp = at
        entry = Entry(entry_id, parent, state.pos, at, raw, loose)
        state.pos += 1
        return entry, view

    def _below(self, raw: bytes, view: View) -> Entry:
        """The entry of a log's next line: below the one before it, its id made from that one's and its bytes."""
        state = self.state
        entry_id = line_id(state.last, raw, 0)
        at = stamp(view.at if view.at is not None else state.last_stamp, state.last_stamp, self._now)
        entry = Entry(entry_id, state.last or None, state.pos, at, raw)
        state.last, state.last_stamp = entry_id, at
        state.pos += 1
        return entry

    def _line_id(self, raw: bytes) -> str:
        mark = digest(raw).hex()
        occurrence = self.state.repeats.get(mark, 0)
        self.state.repeats[mark] = occurrence + 1
        return line_id(self.state.last, raw, occurrence)

    def _known(self, parent: str) -> int:
        found = self._stamps.get(parent)
        return self._stamp_of(parent) if found is None else found

    def _remember(self, entry_id: str, at: int) -> None:
        if len(self._stamps) >= MAX_REMEMBERED:
            self._stamps.clear()
        self._stamps[entry_id] = at


class _Version(Struct):
    version: object = None
    v: object = None


def _is_format_1(header: bytes) -> bool:
    try:
        found = msgspec.json.decode(header, type=_Version)
    except UNREADABLE:
        return False
    return (found.version is None and found.v is None) or found.version == 1
