"""The sessions of a folder as lists show them. Writes nothing.

A file that did not change since this process read it is not read again. Of one over 32 KiB the first message
and the newest entries are read (B3); of several copies of a session the one with the newest message counts (B17).
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent.cache.digest import Digest
from atomic_agent.cache.entries import searched
from atomic_agent.stores import jsonl_intent
from atomic_agent.stores.jsonl_files import opened, session_files
from atomic_agent.stores.jsonl_index import (
    AGENT,
    MAX_HEADER,
    Clock,
    Index,
    Signature,
    facts_of,
    is_sound,
    signature,
)
from atomic_agent.stores.jsonl_intent import pread
from atomic_agent.stores.rows import Row, row_of
from atomic_sessions.entry import View
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats import pi
from atomic_sessions.formats.lines import split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import SessionHeader, read_header
from atomic_sessions.ids import SessionKey

WHOLE = 32 * 1024
WINDOW = 16 * 1024
MAX_FIRST = 256 * 1024
MAX_NEWEST = 16 * 1024 * 1024
"""How far the first and the newest message are looked for: a tool's output may be long."""


Said = tuple[str, str]
"""An entry's id and the text it is found by; no id where it is not known yet."""


class _Seen(Struct):
    signature: Signature
    row: Row | None


class Listing:
    """What this process knows of a folder's files. `whole` gives the row of a file that was opened."""

    def __init__(self, folder: Path, clock: Clock, whole: Callable[[Path, Signature], Row | None]) -> None:
        self._folder = folder
        self._clock = clock
        self._whole = whole
        self._seen: dict[str, _Seen] = {}

    def rows(self) -> list[Row]:
        """One row a session: its newest copy."""
        return [
            msgspec.structs.replace(max(copies, key=newness), copies=len(copies))
            for copies in self._by_session().values()
        ]

    def copies(self, session: SessionKey) -> list[Path]:
        """The files of a session, the one that counts first."""
        found = self._by_session().get(session, [])
        return [Path(row.place) for row in sorted(found, key=newness, reverse=True)]

    def _by_session(self) -> dict[SessionKey, list[Row]]:
        found: dict[SessionKey, list[Row]] = {}
        seen: dict[str, _Seen] = {}
        for path, there in session_files(self._folder):
            mark = signature(there)
            known = self._seen.get(str(path))
            if (row := self._whole(path, mark)) is not None:
                known = _Seen(mark, row)
            elif known is None or known.signature != mark:
                known = _Seen(mark, self._read(path, there))
            seen[str(path)] = known
            if known.row is not None:
                found.setdefault(known.row.key, []).append(known.row)
        self._seen = seen
        return found

    def _read(self, path: Path, there: os.stat_result) -> Row | None:
        """The row of a file; None when it is no session or cannot be read."""
        try:
            return read_row(self._folder, path, there, self._clock)
        except (BadSessionFileError, OSError):
            return None


def read_row(
    folder: Path, path: Path, there: os.stat_result, clock: Clock, said: list[Said] | None = None
) -> Row:
    """The row of a file as it is. `said` takes what it can be searched by: all of a small file, the first message
    and the newest entries of a large one. Raises BadSessionFileError, OSError."""
    if there.st_size <= WHOLE:
        index = Index(folder, path, clock)
        if said is not None:
            said.extend(
                (entry.id, text)
                for entry in index.entries(index.in_order())
                if (text := searched(pi.view(entry.raw)))
            )
        return whole_row(index)
    with opened(path) as stream:
        end = jsonl_intent.visible_end(folder, path, stream.fileno())
        return _partial(stream.fileno(), path, end, there, clock(), said)


def whole_row(index: Index) -> Row:
    """The row of a file that was read from beginning to end."""
    return row_of(index.facts, index.digest, place=str(index.path), otherwise=index.modified)


def newness(row: Row) -> tuple[object, ...]:
    """Of copies with the same newest message the one that holds more counts, then the first by name."""
    return (*row.order, row.messages, [-ord(sign) for sign in row.place])


def _partial(
    handle: int, path: Path, end: int, there: os.stat_result, now: int, said: list[Said] | None = None
) -> Row:
    """Head and tail of a large file, each read further until it holds a message."""
    header, begun = _header(handle, end)
    head, size = _Part(header, now), WINDOW
    while True:
        stop = min(end, begun + size)
        head = _Part(header, now)
        head.read(_lines(handle, begun, stop, cut=stop < end))
        if head.digest.first_message or stop == end or size >= MAX_FIRST:
            break
        size *= 4
    size = WINDOW
    while True:
        start = max(head.end, end - size)
        tail = head.copy()
        tail.read(_lines(handle, start, end, inside=start > head.end))
        if tail.decided > head.decided or start == head.end or size >= MAX_NEWEST:
            break
        size = min(size * 8, MAX_NEWEST)
    if said is not None:
        said.extend([*head.first, *tail.said])
    return row_of(
        facts_of(header),
        tail.digest,
        partial=start > head.end,
        place=str(path),
        otherwise=there.st_mtime_ns // 1_000_000,
    )


def _header(handle: int, end: int) -> tuple[SessionHeader, int]:
    size = WINDOW
    while True:
        lines = split([pread(handle, 0, min(size, end))])
        first = next((line for line in lines if line.raw.strip()), None)
        if first is not None and (first.whole or size >= end):
            return read_header(first.raw), first.end
        if size >= min(end, MAX_HEADER):
            raise BadSessionFileError("The file does not begin with a session header.")
        size *= 8


def _lines(
    handle: int, start: int, end: int, *, cut: bool = False, inside: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Lines and their ends; not the half one at a `cut` end, nor what stands before the first end of a line
    when the reading starts `inside`."""
    for line in split([pread(handle, start, end)], start):
        if inside:
            inside = False
            continue
        if line.raw.strip() and (line.whole or (not cut and is_sound(line.raw))):
            yield line.raw, line.end


class _Part:
    """What some lines of a session say together."""

    def __init__(self, header: SessionHeader, now: int) -> None:
        self.digest = Digest()
        self.decided = 0
        self.end = 0
        self.first: list[Said] = []
        self.said: list[Said] = []
        self._header, self._now = header, now
        self._scan = ScanState(linear=header.version == 1)

    def copy(self) -> "_Part":
        other = _Part(self._header, self._now)
        other.digest = msgspec.structs.replace(self.digest)
        other.decided, other.end = self.decided, self.end
        other._scan = msgspec.structs.replace(self._scan, repeats=dict(self._scan.repeats))
        return other

    def read(self, lines: Iterator[tuple[bytes, int]]) -> None:
        scanner = Scanner(
            AGENT, self._scan, now=self._now, stamp_of=lambda _: 0, internal=self._header.internal
        )
        for raw, end in lines:
            entry, view = scanner.read(raw)
            self._fold(entry.loose, view)
            before = self.digest.first_message
            self.digest.fold(entry, view, None)
            self.end = end
            if text := searched(view):
                # Entries of format 1 have no ids until all before them were read.
                self.said.append((entry.id if self._header.version > 1 else "", text))
                if self.digest.first_message != before:
                    self.first = self.said[-1:]

    def _fold(self, loose: bool, view: View) -> None:
        self.decided += view.decides and not loose
