"""What every store of sessions can do, whatever it keeps them in. Keeps nothing itself and knows no store.

A session is called by its `SessionKey`, the one in the `Row` that the store gives. What a store cannot do it
refuses with UnsupportedError; what it cannot reach is a StoreUnavailableError; neither is ever answered by
another store.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from atomic_agent.cache.claims import Claim
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.rows import Hit, Row
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.ids import SessionKey


class InFlight(Struct, frozen=True):
    """A turn that was begun and not entered yet. `source` is the session it goes on from: its own, the one
    it was taken over from, or None for a new one."""

    turn: str
    source: SessionKey | None
    begun: Begun
    answered: list[Answered]

    def __repr__(self) -> str:
        return f"<InFlight {self.turn}>"

    @property
    def complete(self) -> bool:
        """True when its answer is whole and only waits to be entered."""
        return bool(self.answered) and self.answered[-1].last

    @property
    def entries(self) -> list[Entry]:
        return [*self.begun.entries, *(entry for part in self.answered for entry in part.entries)]


def branch(store: "Store", session: SessionKey, leaf: str | None) -> list[Entry]:
    """The entries from the root to a leaf."""
    return list(store.climb(session, leaf))[::-1]


class Store(Protocol):
    """Every call is durable when it returns, or raises and has changed nothing.

    Entries that come in keep id, parent and bytes and are given the next places; a line that is there already
    is not entered twice, so whatever was interrupted can be done again. Calls on a session that is not there
    raise NotFoundError; a disk that refuses raises StoreWriteError.
    """

    @property
    def name(self) -> str:
        """What a person is told the store is."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of a command line that leads back to this store (B6); none for one that ends with us."""

    @property
    def syncs(self) -> bool:
        """True for the one store whose sessions travel to the person's other machines."""

    def project_of(self, folder: str) -> str:
        """Which project a folder is here; empty for no folder, which is in no project."""

    # Sessions.

    def deleted(self, session: SessionKey) -> bool:
        """True when a person deleted it and nothing brings it back: no session of this identity can be made."""

    def create(self, facts: Facts, entries: Iterable[Entry] = (), *, done: Iterable[str] = ()) -> Row:
        """Make a session with its first entries, all or nothing; SessionExistsError when its id is taken in its
        project. The turns `done` are in flight no longer. A `leaf` line at the end is where it opens."""

    def get(self, session: SessionKey) -> Row | None:
        """The session of this identity."""

    def open(self, session: SessionKey) -> Row:
        """Make a session ready to be gone on with: of all calls that read, the only one that may write."""

    def find(self, wanted: str, project: str) -> Row:
        """The session a person means, by `rows.choose`: NotFoundError, or AmbiguousError with the ids."""

    def listed(
        self,
        *,
        project: str | None = None,
        folder: str = "",
        internal: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> Iterator[Row]:
        """A page of sessions, newest message first; of one project (which is that of `folder`), or of all."""

    def called(self, rows: Sequence[Row]) -> list[str]:
        """What each of its sessions can be called in a command: eight characters where they are enough, else
        the whole id."""

    def search(self, query: str, *, limit: int = 50) -> Iterator[Hit]:
        """Sessions with an entry that holds every word, newest message first, one hit each. The last word may be
        a beginning; "quoted words" are a phrase."""

    def delete(self, session: SessionKey) -> None:
        """Take a session away, with what is in flight for it; where sub-agents' sessions are captured with it, they
        go too."""

    # Entries of a session.

    def append(self, session: SessionKey, entries: Sequence[Entry], *, done: Iterable[str] = ()) -> None:
        """Enter a completed turn, all its lines or none; the turns `done` are in flight no longer."""

    def read(self, session: SessionKey, first: int = 0) -> Iterator[Entry]:
        """Its lines in canonical order, loose ones too; from place `first` on."""

    def climb(self, session: SessionKey, leaf: str | None) -> Iterator[Entry]:
        """The entries of a branch, one by one from its leaf up to the root."""

    def ends(self, session: SessionKey) -> int:
        """How many branches end in a message: user or assistant messages that none follows."""

    def entry(self, session: SessionKey, entry_id: str) -> Entry | None:
        """One of its entries."""

    def leaf(self, session: SessionKey) -> str | None:
        """Where it opens: the end of the branch that holds the newest message, or where a person moved; None
        for an empty conversation."""

    def move(self, session: SessionKey, leaf: str | None) -> None:
        """Stand at another entry, until a later message comes; NotFoundError when there is none by that id."""

    # Who writes, and what is being made.

    def holder(self, session: SessionKey) -> Claim | None:
        """The living process other than this one that writes a session."""

    def claim(self, session: SessionKey, now: int, *, force: bool = False) -> Claim | None:
        """Become the writer of a session, which may not be there yet; the claim of another living process
        instead, unless forced."""

    def release(self, session: SessionKey) -> None:
        """Give a session back; another's claim stays."""

    def begin(
        self, turn: str, source: SessionKey | None, begun: Begun, *, instead: Iterable[str] = ()
    ) -> None:
        """Keep a prompt before it is sent, outside the session; `instead` are the turns it takes the place of."""

    def answer(self, turn: str, said: Answered) -> None:
        """Keep what a model has completed of a turn; nothing when somebody dropped that turn meanwhile."""

    def pending(self) -> list[InFlight]:
        """The turns that were begun and neither entered nor dropped, oldest first."""

    def drop(self, turn: str) -> None:
        """Forget a turn in flight."""

    def close(self) -> None:
        """Let go of what is open; claims of this process stay until released."""
