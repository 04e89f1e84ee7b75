"""A session as a reader sees it: the input of every renderer. No bytes, no agent, no I/O."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from atomic_sessions import tree
from atomic_sessions.entry import Entry, Facts, Node
from atomic_sessions.formats.agents import viewer


class Document(Struct, frozen=True):
    """One session, ready to be shown.

    `nodes` are in canonical order (a parent always before its children) and hold the whole tree,
    loose lines left out; `leaf` is the entry that opens, None for an empty conversation. `labels`
    maps an entry id to its current label. `cwd` is empty when it was redacted away. Times in ms.
    """

    id: str
    agent: str
    title: str
    cwd: str
    created_at: int
    leaf: str | None
    nodes: tuple[Node, ...]
    labels: dict[str, str]
    summary: str = ""


def read(
    facts: Facts, title: str, opened: str | None, entries: Iterable[Entry], summary: str = ""
) -> Document:
    """A document from a session's entries in canonical order; its name stands in for a missing title."""
    view = viewer(facts.agent, internal=facts.internal)
    nodes = tuple(
        Node(entry.id, entry.parent, entry.stamp, view(entry.raw))
        for entry in entries
        if not entry.loose and not entry.file
    )
    return Document(
        id=facts.id,
        agent=facts.agent,
        title=title or tree.name(nodes),
        cwd=facts.cwd,
        created_at=facts.created_at,
        leaf=opened,
        nodes=nodes,
        labels=tree.labels(nodes),
        summary=summary,
    )


def jsonl(facts: Facts, entries: Iterable[Entry]) -> Iterator[bytes]:
    """The lines of a JSONL file, each with its newline: the header of a format 4 session, then every
    line as it is. Captured sessions carry their header among their lines."""
    if facts.header:
        yield facts.header + b"\n"
    for entry in entries:
        if not entry.file:
            yield entry.raw + b"\n"
