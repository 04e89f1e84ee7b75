"""What a session file says, by place: ids, links, times, and where each line stands. Changes no file.

Lines stay in the file and are read when they are asked for, so a session costs its index, not its size. Older
formats are read as format 4. The rules for copies of a line are those of `merge`.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from atomic_agent.cache.digest import Digest
from atomic_agent.stores import folders
from atomic_agent.stores.jsonl_files import opened
from atomic_agent.stores.jsonl_intent import pread, visible_end
from atomic_agent.stores.rows import Moved, moved_by
from atomic_sessions import merge, tree
from atomic_sessions.entry import Entry, Facts, Node, View
from atomic_sessions.errors import BadSessionFileError, BusyError
from atomic_sessions.formats import pi
from atomic_sessions.formats.lines import Line, salvage, split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import SessionHeader, members, read_header, upgrade
from atomic_sessions.ids import digest, session_key

CHUNK = 1024 * 1024
MAX_HEADER = 8 * 1024 * 1024
TAIL = 256
AGENT = "atomic"
SAID = ("user", "assistant")

Clock = Callable[[], int]
Signature = tuple[int, int, int]


class Placed(Struct, gc=False):
    """An entry and where its line stands; `raw` only where the upgrade made another line of it."""

    id: str
    parent: str | None
    pos: int
    stamp: int
    loose: bool
    role: str
    mark: bytes
    start: int
    size: int
    raw: bytes | None = None


def signature(found: os.stat_result) -> Signature:
    """Tells whether a file may have changed."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def facts_of(header: SessionHeader) -> Facts:
    """What a header says of its session, in a store where a project is a folder."""
    project = folders.project_of(header.cwd)
    scope = session_key(AGENT, header.id, project).scope
    return Facts(
        AGENT,
        header.id,
        scope,
        header.cwd,
        project,
        header.created_at,
        header.parent,
        header.internal,
        header.raw,
    )


def is_sound(raw: bytes) -> bool:
    """True for a line that holds a record, if only at its end. What a cut left whole inside of one, a block or a
    message, is none: records say when they were made."""
    if members(raw) is not None:
        return True
    parts = members(salvage(raw) or b"")
    return (
        parts is not None and "type" in parts and bool(parts.keys() & {"parentId", "timestamp", "createdAt"})
    )


