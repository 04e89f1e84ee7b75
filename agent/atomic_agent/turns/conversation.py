"""A conversation that turns are made in: where the next entry hangs, and how a turn is entered.

A turn is kept aside while it is in flight and entered whole when it is complete, so a kill leaves all of it
or none (A1, A7). Talks to no provider and to no person, and knows no store but by its port.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from atomic_agent.cache.claims import Claim
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_agent.turns.history import History, reader
from atomic_sessions import compose
from atomic_sessions.clock import stamp
from atomic_sessions.context import Settings, settings
from atomic_sessions.entry import Entry, Facts, Node
from atomic_sessions.errors import NotFoundError, SessionExistsError
from atomic_sessions.ids import SessionKey

AGENT = "atomic"
_VIEW = reader(AGENT)


def node(entry: Entry) -> Node:
    """A format 4 entry as context and tree take it."""
    return Node(entry.id, entry.parent, entry.stamp, _VIEW(entry.raw))


class Conversation:
    """One session, open for turns.

    `saved` is False before its first completed turn; `source` is the session it goes on from (its own, or the
    one it derives from), None for a new one. With `whole` it is a copy of all that its source holds. `unsaved`
    are entries that are not in the store yet: what was taken over, and turns a failing disk would not take
    (`owes`).
    """

    def __init__(
        self, store: Store, facts: Facts, history: History, *, row: Row | None, copied: Row | None = None
    ) -> None:
        self.store = store
        self.facts = facts
        self.saved = row is not None
        before = row if row is not None else copied
        self.source = before.key if before is not None else None
        self.whole = copied is not None
        self.path: list[Node] = list(history.path)
        self.beside: list[Node] = list(history.beside)
        self.settings = history.settings
        self.newest_at = before.newest_at if before is not None and before.newest_id is not None else 0
        self.unsaved: list[Entry] = []
        self.owes = False
        self.new_name = ""
        self.in_flight = ""
        self._replaced: list[str] = []
        self._answered = False
        self._claimed = False

    @property
    def key(self) -> SessionKey:
        return self.facts.key

    @property
    def leaf(self) -> str | None:
        return self.path[-1].id if self.path else None

    def claim(self, now: int, *, force: bool = False) -> Claim | None:
        """Become the session's writer; the claim of another living process otherwise."""
        held = self.store.claim(self.key, now, force=force)
        self._claimed = held is None
        return held

    def close(self) -> None:
        """Give the session back. StoreWriteError when completed turns are still not on the disk."""
        try:
            self.flush()
        finally:
            if self._claimed:
                self.store.release(self.key)
                self._claimed = False

    def draft(self, now: int) -> "Draft":
        """The entries of the next turn, hanging where the conversation stands."""
        return Draft(self, now)

    def begin(self, draft: "Draft", prompt: str, now: int) -> None:
        """Keep the prompt on the disk, in the place of an earlier unfinished turn of ours."""
        self.flush()
        if self.in_flight:
            self._replaced.append(self.in_flight)
            self.in_flight = ""
        turn = secrets.token_hex(8)
        begun = Begun(self.facts, prompt, now, [*self.unsaved, *draft.entries], len(self.unsaved), self.whole)
        self.store.begin(turn, self.source, begun, instead=self._replaced)
        self.in_flight, self._answered, self._replaced = turn, False, []

    def answered(self, entry: Entry) -> None:
        """Keep the complete answer on the disk: from here on the turn cannot be lost."""
        if self.in_flight:
            self.store.answer(self.in_flight, Answered([entry], last=True))
            self._answered = True

    def complete(self, draft: "Draft") -> None:
        """Enter the turn: everything or nothing. On StoreWriteError the turn stays in memory and goes in with the
        next one."""
        added = [node(e) for e in draft.entries]
        self.path.extend(added)
        said = settings(added)
        tools = said.tools if said.tools is not None else self.settings.tools
        self.settings = Settings(said.provider, said.model, said.effort or self.settings.effort, tools)
        self.newest_at = max(self.newest_at, draft.entries[-1].stamp)
        self.new_name = ""
        self.unsaved.extend(draft.entries)
        self.owes = True
        self.flush()

    def flush(self) -> None:
        """Enter completed turns that are not on the disk yet."""
        if not self.owes:
            return
        source = self.source if self.whole else None
        done = (self.in_flight, *self._replaced)
        enter(self.store, self.facts, self.unsaved, saved=self.saved, copied=source, done=done)
        self.saved, self.whole, self.source = True, False, self.key
        self.unsaved, self.owes, self.in_flight, self._replaced = [], False, "", []

    def roll_back(self) -> None:
        """Forget the turn in flight, unless its answer is complete: then the next open enters it."""
        if self.in_flight and not self._answered:
            self.store.drop(self.in_flight)
            self.in_flight = ""

    def stand(self, history: History) -> None:
        """Go on from another place of the session, whose path this is."""
        self.path, self.beside, self.settings = list(history.path), list(history.beside), history.settings

    def rename(self, name: str, now: int) -> None:
        """Give the session a name: now when it is there already, else with its first turn."""
        if not self.saved or self.owes:
            self.new_name = name
            return
        draft = self.draft(now)
        draft.add(lambda i, p, at: compose.session_info(i, p, at, name))
        enter(self.store, self.facts, draft.entries, saved=True)
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
        holder = talk.key if talk.saved else talk.source if talk.whole else None
        try:
            return holder is not None and talk.store.entry(holder, identity) is not None
        except NotFoundError:
            return False  # deleted meanwhile: entering says so


def enter(
    store: Store,
    facts: Facts,
    lines: Sequence[Entry],
    *,
    saved: bool,
    copied: SessionKey | None = None,
    done: Iterable[str] = (),
) -> None:
    """Put entries at the end of a session, making it if it is not `saved` yet, from all lines of `copied` if it is
    a copy. NotFoundError when the session was deleted meanwhile."""
    done = [turn for turn in done if turn]
    if not saved:
        there = copied is not None and store.get(copied) is not None
        before = store.read(copied) if copied is not None and there else iter(())
        try:
            store.create(facts, chain(before, lines), done=done)
        except SessionExistsError:
            if store.get(facts.key) is None:
                raise deleted() from None
        else:
            return
    try:
        store.append(facts.key, lines, done=done)
    except NotFoundError:
        raise deleted() from None


def deleted() -> NotFoundError:
    """A session that somebody deleted while a turn of it was made."""
    return NotFoundError(
        "The session was deleted meanwhile; the turn was not saved.", "Begin a new one: atomic"
    )
