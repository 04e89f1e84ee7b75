"""How the lines of Codex rollouts hang together beyond one below the other: turns taken back, history that stands in
another rollout. Pure.

Facts: formats/native-agents.md sections 2.3 and 8.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from atomic_sessions.entry import Entry, Node
from atomic_sessions.formats.codex_records import BASE, EVENT, LINE, META
from atomic_sessions.formats.lines import decode
from atomic_sessions.ids import line_id

ROLLED_BACK = "event/thread_rolled_back"
MAX_LINES = 1 << 31


class History(Struct, frozen=True):
    """The history a fork points to: the first `lines` lines of the conversation of `thread`, whose own file is
    read up to byte `end`."""

    thread: str
    lines: int
    end: int

    @property
    def joint(self) -> str:
        """The id under which the last of these lines stands in the fork, known before the lines are."""
        return line_id("", f"{self.thread}\0{self.lines}".encode(), 0)


def history_of(raw: bytes) -> History | None:
    """What a rollout's first line says of lines that are not in its file; None where all are."""
    line, _ = decode(raw, LINE)
    if line is None or line.type != "session_meta":
        return None
    meta, _ = decode(bytes(line.payload), META)
    base, _ = decode(bytes(meta.history_base), BASE) if meta is not None else (None, False)
    if base is None or not base.thread_id or not 0 < (base.end_ordinal_exclusive or 0) < MAX_LINES:
        return None
    return History(base.thread_id, base.end_ordinal_exclusive or 0, base.end_byte_offset or 0)


def rolled_back(raw: bytes) -> int:
    """How many turns a line takes back."""
    line, _ = decode(raw, LINE)
    event, _ = decode(bytes(line.payload), EVENT) if line is not None else (None, False)
    if event is None or event.type != "thread_rolled_back":
        return 0
    return max(0, event.num_turns or 0)


def kept_after(upward: Iterable[Node], turns: int) -> str | None:
    """The last entry that stands after `turns` turns were taken back; `upward` goes from the newest entry to the
    root. A turn begins with what a person typed, and with what Codex notes ahead of it."""
    kept: str | None = None
    left = turns
    found = False
    for node in upward:
        view = node.view
        if found:
            # Ahead of the prompt: its start, its settings, its surroundings.
            if view.counts or view.kind in {"compacted", "session_meta", ROLLED_BACK, "event/task_complete"}:
                if left == 0:
                    return kept
                found = False
            elif view.kind == "event/task_started":
                kept, found = node.parent, False
                if left == 0:
                    return kept
        if view.role == "user" and view.typed and view.counts and left:
            kept, left, found = node.parent, left - 1, True
    return kept


def told_before(history: History, lines: Sequence[Entry]) -> list[Entry] | None:
    """The lines a fork points to among those of the session it left, None while they are not all there. `lines` are
    that session's own in canonical order; where it was continued in two places, the copy that the fork's byte
    offset fits is the one."""
    by_pos: dict[int, list[Entry]] = {}
    for entry in lines:
        if entry.pos < history.lines:
            by_pos.setdefault(entry.pos, []).append(entry)
    first = by_pos.get(0, [])
    own = history_of(first[0].raw) if first else None
    begun = own.lines if own is not None else 0
    if own is not None and not any(entry.id == own.joint for entry in lines):
        return None
    copied = [entry for pos in range(1, begun + 1) for entry in by_pos.get(pos, ())]
    chains = [_chain(by_pos, end, begun) for end in by_pos.get(history.lines - 1, ())]
    if begun == history.lines - 1:
        chains = [[entry] for entry in first]
    whole = [chain for chain in chains if chain is not None]
    if not whole:
        return None
    fitting = [chain for chain in whole if sum(len(e.raw) + 1 for e in chain) == history.end]
    chain = (fitting or whole)[0]
    return [chain[0], *copied, *chain[1:]]


def _chain(by_pos: Mapping[int, Sequence[Entry]], end: Entry, begun: int) -> list[Entry] | None:
    """The lines that stood before `end` in its file, by the ids they were given."""
    chain = [end]
    for pos in [*range(end.pos - 1, begun, -1), 0]:
        if chain[-1].pos == 0:
            break
        there = by_pos.get(pos, ())
        above = [entry for entry in there if line_id(entry.id, chain[-1].raw, 0) == chain[-1].id]
        if not above:
            return None
        chain.append(above[0])
    chain.reverse()
    return chain


def copies(history: History, told: Sequence[Entry]) -> Iterator[Entry]:
    """The lines as they stand in the fork: after its first line and before its own, with ids that depend on nothing
    else than what they say, the last one under the id the fork's own lines hang below."""
    ids: dict[str, str] = {}
    before = history.joint
    for index, entry in enumerate(told):
        last = index == len(told) - 1
        before = ids[entry.id] = history.joint if last else line_id(before, entry.raw, 0)
        parent = ids.get(entry.parent) if entry.parent is not None else None
        yield msgspec.structs.replace(entry, id=before, parent=parent, pos=min(index + 1, history.lines))
