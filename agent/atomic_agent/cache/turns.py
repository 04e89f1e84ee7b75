"""What a turn in flight has completed, kept aside outside the session (A1, A7).

Never shown in lists, never synced. Each part is on the disk when its function returns.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.cache.packing import squeezed, unsqueezed
from atomic_sessions.entry import Entry, Facts


class Begun(Struct, frozen=True):
    """A turn's first part: the session it will be in, its prompt, and all entries up to it. The first
    `taken` of them are a conversation taken over from another session; `whole`: all lines of that session come
    before them."""

    facts: Facts
    prompt: str
    at: int
    entries: list[Entry]
    taken: int = 0
    whole: bool = False

    def __repr__(self) -> str:
        return f"<Begun at {self.at}>"


class Answered(Struct, frozen=True):
    """A later part; with `last` the turn is complete and only waits to be entered."""

    entries: list[Entry]
    last: bool

    def __repr__(self) -> str:
        return f"<Answered {len(self.entries)}>"


class PendingTurn(Struct, frozen=True):
    """A turn that was begun and not entered yet."""

    turn: str
    name: str
    session: int
    begun: Begun
    answered: list[Answered]

    def __repr__(self) -> str:
        return f"<PendingTurn {self.turn}>"

    @property
    def complete(self) -> bool:
        return bool(self.answered) and self.answered[-1].last

    @property
    def entries(self) -> list[Entry]:
        return [*self.begun.entries, *(entry for part in self.answered for entry in part.entries)]


def begin(
    cache: Cache, turn: str, name: str, session: int, begun: Begun, *, instead: Iterable[str] = ()
) -> None:
    """Keep a prompt before it is sent; `instead` are the turns it takes the place of."""
    with transaction(cache.connection):
        for old in instead:
            clear(cache, old)
        _put(cache, turn, 0, name, session, begun.facts.project, msgspec.msgpack.encode(begun))


def answer(cache: Cache, turn: str, said: Answered) -> None:
    """Keep what the model has completed of a turn that was begun."""
    with transaction(cache.connection):
        cache.connection.execute(
            cache.sql(
                "INSERT INTO {p}session_turns (turn, part, name, session, project, raw)"
                " SELECT turn, max(part) + 1, name, session, project, ? FROM {p}session_turns WHERE turn = ?"
                " GROUP BY turn"
            ),
            (squeezed(msgspec.msgpack.encode(said)), turn),
        )


def _put(cache: Cache, turn: str, part: int, name: str, session: int, project: str, raw: bytes) -> None:
    cache.connection.execute(
        cache.sql(
            "INSERT INTO {p}session_turns (turn, part, name, session, project, raw) VALUES (?, ?, ?, ?, ?, ?)"
        ),
        (turn, part, name, session, project, squeezed(raw)),
    )


def clear(cache: Cache, turn: str) -> None:
    """Forget a turn: it was entered, or a person dropped it."""
    cache.connection.execute(cache.sql("DELETE FROM {p}session_turns WHERE turn = ?"), (turn,))


def pending(cache: Cache, *, session: int | None = None, project: str | None = None) -> list[PendingTurn]:
    """Turns that were begun, oldest first: of one row, of a project's new sessions (`session` 0), or all."""
    where, values = ["1"], list[object]()
    if session is not None:
        where.append("session = ?")
        values.append(session)
    if project is not None:
        where.append("project = ?")
        values.append(project)
    rows = cache.connection.execute(
        cache.sql(
            "SELECT turn, part, name, session, raw FROM {p}session_turns"
            f" WHERE {' AND '.join(where)} ORDER BY turn, part"
        ),
        tuple(values),
    ).fetchall()
    found: dict[str, PendingTurn] = {}
    for turn, part, name, key, raw in rows:
        plain = unsqueezed(bytes(raw))
        if part == 0:
            found[turn] = PendingTurn(turn, name, key, msgspec.msgpack.decode(plain, type=Begun), [])
        elif turn in found:
            found[turn].answered.append(msgspec.msgpack.decode(plain, type=Answered))
    return sorted(found.values(), key=lambda p: (p.begun.at, p.turn))
