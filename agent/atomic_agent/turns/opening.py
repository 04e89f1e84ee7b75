"""Opening a conversation: a new one, one that is there, one taken over, one a kill interrupted.

Writes only what a dead process had completed (`settle`); everything else waits for a completed turn.
"""

import secrets

from atomic_agent.cache import claims, sessions, turns
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.cache.turns import PendingTurn
from atomic_agent.turns.conversation import AGENT, Conversation, enter, node
from atomic_agent.turns.derive import derive
from atomic_agent.turns.history import History, load
from atomic_sessions import compose
from atomic_sessions.context import Settings, settings
from atomic_sessions.entry import Facts
from atomic_sessions.ids import SessionKey, session_key


def settle(cache: Cache) -> int:
    """Enter turns whose answer was complete when their process died; returns how many."""
    me, count = claims.myself(), 0
    claims.sweep(cache, me)
    for turn in turns.pending(cache):
        if turn.complete and claims.holder(cache, turn.name, me) is None:
            with transaction(cache.connection):
                if not _is_dead(cache, turn):
                    enter(cache, turn.begun.facts, turn.entries)
                    count += 1
                turns.clear(cache, turn.turn)
    return count


def _is_dead(cache: Cache, turn: PendingTurn) -> bool:
    facts = turn.begun.facts
    return sessions.is_deleted(cache, SessionKey(facts.agent, facts.id, facts.scope))


def interrupted(cache: Cache, source: int, project: str | None) -> list[PendingTurn]:
    """Unfinished turns that no living process is making: of this row, and with `project` of its sessions
    that never came to be."""
    me = claims.myself()
    found = turns.pending(cache, session=source) if source else []
    found += turns.pending(cache, session=0, project=project) if project is not None else []
    left = [turn for turn in found if not turn.complete and claims.holder(cache, turn.name, me) is None]
    return sorted(left, key=lambda turn: turn.begun.at)


def fresh(cache: Cache | None, cwd: str, project: str, now: int, *, session: str = "") -> Conversation:
    """A conversation in a new session, which comes to be with its first completed turn."""
    return Conversation(cache, _facts(cwd, project, now, session=session), _nothing(), row=None)


def resume(
    cache: Cache, row: sessions.SessionRow, cwd: str, project: str, now: int, *, fork: bool = False
) -> Conversation:
    """Go on with a session; one of another agent, or a fork, goes on in a new session."""
    if row.agent == AGENT and not fork:
        return Conversation(cache, row.facts, load(cache, row), row=row)
    history = load(cache, row, whole=row.agent == AGENT)
    talk = Conversation(cache, _facts(cwd, project, now, parent=row.id), _nothing(), row=None)
    talk.unsaved = derive(row.agent, row.id, history)
    talk.path = [node(e) for e in talk.unsaved]
    talk.settings, talk.source, talk.newest_at = history.settings, row.key, row.newest_at
    return talk


def again(cache: Cache, turn: PendingTurn, cwd: str, project: str, now: int) -> Conversation:
    """The conversation an interrupted turn was part of, as it stood before it; the next turn there takes
    its place."""
    facts = turn.begun.facts
    row = sessions.by_key(cache, SessionKey(facts.agent, facts.id, facts.scope))
    if row is not None:
        talk = resume(cache, row, cwd, project, now)
    else:
        talk = Conversation(cache, facts, _nothing(), row=None)
        talk.source = turn.session
        talk.unsaved = turn.begun.entries[: turn.begun.taken]
        talk.path = [node(e) for e in talk.unsaved]
        talk.settings = settings(talk.path)
        talk.newest_at = max((n.stamp for n in talk.path), default=0)
    talk.in_flight = turn.turn
    return talk


def _nothing() -> History:
    return History([], [], [], Settings())


def _facts(cwd: str, project: str, now: int, *, session: str = "", parent: str = "") -> Facts:
    identity = session or compose.session_id(now, secrets.token_bytes(10))
    key = session_key(AGENT, identity, project)
    header = compose.header(identity, now, cwd, project=project, parent=parent)
    return Facts(AGENT, identity, key.scope, cwd, project, now, parent, header=header)
