"""Opening a conversation: a new one, one that is there, one taken over, one a kill interrupted.

Writes only what a dead process had completed (`settle`), and what a store does to make a session ready
(`Store.open`); everything else waits for a completed turn.
"""

import secrets
from collections.abc import Callable

import msgspec

from atomic_agent.config.way_back import quoted
from atomic_agent.projects import display
from atomic_agent.stores.port import InFlight, Store
from atomic_agent.stores.rows import Row
from atomic_agent.turns.conversation import AGENT, Conversation, enter, node
from atomic_agent.turns.derive import derive
from atomic_agent.turns.history import History, load
from atomic_sessions import compose
from atomic_sessions.context import Settings, settings
from atomic_sessions.entry import Facts
from atomic_sessions.errors import (
    AmbiguousError,
    AtomicError,
    NotFoundError,
    SessionExistsError,
    UsageError,
)
from atomic_sessions.formats.internal import marked
from atomic_sessions.formats.upgrade import Marking, marking, members
from atomic_sessions.ids import CUSTOM_ID, SessionKey, session_key


def settle(store: Store, tell: Callable[[str], None] = lambda _: None) -> int:
    """Enter turns whose answer was complete when their process died; returns how many. One that the store does not
    take now waits on, which `tell` is told."""
    count = 0
    for flight in store.pending():
        if flight.complete and store.holder(flight.begun.facts.key) is None:
            try:
                count += _entered(store, flight)
            except AtomicError as error:
                tell(f"A complete answer from before still waits to be saved: {error}")
    return count


def _entered(store: Store, flight: InFlight) -> bool:
    """False for a turn of a session that was deleted: nothing brings it back."""
    facts, source = flight.begun.facts, flight.source
    saved = source == facts.key
    copied = source if flight.begun.whole and source is not None and store.get(source) is not None else None
    try:
        enter(store, facts, flight.entries, saved=saved, copied=copied, done=[flight.turn])
    except NotFoundError:
        store.drop(flight.turn)
        return False
    return True


def interrupted(store: Store, source: SessionKey | None, project: str | None) -> list[InFlight]:
    """Unfinished turns that no living process is making: of this session, and with `project` of its sessions
    that never came to be."""
    left = []
    for flight in store.pending():
        facts = flight.begun.facts
        wanted = (
            flight.source == source
            if flight.source is not None
            else project is not None and facts.project == project
        )
        if wanted and not flight.complete and store.holder(facts.key) is None:
            left.append(flight)
    return left


def fresh(
    store: Store, cwd: str, now: int, *, session: str = "", stage: Marking | None = None
) -> Conversation:
    """A conversation in a new session, which comes to be with its first completed turn; of a workflow's `stage`."""
    facts = new_facts(store, cwd, now, session=session)
    if stage is not None:
        facts = msgspec.structs.replace(facts, header=marked(facts.header, stage), internal=True)
    return Conversation(store, facts, _nothing(), row=None)


def exact(store: Store, session: str, project: str) -> Row | None:
    """The session with exactly this id in this project, None when it can be made (B8). NotFoundError for one that was
    deleted, SessionExistsError for one that another project has and no other may have."""
    key = session_key(AGENT, session, project)
    if store.deleted(key):
        raise NotFoundError(f"The session '{session}' was deleted and stays deleted.", "Choose another id.")
    own = store.get(key)
    if own is None:
        return _of_another_agent(store, session, project)
    if own.facts.project != project:
        raise SessionExistsError(
            f"The session '{session}' belongs to another project, {display(own.facts.project)}.",
            f"Open it there, or here with: --session {quoted(session)}",
        )
    return own


def _of_another_agent(store: Store, session: str, project: str) -> Row | None:
    try:
        row = store.find(session, project)
    except AmbiguousError:
        raise
    except NotFoundError:
        return None
    return row if row.facts.id == session and row.facts.project == project else None


def resume(
    store: Store, session: SessionKey, cwd: str, now: int, *, fork: bool = False, new_id: str = ""
) -> Conversation:
    """Go on with a session; one of another agent, or a fork, goes on in a new session (B26)."""
    row = store.open(session)
    agent = row.facts.agent
    if agent == AGENT and not fork:
        return Conversation(store, row.facts, load(store, row, with_lines=False), row=row)
    facts = new_facts(store, cwd, now, parent=row, session=new_id)
    if agent == AGENT:
        return _copy(store, facts, row)
    history = load(store, row)
    talk = Conversation(store, facts, _nothing(), row=None)
    talk.unsaved = derive(agent, row.facts.id, history)
    talk.path = [node(e) for e in talk.unsaved]
    talk.settings, talk.source, talk.newest_at = history.settings, row.key, row.newest_at
    return talk


def forked(store: Store, session: SessionKey, cwd: str, now: int, new_id: str = "") -> Conversation:
    """A fork, under a given id if there is one. SessionExistsError when the project has that id already."""
    if new_id and not CUSTOM_ID.fullmatch(new_id):
        raise bad_id()
    if new_id and exact(store, new_id, store.project_of(cwd)) is not None:
        raise SessionExistsError(
            f"There is a session '{new_id}' in this project already; nothing was copied.",
            "Choose another id.",
        )
    return resume(store, session, cwd, now, fork=True, new_id=new_id)


def bad_id() -> UsageError:
    """An id that a new session cannot have."""
    return UsageError(
        "A session id holds letters, digits, dots, dashes and underscores, and begins and ends with a letter or digit.",
        "Choose another id.",
    )


def _copy(store: Store, facts: Facts, row: Row) -> Conversation:
    return Conversation(store, facts, load(store, row, with_lines=False), row=None, copied=row)


def again(store: Store, flight: InFlight, cwd: str, now: int) -> Conversation:
    """The conversation an interrupted turn was part of, as it stood before it; the next turn there takes
    its place."""
    facts, source = flight.begun.facts, flight.source
    if store.get(facts.key) is not None:
        talk = resume(store, facts.key, cwd, now)
    elif flight.begun.whole and source is not None and store.get(source) is not None:
        talk = _copy(store, facts, store.open(source))
    else:
        talk = Conversation(store, facts, _nothing(), row=None)
        talk.source = source
        talk.unsaved = flight.begun.entries[: flight.begun.taken]
        talk.path = [node(e) for e in talk.unsaved]
        talk.settings = settings(talk.path)
        talk.newest_at = max((n.stamp for n in talk.path), default=0)
    talk.in_flight = flight.turn
    return talk


def _nothing() -> History:
    return History([], [], [], Settings())


def new_facts(store: Store, cwd: str, now: int, *, session: str = "", parent: Row | None = None) -> Facts:
    """What a new session is, in a folder; one made from a stage's session is of the same stage (B22)."""
    identity = session or compose.session_id(now, secrets.token_bytes(10))
    project = store.project_of(cwd)
    scope = session_key(AGENT, identity, project).scope
    above = parent.facts.id if parent is not None else ""
    header = compose.header(identity, now, cwd, project=project, parent=above)
    facts = Facts(AGENT, identity, scope, cwd, project, now, above, header=header)
    if parent is not None and parent.facts.internal and parent.facts.agent == AGENT:
        stage = marking(members(parent.facts.header) or {})
        if stage is not None:
            facts = msgspec.structs.replace(facts, header=marked(header, stage), internal=True)
    return facts
