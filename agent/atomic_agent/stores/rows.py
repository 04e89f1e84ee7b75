"""Sessions as every store lists them, and which of them a person means. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from atomic_agent.cache.digest import Digest
from atomic_agent.config.way_back import quoted
from atomic_sessions.clock import Order, tag
from atomic_sessions.entry import Entry, Facts, View
from atomic_sessions.errors import AmbiguousError, NotFoundError, SessionExistsError
from atomic_sessions.formats.lines import plain
from atomic_sessions.ids import PREFIX, UUID, SessionKey


class Row(Struct, frozen=True):
    """One session as lists show it. Times in ms.

    `newest_at` is the time of the newest message, or of the beginning while nobody has spoken (`newest_id` is
    None). `partial`: made from the first and newest entries of a large file, so the count may be low. `place`
    is the file of a store of files, which holds `copies` of the session.
    """

    facts: Facts
    name: str = ""
    title: str = ""
    first_message: str = ""
    summary: str = ""
    messages: int = 0
    newest_at: int = 0
    newest_id: str | None = None
    partial: bool = False
    place: str = ""
    copies: int = 1

    def __repr__(self) -> str:
        return f"<Row {self.facts.agent} {self.facts.id!r} {self.messages}>"

    @property
    def key(self) -> SessionKey:
        return self.facts.key

    @property
    def label(self) -> str:
        """What a person calls it: its name, else its agent's title, else how it began."""
        return self.name or self.title or self.first_message or "(no messages)"

    @property
    def order(self) -> Order:
        """Its place among all sessions; greater is newer."""
        return self.newest_at, tag(self.newest_id) if self.newest_id is not None else b""


class Hit(Struct, frozen=True):
    """A session that matches, an entry in it that does, and some text around the first word found."""

    row: Row
    entry: str
    snippet: str

    def __repr__(self) -> str:
        return f"<Hit {self.row!r} {self.entry!r}>"


def row_of(
    facts: Facts, digest: Digest, *, partial: bool = False, place: str = "", otherwise: int = 0
) -> Row:
    """A row from what was folded of a session's entries; `otherwise` is its time when it tells none itself."""
    return Row(
        facts,
        digest.name,
        digest.title,
        digest.first_message,
        digest.summary,
        digest.messages,
        digest.newest_at or facts.created_at or otherwise,
        digest.newest_id,
        partial,
        place,
    )


def newest_first(rows: Iterable[Row]) -> list[Row]:
    """The one order of lists."""
    by_id = sorted(rows, key=lambda row: row.facts.id)
    return sorted(by_id, key=lambda row: row.order, reverse=True)


def page(
    rows: Iterable[Row], project: str | None, folder: str, internal: bool, limit: int, offset: int
) -> Iterator[Row]:
    """What `Store.listed` answers, out of all rows."""
    wanted = [
        row
        for row in rows
        if (internal or not row.facts.internal) and (project is None or _is_in(row.facts, project, folder))
    ]
    end = len(wanted) if limit < 0 else offset + limit
    yield from newest_first(wanted)[offset:end]


def _is_in(facts: Facts, project: str, folder: str) -> bool:
    return bool(facts.project and facts.project == project) or bool(facts.cwd and facts.cwd == folder)


def choose(candidates: Sequence[Row], wanted: str, project: str) -> Row:
    """The one session meant by an id: an exact id first, else eight hex characters of a UUID; of the project
    first, else of all (B8). NotFoundError, or AmbiguousError with the ids."""
    wanted = plain(wanted)
    found = [row for row in candidates if row.facts.id == wanted]
    if not found and PREFIX.fullmatch(wanted):
        start = wanted.lower()
        found = [
            row
            for row in candidates
            if row.facts.id[:8].lower() == start and UUID.fullmatch(row.facts.id) is not None
        ]
    if not found:
        raise _nothing(wanted)
    found = [row for row in found if row.facts.project == project] or found
    if len(found) > 1:
        ids = ", ".join(f"{row.facts.id} ({row.facts.agent}, {row.messages} messages)" for row in found)
        raise AmbiguousError(f"'{wanted[:64]}' fits several sessions: {ids}.", "Give the whole id.")
    return found[0]


def called(rows: Sequence[Row], every: Iterable[Row]) -> list[str]:
    """What each of some sessions can be called in a command, of `every` one there is: eight characters of a UUID
    where no other begins with them, else the whole id."""
    begun = Counter(row.facts.id[:8].lower() for row in every)
    return [
        row.facts.id[:8]
        if UUID.fullmatch(row.facts.id) and begun[row.facts.id[:8].lower()] == 1
        else row.facts.id
        for row in rows
    ]


def _nothing(wanted: str) -> NotFoundError:
    if any(sign in wanted for sign in ("/", "\\")) or wanted.endswith(".jsonl"):
        return NotFoundError(
            "That is a path, not a session id.", "To bring a file in use: atomic --import FILE"
        )
    return NotFoundError(
        f"There is no session '{wanted[:64]}'.",
        "Use the whole id or its first eight characters; see: atomic sessions --all",
    )


def taken(facts: Facts) -> SessionExistsError:
    """A session whose id is in its project already."""
    return SessionExistsError(
        f"The session {facts.id or '(empty id)'} is here already; nothing was replaced.",
        f"Open it in this store with: --session {quoted(facts.id)}",
    )


Moved = tuple[str | None] | None
"""Where a person stands; None when they did not move since the last entry."""


def moved_by(before: Moved, entry: Entry, view: View) -> Moved:
    """Where a person stands after one more line: a `leaf` line holds until an entry of the tree comes."""
    if view.kind == "leaf":
        return (view.target or None,)
    return before if entry.loose else None


def not_there(session: SessionKey) -> NotFoundError:
    """A session that was deleted meanwhile, or never was."""
    return NotFoundError(f"The session '{session.id[:64]}' is not there.", "See: atomic sessions")
