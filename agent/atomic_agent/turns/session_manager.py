"""A session as a tree that a program reads and writes: entries, branches, labels, name, context. Asks no model.

Each call that adds something is on the disk when it returns. The session comes to be with its first entry. One
program writes a session at a time: the first write claims it, `close` gives it back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from atomic_agent.stores.port import Store, branch
from atomic_agent.stores.rows import Row
from atomic_agent.turns import opening
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.history import load, reader
from atomic_sessions import compose, context, tree
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Node
from atomic_sessions.errors import BusyError, NotFoundError, UsageError
from atomic_sessions.formats.upgrade import Marking
from atomic_sessions.ids import CUSTOM_ID, SessionKey
from atomic_sessions.pairing import ContextMessage

Clock = Callable[[], int]


class Context(Struct, frozen=True):
    """What a model would be sent from a leaf, and with which settings."""

    messages: tuple[ContextMessage, ...]
    settings: Settings


class SessionManager:
    """One session in one store. Made by `create`, `open`, `continue_recent` and `fork`, or over an open conversation.
    The store stays its caller's."""

    def __init__(self, talk: Conversation, clock: Clock) -> None:
        self._talk = talk
        self._clock = clock
        self._claimed = False

    def __repr__(self) -> str:
        return f"SessionManager({self.id!r} in {self.store.name!r})"

    # Which session.

    @classmethod
    def create(
        cls, store: Store, cwd: str, clock: Clock, *, session_id: str = "", stage: Marking | None = None
    ) -> Self:
        """A new session in a folder, under an id of its own or a given one; `stage` marks it as internal to a
        workflow (B22). UsageError for an id that cannot be."""
        if session_id and not CUSTOM_ID.fullmatch(session_id):
            raise UsageError(
                "A session id holds letters, digits, dots, dashes and underscores.", "Choose another id."
            )
        return cls(opening.fresh(store, cwd, clock(), session=session_id, stage=stage), clock)

    @classmethod
    def open(cls, store: Store, wanted: str | SessionKey, cwd: str, clock: Clock) -> Self:
        """One that is there, by id as --session takes it, or by its key. NotFoundError, AmbiguousError."""
        key = wanted if isinstance(wanted, SessionKey) else store.find(wanted, store.project_of(cwd)).key
        return cls(opening.resume(store, key, cwd, clock()), clock)

    @classmethod
    def open_exact(
        cls, store: Store, session_id: str, cwd: str, clock: Clock, *, stage: Marking | None = None
    ) -> Self:
        """The one with exactly this id in the folder's project, or a new one under it, as --session-id says (B8)."""
        found = opening.exact(store, session_id, store.project_of(cwd))
        if found is None:
            return cls.create(store, cwd, clock, session_id=session_id, stage=stage)
        return cls.open(store, found.key, cwd, clock)

    @classmethod
    def continue_recent(cls, store: Store, cwd: str, clock: Clock) -> Self:
        """The newest session of a folder's project, or a new one."""
        newest = next(iter(store.listed(project=store.project_of(cwd), folder=cwd, limit=1)), None)
        return cls.create(store, cwd, clock) if newest is None else cls.open(store, newest.key, cwd, clock)

    @classmethod
    def fork(
        cls, store: Store, wanted: str | SessionKey, cwd: str, clock: Clock, *, session_id: str = ""
    ) -> Self:
        """A copy of a whole session under a new id, with its parent recorded; made with its first entry.
        SessionExistsError when the project has a session of that id."""
        key = wanted if isinstance(wanted, SessionKey) else store.find(wanted, store.project_of(cwd)).key
        return cls(opening.forked(store, key, cwd, clock(), session_id), clock)

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
        """What lists show of it."""
        return self.store.get(self.key) if self.saved else None

    @property
    def name(self) -> str:
        found = self.row
        return found.name if found is not None else self._talk.new_name

    # What is in it.

    def entries(self) -> Iterator[Entry]:
        """All its entries in canonical order, those of every branch."""
        return self.store.read(self.key) if self.saved else iter(())

    def entry(self, entry_id: str) -> Entry | None:
        return self.store.entry(self.key, entry_id) if self.saved else None

    def path(self, leaf: str | None = None) -> list[Entry]:
        """The entries from the root to a leaf, to where it stands by default."""
        at = self.leaf if leaf is None else leaf
        return branch(self.store, self.key, at) if self.saved else []

    def tree(self) -> tree.Tree:
        """Parents and children of all entries."""
        return tree.build(self._nodes())

    def labels(self) -> dict[str, str]:
        """The label of each entry that has one."""
        return tree.labels(self._nodes())

    def context(self, leaf: str | None = None, *, provider: str = "") -> Context:
        """What a model is sent from a leaf: from its last compaction on, kept lines as they were saved, each call with
        its result (formats/atomic-sessions.md section 7.3). Only Anthropic gets its signed thinking back."""
        if leaf is None or not self.saved:
            talk = self._talk
            said = context.history(talk.path, talk.beside, provider=provider)
            return Context(tuple(said), talk.settings)
        row = self.store.open(self.key)
        found = load(self.store, row, leaf, with_lines=False)
        said = context.history(found.path, found.beside, provider=provider)
        return Context(tuple(said), found.settings)

    def _nodes(self) -> list[Node]:
        view = reader(self._talk.facts.agent, internal=self._talk.facts.internal)
        return [
            Node(entry.id, entry.parent, entry.stamp, view(entry.raw))
            for entry in self.entries()
            if not entry.loose
        ]

    # What is added to it. Each returns the new entry's id.

    def append(self, kind: str, **members: Any) -> str:  # JSON of any shape
        """Any entry below the leaf, with its own members; those of its place are given here."""
        if not kind or {"id", "parentId", "type", "timestamp"} & members.keys():
            raise UsageError(
                "An entry's type, id, parent and time are given by its place.", "Leave them out."
            )
        if kind in {"session", "leaf"}:
            raise UsageError(f"'{kind}' is no entry of the tree.", "Use the calls of the session manager.")
        return self._add(lambda i, p, at: compose.entry(kind, i, p, at, **members))

    def append_message(self, message: Mapping[str, Any]) -> str:  # JSON of any shape
        """A message as format 4 has it: {"role": "user" | "assistant" | "toolResult" | …, "content": …}."""
        if not isinstance(message.get("role"), str):
            raise UsageError("A message needs a role.", 'Give {"role": "user", "content": "…"}.')
        now = self._clock()
        return self._add(lambda i, p, at: compose.message(i, p, at, {"timestamp": now, **message}))

    def append_model_change(self, provider: str, model: str) -> str:
        return self._add(lambda i, p, at: compose.model_change(i, p, at, provider, model))

    def append_thinking_level_change(self, level: str) -> str:
        return self._add(lambda i, p, at: compose.thinking_level_change(i, p, at, level))

    def append_active_tools_change(self, names: Sequence[str]) -> str:
        return self._add(lambda i, p, at: compose.active_tools_change(i, p, at, names))

    def append_custom(self, custom_type: str, data: object = None) -> str:
        """What an extension keeps; no model sees it."""
        return self.append("custom", customType=custom_type, data=data)

    def append_custom_message(
        self, custom_type: str, content: object, *, display: bool = True, **more: object
    ) -> str:
        """What an extension says; the model reads it as the person's."""
        return self.append("custom_message", customType=custom_type, content=content, display=display, **more)

    def append_compaction(
        self,
        summary: str,
        first_kept: str | None,
        tokens_before: int,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> str:
        """A boundary, from which on contexts start; it holds as a verbatim one, others are inert (B18)."""
        self._known(first_kept)
        said = {"strategy": "verbatim-lines", **(details or {})}
        return self.append(
            "compaction",
            summary=summary,
            firstKeptEntryId=first_kept,
            tokensBefore=tokens_before,
            details=said,
        )

    def append_session_summary(self, summary: str, through: str) -> str:
        """The one line lists show, and the message up to which it holds."""
        self._known(through)
        line = " ".join(summary.split())
        return self.append("session_summary", summary=line, summarizedThroughId=through)

    def append_label(self, target: str, text: str) -> str:
        """A bookmark on an entry; an empty text takes it away."""
        self._known(target)
        return self._add(lambda i, p, at: compose.label(i, p, at, target, text))

    def set_name(self, name: str) -> str:
        """The session's name; an empty one takes it away."""
        return self._add(lambda i, p, at: compose.session_info(i, p, at, name))

    # Where it stands.

    def branch(self, entry_id: str) -> None:
        """Stand at an entry: what comes next hangs there, and what came after it stays as another branch."""
        self._known(entry_id)
        self._stand(entry_id)

    def reset(self) -> None:
        """Stand before everything: the conversation is empty, and all that was said stays in the tree."""
        self._stand(None)

    def branch_with_summary(self, entry_id: str | None, summary: str, **more: object) -> str:
        """Stand at an entry (None: before everything) and put a summary of what was left there (B27)."""
        self._known(entry_id)
        left = self.leaf or "root"
        self._stand(entry_id)
        return self.append("branch_summary", fromId=left, summary=summary, **more)

    def close(self) -> None:
        """Give the session back to others. The store stays open."""
        self._talk.close()
        self._claimed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def claim(self, *, take_over: bool = False) -> None:
        """Become the session's one writer, as the first write does. BusyError while another process is."""
        if self._claimed:
            return
        held = self._talk.claim(self._clock(), force=take_over)
        if held is not None:
            raise BusyError(
                f"Another program is writing this session (process {held.process.pid} on {held.process.host}).",
                "End it, or work on a fork.",
            )
        self._claimed = True

    def _add(self, make: Callable[[str, str | None, int], bytes]) -> str:
        self.claim()
        draft = self._talk.draft(self._clock())
        made = draft.add(make)
        self._talk.complete(draft)
        return made.id

    def _known(self, entry_id: str | None) -> None:
        if entry_id is not None and self.entry(entry_id) is None:
            raise NotFoundError(
                f"There is no entry '{entry_id[:64]}' in this session.", "Take an id from entries()."
            )

    def _stand(self, leaf: str | None) -> None:
        if not self.saved:
            return
        self.claim()
        self.store.move(self.key, leaf)
        self._talk.stand(load(self.store, self.store.open(self.key), with_lines=False))
