"""What an Atom file does not hold of the entries that went into it, kept beside it: their ids, their times, and the
lines that are no message. Pure, and never the other way round: what was said stands in the file alone.

So that a session keeps its entries' ids from one opening to the next. Whatever another program made of the file
meanwhile: entries nothing is known of are what `formats.atom_history` makes of them.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from atomic_sessions.context import Settings, is_boundary
from atomic_sessions.entry import Entry, Node
from atomic_sessions.formats import pi
from atomic_sessions.formats.atom import Document
from atomic_sessions.formats.atom_history import Name, entries
from atomic_sessions.formats.atom_messages import written
from atomic_sessions.formats.upgrade import Members, encode, members

NONE = Raw(b"null")
_ANSWERS = (Raw(b'"assistant"'), Raw(b'"toolResult"'))
_WORDS = frozenset({"role", "content", "timestamp"})


class Kept(Struct, frozen=True):
    """One entry of a path: of a message `message`, the id the file alone gives it, and `said`, what its line says
    beside its words (who answered, and what that used); of any other its line, `raw`."""

    id: str
    at: int
    message: str = ""
    said: bytes = b""
    raw: bytes = b""

    def __repr__(self) -> str:
        return f"Kept({self.id!r})"


def kept(path: Sequence[Entry], history: Sequence[str]) -> tuple[Kept, ...]:
    """What to keep of a path that a file holds as this history. From its end backwards, since a compaction takes
    the place of what stands before it."""
    made = entries(Document({}, tuple(history)))
    own = {entry.id for entry in made}
    groups = _groups(made)
    found: list[Kept] = []
    left_out = False  # what a compaction took the place of, but for what the system said
    for entry in reversed(path):
        view = pi.view(entry.raw, hidden=True)
        count = len(written(entry.raw))
        if left_out and count and view.role != "system":
            continue
        if is_boundary(Node(entry.id, None, 0, view)):
            if not left_out and groups:
                found.append(Kept(entry.id, entry.stamp, groups.pop()[-1].id))
            left_out = True
            continue  # its text is no message of its own here
        if entry.id in own:  # it came from a file, and is made again as it was
            found.append(Kept(entry.id, entry.stamp, entry.id, _beside(entry.raw)))
        elif not count:
            found.append(Kept(entry.id, entry.stamp, raw=entry.raw))
        elif count <= len(groups):
            found.append(Kept(entry.id, entry.stamp, groups[-1][-1].id, _beside(entry.raw)))
        del groups[len(groups) - min(count, len(groups)) :]
    return tuple(reversed(found))


def lines(document: Document, known: Sequence[Kept], fallback_at: int = 0) -> list[Entry]:
    """The entries of a file, with what is known of them put back."""
    names = {one.message: Name(one.id, one.at) for one in known if one.message}
    after: dict[str | None, list[Kept]] = {}
    at: str | None = None
    for one in known:
        if one.message:
            at = one.id
        else:
            after.setdefault(at, []).append(one)
    found: list[Entry] = []

    def put(identity: str, stamp: int, raw: bytes) -> None:
        parent = found[-1].id if found else None
        found.append(Entry(identity, parent, len(found), stamp, raw))

    for one in after.get(None, ()):
        put(one.id, one.at, one.raw)
    if known:  # the model and effort that stand in the file are then the program's, not this session's
        document = replace(document, picks=Settings())
    beside = {one.id: one.said for one in known if one.said}
    for entry in entries(document, fallback_at, names):
        above = found[-1].id if found else None
        raw = entry.raw if above == entry.parent else _below(above, entry.raw)
        put(entry.id, entry.stamp, _with(beside[entry.id], raw) if entry.id in beside else raw)
        for one in after.get(entry.id, ()):
            put(one.id, one.at, one.raw)
    return found


def _below(parent: str | None, raw: bytes) -> bytes:
    """A line of ours under another parent, all else as it is."""
    parts = members(raw)
    assert parts is not None
    return encode(parts | {"parentId": Raw(msgspec.json.encode(parent))})


def _beside(raw: bytes) -> bytes:
    """The members of an answer, or of a tool's, but for its words and those every line of its kind has."""
    message = _message(members(raw) or {})
    if message.get("role", NONE) not in _ANSWERS:
        return b""
    return encode({name: value for name, value in message.items() if name not in _WORDS})


def _with(said: bytes, raw: bytes) -> bytes:
    """A line of ours with such members again."""
    parts = members(raw) or {}
    message = _message(parts)
    if message.get("role", NONE) not in _ANSWERS:
        return raw  # another program's file, where this id is another message's
    return encode(parts | {"message": Raw(encode(message | (members(said) or {})))})


def _message(parts: Members) -> Members:
    return members(parts["message"]) or {} if "message" in parts else {}


def _groups(found: Sequence[Entry]) -> list[list[Entry]]:
    """The entries that each message of a history became."""
    groups: list[list[Entry]] = []
    for entry in found:
        if written(entry.raw):
            groups.append([entry])
        elif groups:
            groups[-1].append(entry)
    return groups
