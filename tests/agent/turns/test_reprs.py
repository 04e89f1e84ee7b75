"""What an object shows of itself, as a traceback or a log might print it, holds nothing that was said (A6)."""

from atomic_agent.cache.digest import Digest
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores.memory import MemoryStore
from atomic_agent.stores.port import InFlight, branch
from atomic_agent.turns import opening
from atomic_agent.turns.choice import Choice
from atomic_agent.turns.conversation import node
from atomic_agent.turns.engine import Engine
from atomic_agent.turns.history import load
from atomic_agent.turns.providers.port import Done, Endpoint, Request
from atomic_sessions.context import history
from atomic_sessions.entry import Text, Usage

SAID = "the words that nobody else should read"
NOW = 1_796_043_907_321


def test_nothing_that_was_said_is_in_a_repr() -> None:
    """Entries and all that is made of them: rows, hits, turns, histories, contexts."""
    store = MemoryStore()
    talk = opening.fresh(store, "/p", NOW)
    talk.rename(SAID, NOW)
    asked: list[Request] = []

    def stream(request: Request):  # type: ignore[no-untyped-def]  # a generator of events
        asked.append(request)
        yield Done((Text(SAID),), Usage(), "stop", "m", "r")

    engine = Engine(talk, clock=lambda: NOW, tell=lambda _: None, patient=False, stream=stream)
    turn = engine.run(Choice("openai", "m", "", Endpoint("openai", "openai-chat", "", "", "", "")), SAID)
    row = store.open(talk.key)
    entries = branch(store, talk.key, talk.leaf)
    begun = Begun(talk.facts, SAID, NOW, entries)
    shown = [
        turn,
        row,
        list(store.search("words")),
        entries,
        [node(entry) for entry in entries],
        begun,
        InFlight("t", None, begun, [Answered(entries, last=True)]),
        load(store, row),
        history(talk.path, [], provider="openai"),
        asked,
        Digest(first_message=SAID),
    ]
    assert SAID in row.first_message
    assert [one for one in shown if "nobody" in repr(one)] == []
