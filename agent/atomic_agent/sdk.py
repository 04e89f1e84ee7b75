"""The door for programs: conversations and sessions in a store of their choice, and the records of workflow runs.

Everything a program needs is named here; what lies behind may change. See docs/sdk.md. Prints nothing and asks
nobody: what a person would be told goes to `notify`, and a project's settings count only once it is trusted.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from atomic_agent.cache.run_records import Run, Stage
from atomic_agent.config import launch, way_back
from atomic_agent.config.precedence import Flags, Placed
from atomic_agent.config.selection import OwnSelection, Selection
from atomic_agent.keys import keystore, sources
from atomic_agent.locations import Home, home
from atomic_agent.stores.opening import Opened, open_runs, open_store
from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Hit, Row
from atomic_agent.stores.runs import RunStore
from atomic_agent.turns import picks
from atomic_agent.turns.choice import Choice, choose
from atomic_agent.turns.engine import Engine, Turn
from atomic_agent.turns.opening import settle
from atomic_agent.turns.providers.port import (
    Done,
    Endpoint,
    Event,
    Notice,
    Request,
    Stream,
    TextDelta,
    ThinkingDelta,
)
from atomic_agent.turns.session_manager import SessionManager, now_ms
from atomic_agent.turns.session_view import Context
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Image, Text, Thinking, ToolCall, ToolResult, Usage
from atomic_sessions.errors import (
    AmbiguousError,
    AtomicError,
    BadSessionFileError,
    BusyError,
    NotFoundError,
    ProviderError,
    SessionExistsError,
    StoreUnavailableError,
    StoreWriteError,
    UnsupportedError,
    UsageError,
)
from atomic_sessions.formats.upgrade import Marking
from atomic_sessions.pairing import ContextMessage

__all__ = [
    "AgentSession",
    "AmbiguousError",
    "AtomicError",
    "BadSessionFileError",
    "BusyError",
    "Context",
    "ContextMessage",
    "Done",
    "Entry",
    "Event",
    "Hit",
    "Image",
    "Marking",
    "NotFoundError",
    "Notice",
    "ProviderError",
    "Request",
    "Row",
    "Run",
    "RunStore",
    "SessionExistsError",
    "SessionManager",
    "Settings",
    "Stage",
    "Store",
    "StoreUnavailableError",
    "StoreWriteError",
    "Stream",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ToolCall",
    "ToolResult",
    "Turn",
    "UnsupportedError",
    "Usage",
    "UsageError",
    "create_agent_session",
    "now_ms",
    "open_session_store",
    "open_workflow_runs",
]

SessionStore = Store | Selection | Mapping[str, object] | None
"""A store, a selection as settings spell it (`{"path": …}`, `{"dir": …}`, `{"memory": True}`) or with its kind
(`{"kind": "sqlite", "path": …}`), or None: what variables and settings choose."""

OWN = "own"
"""What the provider and the model of a program are called that names none."""


def _silent(_: object) -> None:
    """Told nothing, says nothing."""


def open_session_store(
    session_store: SessionStore = None,
    *,
    cwd: str | Path | None = None,
    trust_project: bool = False,
    notify: Callable[[str], None] = _silent,
) -> Store:
    """Open the store that is chosen (B11, B13); a store is given back as it is. Whoever opens closes it.

    Raises UsageError for a choice that cannot be, and what the store raises when it cannot be opened:
    StoreUnavailableError, CacheRefusedError, KeyMissingError… Never another store instead (B2).
    """
    return _opened(session_store, _folder(cwd), trust_project, notify).store


@contextmanager
def open_workflow_runs(
    storage: Selection | Mapping[str, object] | None = None,
    *,
    cwd: str | Path | None = None,
    trust_project: bool = False,
    notify: Callable[[str], None] = _silent,
) -> Iterator[RunStore]:
    """The records of workflow runs, open for a block: where shared `storage` says, or in a store of their own.
    UnsupportedError for a store that has no place for them."""
    placed = _placed(storage, _folder(cwd), trust_project, notify, runs=storage is None)
    with open_runs(placed.selection, home(), now_ms, os.environ) as found:
        yield found


def create_agent_session(
    *,
    session_store: SessionStore = None,
    session_manager: SessionManager | None = None,
    cwd: str | Path | None = None,
    session: str | None = None,
    session_id: str | None = None,
    fork: str | None = None,
    import_file: str | Path | None = None,
    continue_recent: bool = False,
    name: str = "",
    stage: Marking | None = None,
    provider: str = "",
    model: str = "",
    effort: str = "",
    take_over: bool = False,
    trust_project: bool = False,
    environ: Mapping[str, str] | None = None,
    notify: Callable[[str], None] = _silent,
    stream: Stream | None = None,
) -> "AgentSession":
    """Open a conversation: a new one, or what one of `session`, `session_id`, `fork`, `import_file` and
    `continue_recent` selects, by the rules of the flags of those names (B8, B9).

    A `session_manager` brings its own session and store, which stay its owner's (B13). `stage` marks a new session as
    internal to a workflow, `name` names the session. `environ` holds the providers' keys and addresses (this process's
    variables by default); `stream` asks a model of your own, which needs no key. Raises UsageError, NotFoundError,
    AmbiguousError, SessionExistsError, BusyError and what the store raises.
    """
    given = {
        "session": session is not None,
        "session_id": session_id is not None and fork is None,
        "fork": fork is not None,
        "import_file": import_file is not None,
        "continue_recent": continue_recent,
        "session_manager": session_manager is not None,
    }
    chosen = [option for option, there in given.items() if there]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} cannot be used together.", "Choose one.")
    if session_manager is not None and session_store is not None:
        raise UsageError("A session_manager brings its own store.", "Leave session_store out.")
    if stage is not None and chosen not in ([], ["session_id"]):
        raise UsageError("Only a new session is marked as a stage's.", f"Leave stage or {chosen[0]} out.")
    flags = Settings(provider, model, effort)
    variables = os.environ if environ is None else environ
    if session_manager is not None:
        session_manager.claim(take_over=take_over)
        _name(session_manager, name)
        owned = Opened(session_manager.store, OwnSelection(session_manager.store))
        return AgentSession(session_manager, owned, flags, variables, notify, stream)
    folder = _folder(cwd)
    opened = _opened(session_store, folder, trust_project, notify)
    try:
        settle(opened.store, notify)
        manager = _selected(
            opened.store, str(folder), session, session_id, fork, import_file, stage, recent=continue_recent
        )
        manager.claim(take_over=take_over)
        _name(manager, name)
    except BaseException:
        opened.close()
        raise
    return AgentSession(manager, opened, flags, variables, notify, stream)


class AgentSession:
    """A conversation that answers. `manager` is its session as a tree. Use as a context manager."""

    def __init__(
        self,
        manager: SessionManager,
        opened: Opened,
        flags: Settings,
        environ: Mapping[str, str],
        notify: Callable[[str], None],
        stream: Stream | None,
    ) -> None:
        self.manager = manager
        self._opened = opened
        self._flags = flags
        self._environ = environ
        self._notify = notify
        self._stream = stream
        self._closed = False

    def __repr__(self) -> str:
        return f"AgentSession({self.manager!r})"

    @property
    def id(self) -> str:
        return self.manager.id

    @property
    def store(self) -> Store:
        return self.manager.store

    @property
    def resume_command(self) -> str | None:
        """The command that opens it again, store flags always with it (B6); None for what is not kept (yet)."""
        if not self.manager.saved:
            return None
        if isinstance(self._opened.selection, OwnSelection):
            flags = self.store.flags or None
        else:
            flags = way_back.flags(self._opened.selection) if self.store.flags else None
        return None if flags is None else way_back.command(way_back.arguments(flags, self.id))

    def prompt(self, text: str, on_event: Callable[[Event], None] = _silent) -> Turn:
        """Say something and wait for the answer, of which `on_event` is told as it comes. The completed turn is in the
        store when this returns. After a ProviderError, or what `on_event` raises, nothing of it is; after a
        StoreWriteError an answer that was told already is entered with the next turn, or by `close`."""
        if self._closed:
            raise UsageError("This conversation is closed.", "Open it again by its id.")
        talk = self.manager.talk
        choice = self._choice()
        for note in choice.notes:
            self._notify(note)
        engine = Engine(talk, clock=now_ms, tell=on_event, patient=False, stream=self._stream)
        try:
            return engine.run(choice, text)
        except StoreWriteError:
            raise
        except BaseException:
            talk.roll_back()
            raise

    def set_model(self, *, provider: str = "", model: str = "", effort: str = "") -> None:
        """What the next prompts are asked of; what is left out stays."""
        now = self._flags
        self._flags = Settings(provider or now.provider, model or now.model, effort or now.effort)

    def close(self) -> None:
        """Give the session back, and the store unless it is a caller's. Closing twice does nothing more."""
        if self._closed:
            return
        self._closed = True
        try:
            self.manager.close()
        finally:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _choice(self) -> Choice:
        flags, said = self._flags, self.manager.talk.settings
        if self._stream is not None:
            provider, effort = flags.provider or OWN, flags.effort or said.effort
            return Choice(
                provider, flags.model or OWN, effort, Endpoint(provider, "openai-chat", "", "", "", "")
            )
        return choose(flags, self._environ, said, picks.load(home()), _kept_keys)