class Index:
    """One file, read once and on from where the reading stopped. Raises BadSessionFileError for what is no
    session, OSError for what cannot be read."""

    def __init__(self, folder: Path, path: Path, clock: Clock) -> None:
        self.path = path
        self._folder = folder
        self._clock = clock
        with opened(path) as stream:
            self.signature = signature(os.fstat(stream.fileno()))
            self.modified = os.fstat(stream.fileno()).st_mtime_ns // 1_000_000
            end = visible_end(folder, path, stream.fileno())
            self.first = _first_line(stream.fileno(), end)
            self.header = read_header(self.first.raw)
            self.facts = facts_of(self.header)
            self.placed: dict[str, Placed] = {}
            self.digest = Digest()
            self.moved: Moved = None
            self.end = self.first.end
            self._closed = True
            self._tail = b""
            self._leaf: tuple[str | None] | None = None
            self._clashed = False
            self._scanner = Scanner(
                AGENT,
                ScanState(linear=False),
                now=clock(),
                stamp_of=lambda i: self.placed[i].stamp if i in self.placed else 0,
                internal=self.header.internal,
            )
            self._scan(stream.fileno(), end)

    @property
    def is_current(self) -> bool:
        """True when the file is in format 4 as it stands."""
        return self.header.version >= 3 and self.header.raw == self.first.raw

    def refreshed(self) -> "Index":
        """This index, read on, or a new one when the file is not the one it was."""
        with opened(self.path) as stream:
            handle = stream.fileno()
            there = signature(os.fstat(handle))
            end = visible_end(self._folder, self.path, handle)
            # An unchanged file may show more than before all the same, once an append is done.
            if there == self.signature and end == self.end:
                return self
            grown = self._closed and there[0] == self.signature[0] and end >= self.end
            if (
                not grown
                or self.header.version < 3
                or pread(handle, self.end - len(self._tail), self.end) != self._tail
            ):
                return Index(self._folder, self.path, self._clock)
            self.signature = there
            self._scan(handle, end)
        return self

    def _scan(self, handle: int, end: int) -> None:
        places: deque[Line] = deque()
        self._leaf = None
        start = self.end
        for raw in upgrade(self.header, self._lines(handle, start, end, places)):
            line = places.popleft()
            entry, view = self._scanner.read(raw)
            self._add(handle, entry, view, line, raw is not line.raw)
            if not line.whole:
                self._closed = False
            self.end = line.end
        self._tail = pread(handle, max(0, self.end - TAIL), self.end)
        if self._clashed:
            self._fold_again(handle)

    def _lines(self, handle: int, start: int, end: int, places: deque[Line]) -> Iterator[bytes]:
        """The lines that say something. Half a line at the end is not there yet."""

        def chunks() -> Iterator[bytes]:
            at = start
            while at < end and (chunk := pread(handle, at, min(end, at + CHUNK))):
                yield chunk
                at += len(chunk)

        for line in split(chunks(), start):
            if line.raw.strip() and (line.whole or is_sound(line.raw)):
                places.append(line)
                yield line.raw

    def _add(self, handle: int, entry: Entry, view: View, line: Line, changed: bool) -> None:
        self.moved = moved_by(self.moved, entry, view)
        start = line.end - len(line.raw) - line.whole
        placed = Placed(
            entry.id,
            entry.parent,
            entry.pos,
            entry.stamp,
            entry.loose,
            view.role if view.counts else "",
            digest(entry.raw),
            start,
            len(line.raw),
            entry.raw if changed else None,
        )
        if entry.id not in self.placed:
            self.digest.fold(entry, view, None)
        self._put(handle, placed)

    def _put(self, handle: int, new: Placed) -> None:
        known = self.placed.get(new.id)
        if known is None:
            self.placed[new.id] = new
        elif known.mark == new.mark:
            known.stamp = min(known.stamp, new.stamp)
            known.parent = min(known.parent or "", new.parent or "") or None
            known.loose = known.loose and new.loose
        else:
            self._clashed = True
            first, second = (known, new) if known.mark <= new.mark else (new, known)
            self.placed[new.id] = first
            second.id = merge.clashing_id(new.id, _raw(handle, second))
            self._put(handle, second)

    def _fold_again(self, handle: int) -> None:
        self._clashed = False
        self.digest = Digest()
        for placed in self.in_order():
            entry = _entry(handle, placed)
            self.digest.fold(entry, pi.view(entry.raw), None)

    def in_order(self, first: int = 0) -> list[Placed]:
        """In canonical order, from a place on."""
        found = [placed for placed in self.placed.values() if placed.pos >= first]
        return sorted(found, key=lambda placed: (placed.pos, placed.stamp, placed.id))

    def entries(self, wanted: list[Placed]) -> Iterator[Entry]:
        """With their lines, one after the other. BusyError when the file was replaced since it was read."""
        with opened(self.path) as stream:
            if signature(os.fstat(stream.fileno()))[0] != self.signature[0]:
                raise BusyError("The session's file was replaced while it was read.", "Repeat it.")
            for placed in wanted:
                yield _entry(stream.fileno(), placed)

    def climb(self, leaf: str | None) -> list[Placed]:
        """From a leaf to the root."""
        found: dict[str, Placed] = {}
        at = leaf
        while at is not None and at not in found:
            placed = self.placed.get(at)
            if placed is None or placed.loose:
                break
            found[at] = placed
            at = placed.parent
        return list(found.values())

    def ends(self) -> int:
        """How many branches end in a message."""
        return tree.ends({p.id: (p.parent, p.role in SAID) for p in self.placed.values() if not p.loose})

    def leaf(self) -> str | None:
        """Where a person moved, if nothing came after; else the end of the newest message's branch."""
        if self.moved is not None and (self.moved[0] is None or self.moved[0] in self.placed):
            return self.moved[0]
        if self._leaf is None:
            nodes = [
                Node(p.id, p.parent, p.stamp, View("message" if p.role else "other", role=p.role))  # type: ignore[arg-type]  # a role's text
                for p in self.placed.values()
                if not p.loose
            ]
            self._leaf = (tree.leaf(tree.build(nodes), {}),)
        return self._leaf[0]


def _raw(handle: int, placed: Placed) -> bytes:
    return placed.raw if placed.raw is not None else pread(handle, placed.start, placed.start + placed.size)


def _entry(handle: int, placed: Placed) -> Entry:
    return Entry(placed.id, placed.parent, placed.pos, placed.stamp, _raw(handle, placed), placed.loose)


def _first_line(handle: int, end: int) -> Line:
    """The first line that is not blank."""

    def chunks() -> Iterator[bytes]:
        at = 0
        while at < min(end, MAX_HEADER) and (chunk := pread(handle, at, min(end, at + 65_536))):
            yield chunk
            at += len(chunk)

    for line in split(chunks()):
        if line.raw.strip():
            return line
    raise BadSessionFileError("The file is empty.")
