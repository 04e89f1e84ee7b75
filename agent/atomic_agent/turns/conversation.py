"""A conversation that turns are made in: where the next entry hangs, and how a turn is entered.

A turn is kept aside while it is in flight and entered in one transaction when it is complete, so a
kill leaves all of it or none (A1, A7). Talks to no provider and to no person.
"""

import secrets
from collections.abc import Callable

import msgspec

from atomic_agent.cache import claims, entries, sessions, turns
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.turns.choice import save_picks
from atomic_agent.turns.history import History, reader
from atomic_sessions import compose
from atomic_sessions.clock import stamp
from atomic_sessions.context import Settings, settings
from atomic_sessions.entry import Entry, Facts, Node
from atomic_sessions.errors import NotFoundError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import SessionKey

AGENT = "atomic"
_VIEW = reader(AGENT)


def node(entry: Entry) -> Node:
    """A format 4 entry as context and tree take it."""
    return Node(entry.id, entry.parent, entry.stamp, _VIEW(entry.raw))


class Conversation:
    """One session, open for turns.

    `row` is its key in the cache, None before its first completed turn; `source` the row it goes on
    from (its own, or the captured one it derives from), 0 for a new one. `unsaved` are entries that are
    not in the cache yet: what was taken over, and turns a failing disk would not take (`owes`).
    """

    def __init__(
        self, cache: Cache | None, facts: Facts, history: History, *, row: sessions.SessionRow | None
    ) -> None:
        self.cache = cache
        self.facts = facts
        self.row = row.key if row is not None else None
        self.source = row.key if row is not None else 0
        self.path: list[Node] = list(history.path)
        self.beside: list[Node] = list(history.beside)
        self.settings = history.settings
        self.newest_at = row.newest_at if row is not None and row.newest_id is not None else 0
        self.unsaved: list[Entry] = []
        self.owes = False
        self.new_name = ""
        self.in_flight = ""
        self._replaced: list[str] = []
        self._answers = 0
        self._me = claims.myself()
        self._claimed = False

    @property
    def name(self) -> str:
        return claims.name_of(self.facts)

    @property
    def leaf(self) -> str | None:
        return self.path[-1].id if self.path else None

    def claim(self, now: int, *, force: bool = False) -> claims.Claim | None:
        """Become the session's writer; the claim of another living process otherwise."""
        if self.cache is None:
            return None
        held = claims.take(self.cache, self.name, self.row or 0, self._me, now, force=force)
        self._claimed = held is None
        return held

    def close(self) -> None:
        """Give the session back. StoreWriteError when completed turns are still not on the disk."""
        try:
            self.flush(self.newest_at)
        finally:
            if self.cache is not None and self._claimed:
                claims.release(self.cache, self.name, self._me)
                self._claimed = False

    def draft(self, now: int) -> "Draft":
        """The entries of the next turn, hanging where the conversation stands."""
        return Draft(self, now)

    def begin(self, draft: "Draft", prompt: str, now: int) -> None:
        """Keep the prompt on the disk, in the place of an earlier unfinished turn of ours."""
        if self.cache is None:
            return
        self.flush(now)
        if self.in_flight:
            self._replaced.append(self.in_flight)
            self.in_flight = ""
        turn = secrets.token_hex(8)
        begun = Begun(self.facts, prompt, now, [*self.unsaved, *draft.entries], len(self.unsaved))
        turns.begin(self.cache, turn, self.name, self.source, begun, instead=self._replaced)
        self.in_flight, self._answers, self._replaced = turn, 0, []

    def answered(self, entry: Entry) -> None:
        """Keep the complete answer on the disk: from here on the turn cannot be lost."""
        if self.cache is None or not self.in_flight:
            return
        said = Answered([entry], last=True)
        turns.answer(
            self.cache, self.in_flight, self._answers + 1, self.name, self.source, self.facts.project, said
        )
        self._answers += 1

    def complete(self, draft: "Draft", picks: Settings, now: int) -> None:
        """Enter the turn: one transaction, everything or nothing. On StoreWriteError the turn stays in
        memory and goes in with the next one."""
        added = [node(e) for e in draft.entries]
        self.path.extend(added)
        said = settings(added)
        self.settings = Settings(said.provider, said.model, said.effort or self.settings.effort)
        self.newest_at = max(self.newest_at, draft.entries[-1].stamp)
        self.new_name = ""
        if self.cache is None:
            return
        self.unsaved.extend(draft.entries)
        self.owes = True
        self._write(now, picks)

    def flush(self, now: int) -> None:
        """Enter completed turns that the disk would not take before."""
        if self.owes:
            self._write(now, None)

    def _write(self, now: int, picks: Settings | None) -> None:
        if self.cache is None:
            return
        with transaction(self.cache.connection):
            key = enter(self.cache, self.facts, self.unsaved)
            for turn in (self.in_flight, *self._replaced):
                turns.clear(self.cache, turn)
            if picks is not None:
                save_picks(self.cache, picks)
        self.row = self.source = key
        self.unsaved, self.owes, self.in_flight, self._replaced = [], False, "", []

    def roll_back(self) -> None:
        """Forget the turn in flight, unless its answer is complete: then the next open enters it."""
        if self.cache is not None and self.in_flight and not self._answers:
            with transaction(self.cache.connection):
                turns.clear(self.cache, self.in_flight)
            self.in_flight = ""

    def rename(self, name: str, now: int) -> None:
        """Give the session a name: now when it is there already, else with its first turn."""
        if self.row is None or self.cache is None or self.owes:
            self.new_name = name
            return
        draft = self.draft(now)
        draft.add(lambda i, p, at: compose.session_info(i, p, at, name))
        with transaction(self.cache.connection):
            enter(self.cache, self.facts, draft.entries)
        self.path.extend(node(e) for e in draft.entries)


