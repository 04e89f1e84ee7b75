"""A session as a reader sees it: the input of every renderer. No bytes, no agent, no I/O."""

from msgspec import Struct

from atomic_sessions.entry import Node


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
