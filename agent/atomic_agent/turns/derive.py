"""A conversation taken over into a new session: its context as format 4 lines. Pure.

Ids come from the source's ids and times stay, so taking over twice gives the same lines; every call
keeps its result and thinking stays. Changes nothing in the source.
"""

import hashlib

import msgspec
from msgspec import Raw

from atomic_agent.turns.history import History
from atomic_sessions import compose
from atomic_sessions.context import boundary, gather
from atomic_sessions.entry import Entry, Node, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats import pi
from atomic_sessions.formats.upgrade import encode, members

STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "refusal": "error",
    "model_context_window_exceeded": "length",
}


def derive(agent: str, session: str, history: History) -> list[Entry]:
    """The entries of a new session that goes on from a history; `pos` is left for the cache to give."""
    if agent in pi.NAMES:
        return _copied(history.lines)
    return _converted(agent, session, history)


def _copied(lines: list[Entry]) -> list[Entry]:
    """Lines that are format 4 already stay as they are; only an id or a link that they lack is put in."""
    found: list[Entry] = []
    parent: str | None = None
    for line in lines:
        parts = members(line.raw)
        if parts is None:
            continue
        linked = {"id": _raw(line.id), "parentId": _raw(parent)}
        raw = line.raw
        if parts.get("id") != linked["id"] or parts.get("parentId") != linked["parentId"]:
            kind = {"type": parts["type"]} if "type" in parts else {}
            rest = {key: value for key, value in parts.items() if key not in {"type", "id", "parentId"}}
            raw = encode(kind | linked | rest)
        found.append(Entry(line.id, parent, 0, line.stamp, raw))
        parent = line.id
    return found


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


class _Chain:
    """Entries one below the other, each with an id made from its source's."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._taken: set[str] = set()
        self.entries: list[Entry] = []

    @property
    def parent(self) -> str | None:
        return self.entries[-1].id if self.entries else None

    def identity(self, source: str, part: int) -> str:
        attempt = 0
        while True:
            seed = "\x00".join(("atomic1/derive", self._session, source, str(part), str(attempt)))
            made = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            if made not in self._taken:
                self._taken.add(made)
                return made
            attempt += 1

    def add(self, identity: str, stamp: int, raw: bytes) -> None:
        before = self.entries[-1].stamp + 1 if self.entries else 0
        self.entries.append(Entry(identity, self.parent, 0, max(stamp, before), raw))


def _converted(agent: str, session: str, history: History) -> list[Entry]:
    path = history.path[boundary(history.path) :]
    chain = _Chain(session)
    names: dict[str, str] = {}
    answered: set[str] = set()
    for node in gather(path, history.beside):
        view = node.view
        if not view.in_context or view.side or not view.blocks:
            continue
        at = view.at if view.at is not None else node.stamp
        if view.role == "assistant":
            names |= {block.id: block.name for block in view.blocks if isinstance(block, ToolCall)}
        if view.role == "tool":
            for part, block in enumerate(view.blocks):
                if isinstance(block, ToolResult) and block.call in names and block.call not in answered:
                    answered.add(block.call)
                    said = compose.tool_result(at, block, block.name or names[block.call])
                    identity = chain.identity(node.id, part)
                    chain.add(identity, node.stamp, compose.message(identity, chain.parent, at, said))
            continue
        identity = chain.identity(node.id, 0)
        chain.add(identity, node.stamp, _line(agent, node, identity, chain.parent, at))
    return chain.entries


def _line(agent: str, node: Node, identity: str, parent: str | None, at: int) -> bytes:
    view = node.view
    if view.role == "assistant":
        return compose.message(identity, parent, at, _answer(view, at))
    if view.role == "user":
        return compose.message(identity, parent, at, compose.user(at, view.blocks))
    kind = f"{agent}.summary" if view.role == "summary" else f"{agent}.injected"
    return compose.custom_message(identity, parent, at, kind, view.blocks)


def _answer(view: View, at: int) -> dict[str, object]:
    calls = any(isinstance(block, ToolCall) for block in view.blocks)
    stop = STOPS.get(view.stop) or ("toolUse" if calls else "stop")
    return compose.assistant(
        at,
        view.blocks,
        provider=view.provider,
        model=view.model,
        usage=view.usage or Usage(),
        stop=stop,
        response_id=view.group,
    )