class Draft:
    """Entries in the making, one below the other."""

    def __init__(self, talk: Conversation, now: int) -> None:
        self.entries: list[Entry] = []
        self._talk = talk
        self._now = now
        self._parent = talk.leaf
        # After the newest message too, so that this answer is the newest wherever clocks stand (C4).
        self._stamp = max(talk.path[-1].stamp if talk.path else 0, talk.newest_at)

    def add(self, make: Callable[[str, str | None, int], bytes], now: int | None = None) -> Entry:
        """Append what `make` writes for an id, a parent and a time."""
        at = self._now if now is None else now
        identity = compose.entry_id(self._taken, secrets.token_bytes)
        self._stamp = stamp(at, self._stamp, at)
        raw = make(identity, self._parent, at)
        found = Entry(identity, self._parent, 0, self._stamp, raw)
        self.entries.append(found)
        self._parent = identity
        return found

    def _taken(self, identity: str) -> bool:
        talk = self._talk
        if any(e.id == identity for e in (*self.entries, *talk.unsaved)) or any(
            n.id == identity for n in talk.path
        ):
            return True
        return (
            talk.cache is not None
            and talk.row is not None
            and entries.one(talk.cache, talk.row, identity) is not None
        )


def enter(cache: Cache, facts: Facts, lines: list[Entry]) -> int:
    """Put entries at the end of a session, making it if it is new; call inside a transaction."""
    if sessions.is_deleted(cache, SessionKey(facts.agent, facts.id, facts.scope)):
        raise NotFoundError(
            "The session was deleted meanwhile; the turn was not saved.", "Begin a new one: atomic"
        )
    key = sessions.ensure(cache, facts)
    first = sessions.get(cache, key).next_pos
    placed = [msgspec.structs.replace(line, pos=first + i) for i, line in enumerate(lines)]
    view = viewer(facts.agent)
    entries.insert(cache, key, [(line, view(line.raw)) for line in placed])
    return key
