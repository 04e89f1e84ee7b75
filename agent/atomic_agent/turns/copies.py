"""A session copied into a new one: whole, one branch of it, or what stood before a message (B26). The source stays.

Entries keep their ids, so that what was said is the same entry in both; only links around what is left out change.
"""

import secrets
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from atomic_agent.stores.port import Store, branch
from atomic_agent.stores.rows import Row
from atomic_agent.turns.conversation import AGENT
from atomic_agent.turns.derive import derive
from atomic_agent.turns.history import load, reader
from atomic_agent.turns.opening import new_facts
from atomic_sessions import compose, tree
from atomic_sessions.clock import stamp
from atomic_sessions.entry import Entry, Node
from atomic_sessions.errors import NotFoundError, UsageError
from atomic_sessions.formats.upgrade import encode, members
from atomic_sessions.ids import SessionKey


def whole(store: Store, session: SessionKey, now: int) -> Row:
    """All branches, in the same folder. A session of another agent gives its open branch as format 4."""
    row = store.open(session)
    if row.facts.agent != AGENT:
        return clone(store, session, now)
    facts = new_facts(store, row.facts.cwd, now, parent=row)
    made = store.create(facts, store.read(session))
    # Where a person stands is no line of every store, and does not come along by itself.
    leaf = store.leaf(session)
    if store.leaf(made.key) != leaf:
        store.move(made.key, leaf)
    return made


def clone(store: Store, session: SessionKey, now: int) -> Row:
    """The open branch, with the labels of what is on it."""
    row = store.open(session)
    leaf = store.leaf(session)
    if leaf is None:
        raise UsageError("The session is empty; there is nothing to clone.", "Begin a new one: atomic")
    return _from(store, row, leaf, now)


def before(store: Store, session: SessionKey, message: str, now: int) -> tuple[Row, str]:
    """What stood before a user message, and that message's text. UsageError when it is none."""
    row = store.open(session)
    entry = store.entry(session, message)
    if entry is None:
        raise NotFoundError(
            f"There is no entry '{message[:64]}' in this session.", "See: atomic sessions info ID --messages"
        )
    view = reader(row.facts.agent, internal=row.facts.internal)(entry.raw)
    if view.role != "user" or entry.loose:
        raise UsageError(
            "A fork begins at something a person said, and this entry is nothing of that kind.",
            "See: atomic sessions info ID --messages",
        )
    return _from(store, row, entry.parent, now), view.spoken()


def messages(store: Store, row: Row) -> Iterator[tuple[Entry, str]]:
    """What a person said in a session, on all its branches, in order."""
    view = reader(row.facts.agent, internal=row.facts.internal)
    for entry in store.read(row.key):
        said = view(entry.raw)
        if not entry.loose and said.role == "user" and said.kind == "message" and (text := said.spoken()):
            yield entry, text


def _from(store: Store, row: Row, leaf: str | None, now: int) -> Row:
    facts = new_facts(store, row.facts.cwd, now, parent=row)
    if row.facts.agent != AGENT:
        lines = (
            derive(row.facts.agent, row.facts.id, load(store, row, leaf, whole=True))
            if leaf is not None
            else []
        )
        return store.create(facts, lines)
    path = list(_without_labels(branch(store, row.key, leaf)))
    return store.create(facts, [*path, *_labels(store, row, path, now)])


def _without_labels(path: list[Entry]) -> Iterator[Entry]:
    """A branch whose labels are left out, each entry linked to the nearest that stays."""
    parent: str | None = None
    dropped: list[str] = []
    instead: dict[bytes, Raw] = {}
    for entry in path:
        parts = members(entry.raw) or {}
        if parts.get("type") == Raw(b'"label"'):
            dropped.append(entry.id)
            continue
        instead |= {bytes(_raw(label)): _raw(entry.id) for label in dropped}
        dropped = []
        changed = {} if entry.parent == parent else {"parentId": _raw(parent)}
        kept = parts.get("firstKeptEntryId")
        if kept is not None and bytes(kept) in instead:
            changed["firstKeptEntryId"] = instead[bytes(kept)]
        raw = encode(parts | changed) if changed else entry.raw
        yield msgspec.structs.replace(entry, parent=parent, raw=raw)
        parent = entry.id


def _raw(value: str | None) -> Raw:
    return Raw(msgspec.json.encode(value))


def _labels(store: Store, row: Row, path: list[Entry], now: int) -> Iterator[Entry]:
    """The labels that entries of a path have, as lines after it, with the times they were put."""
    there = {entry.id for entry in path}
    view = reader(row.facts.agent, internal=row.facts.internal)
    nodes = [
        Node(entry.id, entry.parent, entry.stamp, view(entry.raw))
        for entry in store.read(row.key)
        if not entry.loose and b'"label"' in entry.raw
    ]
    current = tree.labels(nodes)
    put = {(n.view.target, n.view.text): n for n in nodes if n.view.kind == "label"}
    parent = path[-1] if path else None
    for target, text in sorted(current.items(), key=lambda pair: put[pair].stamp):
        if target in there:
            said = put[target, text]
            at = said.view.at if said.view.at is not None else said.stamp
            identity = compose.entry_id(there.__contains__, secrets.token_bytes)
            there.add(identity)
            raw = compose.label(identity, parent.id if parent else None, at, target, text)
            parent = Entry(
                identity,
                parent.id if parent else None,
                0,
                stamp(at, parent.stamp if parent else 0, now),
                raw,
            )
            yield parent
