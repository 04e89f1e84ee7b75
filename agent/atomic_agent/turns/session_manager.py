"""A session as a tree that a program reads and writes: entries, branches, labels, name, context. Asks no model.

Each call that adds something is on the disk when it returns, or raises and has added nothing. A new session comes to
be with its first entry, a copy is there at once. One program writes a session at a time: the first write claims it,
`close` gives it back.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_agent.turns import additions, copies, opening
from atomic_agent.turns.additions import Json
from atomic_agent.turns.conversation import Conversation, node
from atomic_agent.turns.history import History, load
from atomic_agent.turns.session_view import SessionView
from atomic_sessions import compose
from atomic_sessions.context import Settings
from atomic_sessions.entry import Text
from atomic_sessions.errors import AtomicError, BusyError, UsageError
from atomic_sessions.formats.upgrade import Marking
from atomic_sessions.ids import CUSTOM_ID, SessionKey

Clock = Callable[[], int]


def now_ms() -> int:
    """The time in ms."""
    return time.time_ns() // 1_000_000


class SessionManager(SessionView):
    """One session in one store. Made by `create`, `open`, `open_exact`, `continue_recent` and `fork`, or over an open
    conversation. The store stays its caller's. `cwd` is the working directory unless given."""

    def __init__(self, talk: Conversation, clock: Clock = now_ms) -> None:
        super().__init__(talk)
        self._clock = clock
        self._claimed = False

    def __repr__(self) -> str:
        return f"SessionManager({self.id!r} in {self.store.name!r})"

    # Which session.

    @classmethod
    def create(
        cls,
        store: Store,
        cwd: str | Path | None = None,
        *,
        session_id: str = "",
        stage: Marking | None = None,
        clock: Clock = now_ms,
    ) -> Self:
        """A new session in a folder, under an id of its own or a given one; `stage` marks it as internal to a
        workflow (B22). UsageError for an id that cannot be."""
        if session_id and not CUSTOM_ID.fullmatch(session_id):
            raise UsageError(
                "A session id holds letters, digits, dots, dashes and underscores.", "Choose another id."
            )
        return cls(opening.fresh(store, _folder(cwd), clock(), session=session_id, stage=stage), clock)

    @classmethod
    def open(
        cls,
        store: Store,
        wanted: str | SessionKey,
        cwd: str | Path | None = None,
        *,
        clock: Clock = now_ms,
    ) -> Self:
        """One that is there, by id as --session takes it, or by its key. A session of another agent goes on in a new
        one, which holds its context. NotFoundError, AmbiguousError."""
        folder = _folder(cwd)
        return cls(opening.resume(store, _key(store, wanted, folder), folder, clock()), clock)

    @classmethod
    def open_exact(
        cls,
        store: Store,
        session_id: str,
        cwd: str | Path | None = None,
        *,
        stage: Marking | None = None,
        clock: Clock = now_ms,
    ) -> Self:
        """The one with exactly this id in the folder's project, or a new one under it, as --session-id says (B8)."""
        found = opening.exact(store, session_id, store.project_of(_folder(cwd)))
        if found is None:
            return cls.create(store, cwd, session_id=session_id, stage=stage, clock=clock)
        return cls.open(store, found.key, cwd, clock=clock)

    @classmethod
    def continue_recent(cls, store: Store, cwd: str | Path | None = None, *, clock: Clock = now_ms) -> Self:
        """The newest session of a folder's project, or a new one."""
        folder = _folder(cwd)
        newest = next(iter(store.listed(project=store.project_of(folder), folder=folder, limit=1)), None)
        if newest is None:
            return cls.create(store, folder, clock=clock)
        return cls.open(store, newest.key, folder, clock=clock)

    @classmethod
    def fork(
        cls,
        store: Store,
        wanted: str | SessionKey,
        cwd: str | Path | None = None,
        *,
        session_id: str = "",
        clock: Clock = now_ms,
    ) -> Self:
        """A copy of a whole session under a new id, with its parent recorded. SessionExistsError when the project has
        a session of that id."""
        folder = _folder(cwd)
        made = cls(opening.forked(store, _key(store, wanted, folder), folder, clock(), session_id), clock)
        made._make()
        made._follow()
        return made

    def clone(self) -> Self:
        """A new session that holds this one's open branch. UsageError for an empty one."""
        self._begun()
        return self._opened(copies.clone(self.store, self.key, self._clock()))

    def fork_before(self, message: str) -> tuple[Self, str]:
        """A new session that holds what stood before a user message, and that message's text, to be said anew.
        UsageError for an entry of another kind."""
        self._begun()
        row, text = copies.before(self.store, self.key, message, self._clock())
        return self._opened(row), text

    # What is added to it. Each returns the new entry's id.

    def append(self, kind: str, /, **said: Json) -> str:
        """Any entry below the leaf, with members of its own; id, parent and time come from its place. NotFoundError
        for one that speaks of an entry which is not there."""
        additions.check(kind, said)
        for target in additions.spoken_of(kind, said):
            self._known(target)
        return self._add(lambda i, p, at: additions.line(kind, i, p, at, said))

    def append_message(self, message: Mapping[str, Json]) -> str:
        """A message as format 4 has it: {"role": "user" | "assistant" | "toolResult" | …, "content": …}."""
        return self.append("message", message={"timestamp": self._clock(), **message})

    def append_model_change(self, provider: str, model: str) -> str:
        return self.append("model_change", provider=provider, modelId=model)

    def append_thinking_level_change(self, level: str) -> str:
        return self.append("thinking_level_change", thinkingLevel=level)

    def append_active_tools_change(self, names: Sequence[str]) -> str:
        return self.append("active_tools_change", activeToolNames=list(names))

    def append_custom(self, custom_type: str, data: Json = None) -> str:
        """What an extension keeps; no model sees it."""
        return self.append("custom", customType=custom_type, **({} if data is None else {"data": data}))

    def append_custom_message(
        self, custom_type: str, content: Json, *, display: bool = True, **more: Json
    ) -> str:
        """What an extension says; the model reads it as the person's, unless `excludeFromContext=True`."""
        return self.append("custom_message", customType=custom_type, content=content, display=display, **more)

    def append_compaction(
        self,
        summary: str,
        first_kept: str | None,
        tokens_before: int,
        *,
        details: Mapping[str, Json] | None = None,
    ) -> str:
        """A boundary, from which on contexts start: the summary, then what stood from `first_kept` on, line for line
        (B18)."""
        return self.append(
            "compaction",
            summary=summary,
            firstKeptEntryId=first_kept,
            tokensBefore=tokens_before,
            details={**(details or {}), "strategy": "verbatim-lines"},
        )

    def append_session_summary(self, summary: str, through: str) -> str:
        """The one line lists show, cut to 160 characters, and the message up to which it holds."""
        return self.append(
            "session_summary", summary=additions.summary_line(summary), summarizedThroughId=through
        )

    def append_label(self, target: str, text: str) -> str:
        """A bookmark on an entry; an empty text takes it away."""
        return self.append("label", targetId=target, label=text.strip())

    def set_name(self, name: str) -> str:
        """The session's name; an empty one takes it away."""
        self._talk.new_name = ""
        return self.append("session_info", name=name.strip())

    # Where it stands.

    def select(self, entry_id: str) -> str | None:
        """Stand where a person who picks this entry goes on: before something they said, whose text is returned to be
        said anew, else at the entry (None)."""
        chosen = node(self._known(entry_id))
        if chosen.id == self.leaf:
            return None
        view = chosen.view
        if view.kind != "custom_message" and (view.kind, view.role) != ("message", "user"):
            self.branch(chosen.id)
            return None
        if chosen.parent is not None and self.entry(chosen.parent) is not None:
            self.branch(chosen.parent)
        else:
            self.reset()
        return "".join(block.text for block in view.blocks if isinstance(block, Text))

    def branch(self, entry_id: str) -> None:
        """Stand at an entry: what comes next hangs there, and what came after it stays as another branch."""
        self._stand(self._known(entry_id).id)
        self._follow()

    def reset(self) -> None:
        """Stand before everything: the conversation is empty, and all that was said stays in the tree."""
        if self.leaf is not None:
            self._stand(None)
            self._follow()

    def branch_with_summary(self, entry_id: str | None, summary: str, **more: Json) -> str:
        """Stand at an entry (None: before everything) and put a summary of what was left there (B27)."""
        if entry_id is not None:
            self._known(entry_id)
        talk = self._talk
        before = History(talk.path, [], talk.beside, talk.settings)
        self._stand(entry_id)
        try:
            return self.append("branch_summary", fromId=entry_id or "root", summary=summary, **more)
        except BaseException:
            talk.stand(before)
            raise

    # Whose it is.

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

    def close(self) -> None:
        """Give the session back to others. The store stays open."""
        self._claimed = False
        self._talk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, make: Callable[[str, str | None, int], bytes]) -> str:
        self.claim()
        talk = self._talk
        draft = talk.draft(self._clock())
        if name := talk.new_name:
            draft.add(lambda i, p, at: compose.session_info(i, p, at, name))
        made = draft.add(make)
        before = talk.settings, talk.newest_at, talk.new_name, talk.owes
        try:
            talk.complete(draft)
        except AtomicError:
            talk.settings, talk.newest_at, talk.new_name, talk.owes = before
            del talk.path[-len(draft.entries) :], talk.unsaved[-len(draft.entries) :]
            raise
        if not node(made).view.decides:
            self._follow()
        return made.id

    def _begun(self) -> None:
        if not self.saved:
            raise UsageError("Nothing is in this session yet.", "Copy it once it has an entry.")

    def _opened(self, row: Row) -> Self:
        return type(self).open(self.store, row.key, row.facts.cwd, clock=self._clock)

    def _make(self) -> None:
        """Put what was taken over into the store."""
        if not self.saved:
            self._talk.owes = True
            self._talk.flush()

    def _stand(self, leaf: str | None) -> None:
        self.claim()
        self._make()
        if leaf is None:
            self._talk.stand(History([], [], [], Settings()))
        else:
            self._talk.stand(load(self.store, self.store.open(self.key), leaf, with_lines=False))

    def _follow(self) -> None:
        """Have the session open where this stands, which only a message brings about by itself."""
        if self.store.leaf(self.key) != self.leaf:
            self.store.move(self.key, self.leaf)


def _folder(cwd: str | Path | None) -> str:
    return str(Path.cwd() if cwd is None else Path(cwd).absolute())


def _key(store: Store, wanted: str | SessionKey, folder: str) -> SessionKey:
    return wanted if isinstance(wanted, SessionKey) else store.find(wanted, store.project_of(folder)).key
