"""A file of an earlier session, read from beginning to end for the database. Writes nothing, and never the file.

The program that made it may be writing it meanwhile: what comes out is the file as it was at one moment, or
ChangedError before the last entry is taken.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from atomic_agent.stores.jsonl_files import opened
from atomic_agent.stores.jsonl_index import AGENT, CHUNK, Clock, is_sound, signature
from atomic_agent.stores.jsonl_intent import pread, visible_end
from atomic_sessions.entry import Entry
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.lines import split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import SessionHeader, read_header, upgrade


class ChangedError(Exception):
    """The session's file was changed while it was read."""


class Reading(Struct, frozen=True):
    """A session as format 4. Who takes the last of `entries` knows that all of them were in the file at once."""

    header: SessionHeader
    modified: int
    entries: Iterator[Entry]


@contextmanager
def reading(folder: Path, path: Path, clock: Clock) -> Iterator[Reading]:
    """Read a file once. Raises BadSessionFileError, OSError; ChangedError at its end."""
    with opened(path) as stream:
        there = os.fstat(stream.fileno())
        source = _Source(stream.fileno(), visible_end(folder, path, stream.fileno()))
        lines = source.lines()
        first = next(lines, None)
        if first is None:
            raise BadSessionFileError("The file is empty.")
        header = read_header(first)
        scanner = Scanner(
            AGENT, ScanState(linear=False), now=clock(), stamp_of=lambda _: 0, internal=header.internal
        )

        def entries() -> Iterator[Entry]:
            for raw in upgrade(header, lines):
                yield scanner.read(raw)[0]
            if signature(os.fstat(stream.fileno())) != signature(there) and not source.is_unchanged():
                raise ChangedError

        yield Reading(header, there.st_mtime_ns // 1_000_000, entries())


class _Source:
    """A file's first bytes, up to where it ended when the reading began."""

    def __init__(self, handle: int, end: int) -> None:
        self._handle, self._end = handle, end
        self._read = hashlib.blake2b()

    def lines(self) -> Iterator[bytes]:
        """The lines that say something. Half a line at the end is not there yet."""
        for line in split(self._chunks(self._read)):
            if line.raw.strip() and (line.whole or is_sound(line.raw)):
                yield line.raw

    def is_unchanged(self) -> bool:
        """True when the same bytes still stand there: what was added meanwhile changes none of them."""
        again = hashlib.blake2b()
        for _ in self._chunks(again):
            pass
        return again.digest() == self._read.digest()

    def _chunks(self, into: "hashlib.blake2b") -> Iterator[bytes]:
        at = 0
        while at < self._end and (chunk := pread(self._handle, at, min(self._end, at + CHUNK))):
            into.update(chunk)
            yield chunk
            at += len(chunk)
