"""The one branch an Atom file holds: which lines may follow, what a list shows of it. Pure."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from atomic_agent.cache.digest import Digest
from atomic_agent.stores.rows import Row, row_of
from atomic_sessions import compose
from atomic_sessions.context import Settings, settings
from atomic_sessions.entry import Entry, Facts, Node, Usage
from atomic_sessions.errors import UnsupportedError
from atomic_sessions.formats import pi
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.atom_messages import written
from atomic_sessions.ids import SessionKey

AGENT = "atomic"
ELSEWHERE = "Use the default store for that: leave out the Atom selection."


class Branch(Struct, frozen=True):
    """A session from its root to where it stands, and what all of it used."""

    facts: Facts
    path: tuple[Entry, ...]
    usage: Usage

    def __repr__(self) -> str:
        return f"Branch({self.facts.id!r}, {len(self.path)} entries)"

    @property
    def key(self) -> SessionKey:
        return self.facts.key

    @property
    def leaf(self) -> str | None:
        return self.path[-1].id if self.path else None

    def nodes(self) -> list[Node]:
        view = viewer(AGENT, internal=self.facts.internal)
        return [Node(entry.id, entry.parent, entry.stamp, view(entry.raw)) for entry in self.path]

    def row(self, place: Path) -> Row:
        digest = Digest()
        for entry, node in zip(self.path, self.nodes(), strict=True):
            digest.fold(entry, node.view, None)
        return row_of(self.facts, digest, place=str(place))

    def picks(self, before: Settings) -> Settings:
        """The picks it ends with; what it does not say is as it was `before`."""
        said = settings(self.nodes())
        who = said if said.model else before
        return Settings(who.provider, who.model, said.effort or before.effort)


def with_header(facts: Facts) -> Facts:
    """The facts with a header to export. UnsupportedError for a session whose lines are another agent's."""
    if facts.agent != AGENT:
        raise UnsupportedError(f"An Atom file holds no sessions of {facts.agent}.", ELSEWHERE)
    if facts.header:
        return facts
    header = compose.header(facts.id, facts.created_at, facts.cwd, project=facts.project, parent=facts.parent)
    return replace(facts, header=header)


def longer(path: Sequence[Entry], entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The path with entries behind it, those that are there already left out. UnsupportedError for what the file
    has no place for: labels, lines that are in no tree, an entry that does not hang at the one before it."""
    known = {entry.id: entry for entry in path}
    found = list(path)
    for entry in entries:
        if entry.file:
            continue
        if entry.id in known and _same(known[entry.id], entry):
            continue
        leaf = found[-1].id if found else None
        if entry.loose or entry.parent != leaf or entry.id in known:
            raise UnsupportedError("An Atom file holds one branch, and these lines would be more.", ELSEWHERE)
        if pi.view(entry.raw).kind == "label":
            raise UnsupportedError("An Atom file holds no labels.", ELSEWHERE)
        known[entry.id] = entry
        found.append(replace(entry, pos=len(found)))
    return tuple(found)


def _same(one: Entry, other: Entry) -> bool:
    """A line that came back from the file says the same without all its members."""
    said = written(other.raw)
    return one.raw == other.raw or (bool(said) and written(one.raw) == said)


def usage(path: Iterable[Entry], before: Usage = Usage()) -> Usage:  # noqa: B008  # frozen
    """What answers used, on top of what was used before."""
    total = before
    for entry in path:
        used = pi.view(entry.raw).usage
        if used is not None:
            total = Usage(
                total.input + used.input,
                total.output + used.output,
                total.cache_read + used.cache_read,
                total.cache_write + used.cache_write,
                total.cost + used.cost,
            )
    return total