def _kept_keys() -> dict[str, str]:
    key = sources.find(home())
    return keystore.load(home(), key).provider_keys if key is not None else {}


def _folder(cwd: str | Path | None) -> Path:
    return Path(cwd).absolute() if cwd is not None else Path.cwd()


def _name(manager: SessionManager, name: str) -> None:
    """Now when the session is there already, else with its first entry."""
    if name and manager.saved:
        manager.set_name(name)
    elif name:
        manager.talk.rename(name, now_ms())


def _placed(
    given: object, folder: Path, trust_project: bool, notify: Callable[[str], None], *, runs: bool = False
) -> Placed:
    at: Home = home()
    folders = launch.folders_of(at, folder)
    found = launch.placement(
        at, folders, Flags(), os.environ, now=now_ms(), approve=trust_project, tell=notify, sdk=given
    )
    return found.runs if runs else found.sessions


def _opened(given: SessionStore, folder: Path, trust_project: bool, notify: Callable[[str], None]) -> Opened:
    placed = _placed(given, folder, trust_project, notify)
    opened = open_store(placed.selection, home(), now_ms, os.environ)
    for notice in opened.notices:
        notify(notice)
    return opened


def _selected(
    store: Store,
    cwd: str,
    session: str | None,
    session_id: str | None,
    fork: str | None,
    source: str | Path | None,
    stage: Marking | None,
    *,
    recent: bool,
) -> SessionManager:
    if recent:
        return SessionManager.continue_recent(store, cwd)
    if session is not None:
        return SessionManager.open(store, session, cwd)
    if fork is not None:
        return SessionManager.fork(store, fork, cwd, session_id=session_id or "")
    if source is not None:
        # It knows how to reach the service, whose client costs a third of this module's start.
        from atomic_agent.publish.importing import import_file, import_link, is_link

        text = str(source)
        row = import_link(store, text, cwd) if is_link(text) else import_file(store, Path(source), cwd)
        return SessionManager.open(store, row.key, cwd)
    if session_id is not None:
        return SessionManager.open_exact(store, session_id, cwd, stage=stage)
    return SessionManager.create(store, cwd, stage=stage)
