"""One agent's file into the cache: incremental, safe against partial, rewritten and damaged files.

Every batch is one transaction with the offset it reached, so a kill loses nothing and doubles
nothing. The agent's file is only ever read.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard
from msgspec import Struct

from atomic_agent.cache import entries, files
from atomic_agent.cache.cache import Cache, fingerprint
from atomic_agent.cache.open import transaction
from atomic_agent.capture.begin import Start, Taken, begin, plain
from atomic_agent.capture.facts import path_name
from atomic_agent.capture.placing import Placing
from atomic_agent.capture.side_files import sides_changed, stat_of, take_sides
from atomic_agent.capture.sources import Source, is_packed
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.lines import Line, split
from atomic_sessions.formats.scan import Scanner, ScanState

CHUNK = 1024 * 1024
BATCH_BYTES = 8 * 1024 * 1024
BATCH_LINES = 4000
CHECK_BYTES = 4096
TRIES = 3
NO_FILE = "not a regular file"


class _ChangedError(Exception):
    """What was read no longer stands in the file: it was rewritten meanwhile."""


def take(
    cache: Cache,
    source: Source,
    now: int,
    progress: Callable[[int], None] = lambda _: None,
    only: Sequence[str] = (),
) -> Taken:
    """Bring one file's news into the cache. `now` in ms; `progress` hears bytes as they are read. A file
    of an agent that is not in a non-empty `only` is passed over.

    Raises OSError only when the file cannot be read at all.
    """
    if not stat.S_ISREG(source.path.stat().st_mode):
        return Taken("skipped", why=NO_FILE)
    mark = files.mark(cache, path_name(source.path))
    same = mark is not None and (mark.size, mark.mtime_ns, mark.inode) == stat_of(source.path)
    if same and not sides_changed(cache, source):
        return Taken("unchanged")
    opened = _opened(source.path)
    if opened is None:
        return Taken("skipped", why=NO_FILE)
    try:
        with opened as stream:
            taken = _attempts(cache, source, stream, now, only, progress)
    except zstandard.ZstdError as error:
        raise BadSessionFileError("It is compressed and cannot be unpacked: the file is damaged.") from error
    if not taken.session:
        return taken
    taken.entries += take_sides(cache, source, taken.session)
    entries.refresh_stale(cache)
    if not taken.entries and taken.outcome == "updated":
        taken.outcome = "unchanged"
    return taken


def _opened(path: Path) -> BinaryIO | None:
    """The file for reading, None when it is none any more: a pipe, on which a plain open waits for ever, may have
    taken its place since it was looked at."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb", buffering=0)
    os.close(handle)
    return None


def _attempts(
    cache: Cache,
    source: Source,
    stream: BinaryIO,
    now: int,
    only: Sequence[str],
    progress: Callable[[int], None],
) -> Taken:
    """Read, and once more from the mark when the file was rewritten meanwhile; one that never rests is left
    for the next time, with what was whole."""
    total: Taken | None = None
    for _ in range(TRIES):
        stream.seek(0)
        # Before anything is read, so that a change after it is seen.
        found = os.fstat(stream.fileno())
        mark = files.mark(cache, path_name(source.path))
        start = begin(cache, source, plain(source, stream), mark, only)
        if isinstance(start, Taken):
            return total or start
        if total is None:
            total = Taken("new" if start.fresh else "updated", start.agent, session=start.session)
        # Between two tries another session's file may have come.
        total.agent, total.session = start.agent, start.session
        total.rewritten |= start.rewritten
        try:
            _read(cache, source, stream, start, found, now, total, progress)
            break
        except _ChangedError:
            total.rewritten = True
    assert total is not None
    return total


