"""Sessions that end with their process: the whole port without a disk (B2)."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from atomic_agent.cache.claims import Claim
from atomic_agent.cache.digest import Digest
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores import folders, words
from atomic_agent.stores.port import InFlight
from atomic_agent.stores.rows import Hit, Moved, Row, called, choose, moved_by, not_there, page, row_of, taken
from atomic_sessions import merge, tree
from atomic_sessions.clock import Order
from atomic_sessions.entry import Entry, Facts, Node, View
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import SessionKey


class _Kept(Struct):
    """One session. `moved` is where a person stands, and the newest message when they went there."""

    facts: Facts
    entries: dict[str, Entry]
    moved: tuple[str | None, Order] | None = None

    def views(self) -> Iterator[tuple[Entry, View]]:
        view = viewer(self.facts.agent, internal=self.facts.internal)
        for entry in merge.canonical(self.entries.values()):
            yield entry, view(entry.raw)


class MemoryStore:
    """A store of its own for each that is made."""

    name = "memory"
    flags: tuple[str, ...] = ()
    syncs = False

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, _Kept] = {}
        self._rows: dict[SessionKey, Row] = {}
        self._turns: dict[str, InFlight] = {}

    def project_of(self, folder: str) -> str:
        return folders.project_of(folder)

    def deleted(self, session: SessionKey) -> bool:
        return False

    def create(self, facts: Facts, entries: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        key = facts.key
        if key in self._sessions:
            raise taken(facts)
        kept = _Kept(facts, {})
        moved = _enter(kept, entries)
        self._sessions[key] = kept
        if moved is not None and (moved[0] is None or moved[0] in kept.entries):
            self.move(key, moved[0])
        for turn in done:
            self.drop(turn)
        return self._row(key)

    def get(self, session: SessionKey) -> Row | None:
        return self._row(session) if session in self._sessions else None

    def open(self, session: SessionKey) -> Row:
        self._kept(session)
        return self._row(session)

    def find(self, wanted: str, project: str) -> Row:
        return choose(self._all(), wanted, project)

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        return page(self._all(), project, folder, internal, limit, offset)

    def called(self, rows: Sequence[Row]) -> list[str]:
        return called(rows, self._all())

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        wanted = words.parse(query)
        for row in page(self._all(), None, "", True, -1, 0):
            if limit <= 0:
                return
            if (hit := words.first_hit(wanted, row, self._kept(row.key).views())) is not None:
                limit -= 1
                yield hit

    def delete(self, session: SessionKey) -> None:
        self._kept(session)
        del self._sessions[session]
        self._rows.pop(session, None)
        for flight in self.pending():
            facts = flight.begun.facts
            if session in {flight.source, facts.key}:
                self.drop(flight.turn)

    def append(self, session: SessionKey, entries: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        _enter(self._kept(session), entries)
        self._rows.pop(session, None)
        for turn in done:
            self.drop(turn)

    def read(self, session: SessionKey, first: int = 0) -> Iterator[Entry]:
        kept = self._kept(session)
        yield from (entry for entry in merge.canonical(kept.entries.values()) if entry.pos >= first)

    def climb(self, session: SessionKey, leaf: str | None) -> Iterator[Entry]:
        entries = self._kept(session).entries
        found: dict[str, Entry] = {}
        at = leaf
        while at is not None and at not in found:
            entry = entries.get(at)
            if entry is None or entry.loose:
                break
            found[at] = entry
            at = entry.parent
        return iter(found.values())

    def ends(self, session: SessionKey) -> int:
        return tree.ends({e.id: (e.parent, v.decides) for e, v in self._kept(session).views() if not e.loose})

    def entry(self, session: SessionKey, entry_id: str) -> Entry | None:
        return self._kept(session).entries.get(entry_id)

    def leaf(self, session: SessionKey) -> str | None:
        kept = self._kept(session)
        nodes = [Node(e.id, e.parent, e.stamp, view) for e, view in kept.views() if not e.loose]
        newest = tree.newest(nodes, {})
        if kept.moved is not None and (newest is None or kept.moved[1] >= newest[0]):
            return kept.moved[0]
        return tree.leaf(tree.build(nodes), {})

    def move(self, session: SessionKey, leaf: str | None) -> None:
        kept = self._kept(session)
        if leaf is not None and leaf not in kept.entries:
            raise not_there(session)
        row = self._row(session)
        kept.moved = (leaf, row.order if row.newest_id is not None else (0, b""))

    def holder(self, session: SessionKey) -> Claim | None:
        return None

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        return None

    def release(self, session: SessionKey) -> None:
        """Nobody else can see these sessions, so nobody claims them."""

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        for old in instead:
            self.drop(old)
        self._turns[turn] = InFlight(turn, source, begun, [])

    def answer(self, turn: str, said: Answered) -> None:
        flight = self._turns.get(turn)
        if flight is not None:
            self._turns[turn] = msgspec.structs.replace(flight, answered=[*flight.answered, said])

    def pending(self) -> list[InFlight]:
        return sorted(self._turns.values(), key=lambda flight: (flight.begun.at, flight.turn))

    def drop(self, turn: str) -> None:
        self._turns.pop(turn, None)

    def close(self) -> None:
        """Nothing is open."""

    def _kept(self, session: SessionKey) -> _Kept:
        kept = self._sessions.get(session)
        if kept is None:
            raise not_there(session)
        return kept

    def _all(self) -> list[Row]:
        return [self._row(key) for key in self._sessions]

    def _row(self, session: SessionKey) -> Row:
        if session not in self._rows:
            kept = self._kept(session)
            digest = Digest()
            for entry, view in kept.views():
                digest.fold(entry, view, None)
            self._rows[session] = row_of(kept.facts, digest)
        return self._rows[session]


def _enter(kept: _Kept, entries: Iterable[Entry]) -> Moved:
    """Put entries behind those that are there, by the rules of `merge`; where they say that they open."""
    view = viewer(kept.facts.agent, internal=kept.facts.internal)
    pos = max((entry.pos for entry in kept.entries.values()), default=-1) + 1
    moved: Moved = None
    for entry in entries:
        if not entry.file:
            merge.add(kept.entries, msgspec.structs.replace(entry, pos=pos))
            moved = moved_by(moved, entry, view(entry.raw))
            pos += 1
    return moved
