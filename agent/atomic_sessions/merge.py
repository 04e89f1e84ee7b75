"""Union of copies of one session. Commutative, associative and idempotent; nothing is overwritten.

Two entries are the same when id and bytes are the same. When two different lines carry one id, the
line with the lesser digest keeps it and the other becomes `id~digest`, whatever arrived first.
"""

from collections.abc import Iterable, Mapping

import msgspec

from atomic_sessions.entry import Entry
from atomic_sessions.ids import digest


def clashing_id(entry_id: str, raw: bytes) -> str:
    """The id of a line whose own id belongs to another line."""
    return f"{entry_id}~{digest(raw).hex()}"


def keeps_id(mine: bytes, theirs: bytes) -> bool:
    """True when the line `mine` keeps an id that both carry."""
    return (digest(mine), mine) <= (digest(theirs), theirs)


def join(one: Entry, other: Entry) -> Entry:
    """Two sightings of the same line: the first place and the earliest stamp hold. Where they hang
    differently, as lines without an id of their own may, the lesser parent holds on every machine."""
    return msgspec.structs.replace(
        one,
        pos=min(one.pos, other.pos),
        stamp=min(one.stamp, other.stamp),
        parent=min(one.parent or "", other.parent or "") or None,
        loose=one.loose and other.loose,
    )


def add(copy: dict[str, Entry], entry: Entry) -> None:
    """Put one entry into a copy, in place."""
    known = copy.get(entry.id)
    if known is None:
        copy[entry.id] = entry
    elif known.raw == entry.raw:
        copy[entry.id] = join(known, entry)
    else:
        first, second = (known, entry) if keeps_id(known.raw, entry.raw) else (entry, known)
        copy[entry.id] = first
        renamed = clashing_id(entry.id, second.raw)
        add(copy, msgspec.structs.replace(second, id=renamed))


def union(*copies: Mapping[str, Entry]) -> dict[str, Entry]:
    """All entries of all copies, by id."""
    merged: dict[str, Entry] = {}
    for copy in copies:
        for entry in copy.values():
            add(merged, entry)
    return merged


def canonical(entries: Iterable[Entry]) -> list[Entry]:
    """The one order of a session's lines on every machine: by place, then stamp, then id.

    A copy's own lines stay in their order, since each carries its line number.
    """
    return sorted(entries, key=lambda e: (e.file, e.pos, e.stamp, e.id))
