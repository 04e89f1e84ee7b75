"""A session as a tree that a program reads: what it is, its entries and branches, labels, context. Changes nothing."""

from collections.abc import Iterator

from msgspec import Struct

from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_agent.turns.conversation import Conversation, node
from atomic_sessions import context, tree
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Node
from atomic_sessions.errors import NotFoundError
from atomic_sessions.ids import SessionKey
from atomic_sessions.pairing import ContextMessage


class Context(Struct, frozen=True):
    """What a model would be sent from a leaf, and with which settings."""

    messages: tuple[ContextMessage, ...]
    settings: Settings

    def __repr__(self) -> str:
        return f"Context({len(self.messages)} messages, {self.settings!r})"


class SessionView:
    """One session of one store, through an open conversation: what the store holds and what is not in it yet."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk

    # What it is.

    @property
    def store(self) -> Store:
        return self._talk.store

    @property
    def talk(self) -> Conversation:
        """The open conversation, for whoever makes turns in it."""
        return self._talk

    @property
    def id(self) -> str:
        return self._talk.facts.id

    @property
    def key(self) -> SessionKey:
        return self._talk.key

    @property
    def cwd(self) -> str:
        return self._talk.facts.cwd

    @property
    def header(self) -> bytes:
        """Its first line as a JSONL file has it."""
        return self._talk.facts.header

    @property
    def saved(self) -> bool:
        """False before its first entry."""
        return self._talk.saved

    @property
    def leaf(self) -> str | None:
        """Where the next entry hangs; None for an empty conversation."""
        return self._talk.leaf

    @property
    def row(self) -> Row | None:
        """What lists show of it; None before its first entry."""
        return self.store.get(self.key) if self.saved else None

    @property
    def name(self) -> str:
        found = self.row
        return found.name if found is not None else self._talk.new_name

    # What is in it.

    def entries(self) -> Iterator[Entry]:
        """All its entries in canonical order, those of every branch."""
        holder = self._holder
        if holder is not None:
            yield from self.store.read(holder)
        yield from self._talk.unsaved

    def entry(self, entry_id: str) -> Entry | None:
        """One of its entries, by id."""
        for entry in self._talk.unsaved:
            if entry.id == entry_id:
                return entry
        return self.store.entry(self._holder, entry_id) if self._holder is not None else None

    def path(self, leaf: str | None = None) -> list[Entry]:
        """The entries from the root to a leaf, to where it stands by default. NotFoundError for an unknown leaf."""
        at = self.leaf if leaf is None else self._known(leaf).id
        new = {entry.id: entry for entry in self._talk.unsaved}
        found: list[Entry] = []
        while at in new:
            found.append(new[at])
            at = new[at].parent
        if self._holder is not None:
            found.extend(self.store.climb(self._holder, at))
        return found[::-1]

    def tree(self) -> tree.Tree:
        """Parents and children of all entries."""
        return tree.build(self._nodes())

    def labels(self) -> dict[str, str]:
        """The label of each entry that has one."""
        return tree.labels(self._nodes())

    def context(self, leaf: str | None = None, *, provider: str = "") -> Context:
        """What a model is sent from a leaf: from its last compaction on, kept lines as they were saved, each call with
        its result (formats/atomic-sessions.md section 7.3). Only Anthropic gets its signed thinking back."""
        path = [node(entry) for entry in self.path(leaf)]
        said = context.history(path, (), provider=provider)
        return Context(tuple(said), context.settings(path))

    @property
    def _holder(self) -> SessionKey | None:
        """The session whose lines in the store are this one's."""
        talk = self._talk
        return talk.key if talk.saved else talk.source if talk.whole else None

    def _nodes(self) -> list[Node]:
        return [node(entry) for entry in self.entries() if not entry.loose]

    def _known(self, entry_id: object) -> Entry:
        found = self.entry(entry_id) if isinstance(entry_id, str) else None
        if found is None or found.loose:
            raise NotFoundError(
                f"There is no entry '{str(entry_id)[:64]}' in this session.", "Take an id from entries()."
            )
        return found