def _read(
    cache: Cache,
    source: Source,
    file: BinaryIO,
    start: Start,
    found: os.stat_result,
    now: int,
    taken: Taken,
    progress: Callable[[int], None],
) -> None:
    stream = plain(source, file)
    offset = start.offset
    stream.seek(offset)
    batch: list[entries.Incoming] = []
    size, before, packed = 0, start.before, is_packed(source.path)

    def commit(
        tail: Line | None = None, extra: Sequence[entries.Incoming] = (), *, end: bool = False
    ) -> None:
        nonlocal size, before
        if not packed:
            _check(file, offset, before, batch, tail, found)
            before = _ending(before, batch)
        read = 0 if packed else tail.end if tail is not None else offset
        reached = _Reached(offset, read, before, found if end else None)
        _commit(cache, source, start.session, [*batch, *extra], reached, placing, taken)
        taken.damaged += sum(view.damaged for _, view in batch)
        taken.bytes += sum(len(entry.raw) for entry, _ in batch)
        batch.clear()
        size = 0

    scanner = Scanner(
        start.agent,
        start.state,
        now=now,
        stamp_of=lambda entry_id: entries.stamp_of(cache, start.session, entry_id),
        internal=start.internal,
    )
    placing = Placing(cache, start.session, start.agent, scanner, commit)
    tail: Line | None = None
    early = entries.unsealed_at(cache, start.session, placing.next_pos) if start.has_tail else []
    for line in split(_chunks(stream, progress), offset):
        if not line.whole:
            tail = line
            break
        batch.append(placing.read(line.raw))
        if early:
            _take_back(cache, start.session, early, batch[0])
            early = []
        offset = line.end
        size += len(line.raw)
        if size >= BATCH_BYTES or len(batch) >= BATCH_LINES:
            commit()
    provisional = _provisional(scanner, placing, tail) if tail is not None else None
    taken.held_back = tail is not None and provisional is None
    commit(tail, [provisional] if provisional is not None else [], end=True)
    taken.entries += placing.told


def _check(
    file: BinaryIO,
    end: int,
    before: bytes,
    batch: Sequence[entries.Incoming],
    tail: Line | None,
    found: os.stat_result,
) -> None:
    """_ChangedError when the lines that were read, and what stood above them, are not in the file: one that is
    rewritten while it is read gives lines made of its old and its new content. A file that rests is not read
    twice."""
    here = os.fstat(file.fileno())
    if (here.st_size, here.st_mtime_ns) == (found.st_size, found.st_mtime_ns):
        return
    content = b"".join(entry.raw + b"\n" for entry, _ in batch)
    begun = end - len(content) - len(before)
    content = b"".join((before, content, tail.raw if tail is not None else b""))
    place = file.tell()
    file.seek(begun)
    same = file.read(len(content)) == content
    file.seek(place)
    if not same:
        raise _ChangedError


def _ending(before: bytes, batch: Sequence[entries.Incoming]) -> bytes:
    """The last bytes that were read, by which the place is known again."""
    last: list[bytes] = []
    size = 0
    for entry, _ in reversed(batch):
        if size >= CHECK_BYTES:
            break
        last.append(entry.raw + b"\n")
        size += len(last[-1])
    return b"".join([before, *reversed(last)])[-CHECK_BYTES:]


def _provisional(scanner: Scanner, placing: Placing, tail: Line) -> entries.Incoming | None:
    """A last line without \\n that parses is taken in, and read again next time; else it waits."""
    kept = msgspec.msgpack.encode(scanner.state)
    entry, view = placing.read(tail.raw)
    scanner.state = msgspec.msgpack.decode(kept, type=ScanState)
    return None if view.damaged else (entry, view)


def _take_back(cache: Cache, session: int, early: list[entries.StoredEntry], line: entries.Incoming) -> None:
    """A last line that was taken in before its newline came, and has grown since, gives way to what it is now:
    unless a record holds it already, or something hangs below it."""
    for stored in early:
        old, new = stored.entry, line[0]
        if new.raw != old.raw and new.raw.startswith(old.raw):
            with transaction(cache.connection):
                if new.id == old.id or not entries.has_children(cache, session, old.id):
                    entries.take_back(cache, session, stored.row)


def _chunks(stream: BinaryIO, progress: Callable[[int], None]) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        progress(len(chunk))
        yield chunk


class _Reached(Struct, frozen=True):
    """How far a batch came: the end of its last whole line, and of what follows it; `ending` stands above it.
    `found` None: the file goes on, so that after a kill it must not look as if it had been read to its end."""

    offset: int
    end: int
    ending: bytes
    found: os.stat_result | None


def _commit(
    cache: Cache,
    source: Source,
    session: int,
    batch: list[entries.Incoming],
    reached: _Reached,
    placing: Placing,
    taken: Taken,
) -> None:
    """Take in a batch with the mark it reaches."""
    found = reached.found
    with transaction(cache.connection):
        taken.entries += entries.insert(cache, session, batch).new
        mark = files.FileMark(
            path_name(source.path),
            session,
            # What was read may be more than there was when reading began; a packed file's offset is another's.
            max(found.st_size if found is not None else 0, reached.end),
            found.st_mtime_ns if found is not None else 0,
            found.st_ino if found is not None else 0,
            reached.offset,
            len(reached.ending),
            fingerprint(reached.ending),
            placing.state,
        )
        files.put(cache, mark)
