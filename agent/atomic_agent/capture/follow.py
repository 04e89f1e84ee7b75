"""One agent's file into the cache: incremental, safe against partial, rewritten and damaged files.

Every batch is one transaction with the offset it reached, so a kill loses nothing and doubles
nothing. The agent's file is only ever read.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from atomic_agent.cache import entries, files, sessions
from atomic_agent.cache.cache import Cache, fingerprint
from atomic_agent.cache.open import transaction
from atomic_agent.capture.sources import Source
from atomic_agent.projects import project_of
from atomic_sessions.entry import Entry, Facts, View
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.detect import detect
from atomic_sessions.formats.lines import Line, split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import read_header
from atomic_sessions.ids import session_key

CHUNK = 1024 * 1024
BATCH_BYTES = 8 * 1024 * 1024
BATCH_LINES = 4000
CHECK_BYTES = 4096
HEAD_BYTES = 256 * 1024
MAX_SIDE_BYTES = 64 * 1024 * 1024

Outcome = Literal["new", "updated", "unchanged", "skipped", "deleted"]


class Taken(Struct):
    """What came of one file."""

    outcome: Outcome
    agent: str = ""
    why: str = ""
    entries: int = 0
    damaged: int = 0
    held_back: bool = False
    rewritten: bool = False
    bytes: int = 0


class _Start(Struct, frozen=True):
    """Where reading begins: at a mark, or at the top of a file."""

    session: int
    agent: str
    internal: bool
    offset: int
    state: ScanState
    fresh: bool
    rewritten: bool


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
    found = source.path.stat()
    mark = files.mark(cache, str(source.path))
    if mark is not None and (mark.size, mark.mtime_ns, mark.inode) == (
        found.st_size,
        found.st_mtime_ns,
        found.st_ino,
    ):
        if not _sides_changed(cache, source):
            return Taken("unchanged")
    with source.path.open("rb") as stream:
        start = _begin(cache, source, stream, mark, now, only)
        if isinstance(start, Taken):
            return start
        taken = Taken("new" if start.fresh else "updated", start.agent, rewritten=start.rewritten)
        _read(cache, source, stream, start, found, now, taken, progress)
    taken.entries += _take_sides(cache, source, start.session)
    if not taken.entries and not start.fresh:
        taken.outcome = "unchanged"
    return taken


def _begin(
    cache: Cache,
    source: Source,
    stream: BinaryIO,
    mark: files.FileMark | None,
    now: int,
    only: Sequence[str],
) -> _Start | Taken:
    if mark is not None:
        row = sessions.get(cache, mark.session)
        grown = _is_grown(stream, mark)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(mark.state), type=ScanState)
        return _Start(
            mark.session,
            row.agent,
            row.internal,
            mark.offset if grown else 0,
            state if grown else ScanState(),
            fresh=False,
            rewritten=not grown,
        )
    head = stream.read(HEAD_BYTES)
    lines = [line.raw for line in split([head])]
    kind = detect(lines)
    agent = kind.agent or ("" if kind.why else source.agent)
    if not agent or (source.agent and agent != source.agent and source.agent == "claude-code"):
        return Taken("skipped", source.agent, why=kind.why or "not a session")
    if only and agent not in only:
        return Taken("skipped", agent)
    try:
        facts = _facts(source, agent, kind.id, kind.owner, lines, now)
    except BadSessionFileError as error:
        return Taken("skipped", agent, why=error.message)
    key = session_key(facts.agent, facts.id, facts.project)
    facts = msgspec.structs.replace(facts, scope=key.scope)
    if sessions.is_deleted(cache, key):
        return Taken("deleted", agent, why="deleted earlier; nothing brings it back")
    fresh = sessions.by_key(cache, key) is None
    with transaction(cache.connection):
        session = sessions.ensure(cache, facts)
    return _Start(session, agent, facts.internal, 0, ScanState(), fresh=fresh, rewritten=False)


def _facts(source: Source, agent: str, own_id: str, owner: str, lines: list[bytes], now: int) -> Facts:
    scanner = Scanner(agent, ScanState(), now=now, stamp_of=lambda _: 0, internal=bool(source.owner))
    views = [scanner.read(raw)[1] for raw in lines[:200]]
    cwd = next((v.cwd for v in views if v.cwd), "")
    created = next((v.at for v in views if v.at is not None), int(source.path.stat().st_mtime * 1000))
    stem, parent, internal, session_id = source.path.stem, "", False, own_id
    if agent == "claude-code":
        parent = source.owner or (owner if stem.startswith("agent-") else "")
        internal = bool(parent)
        session_id = f"{parent}/{stem}" if internal else stem
    else:
        header = read_header(next(raw for raw in lines if raw.strip()))
        parent, internal, cwd = header.parent, header.internal, header.cwd
    return Facts(agent, session_id, "", cwd, project_of(cwd), created, parent, internal)


def _is_grown(stream: BinaryIO, mark: files.FileMark) -> bool:
    """True when what was read before still stands at the same place."""
    if mark.size > os.fstat(stream.fileno()).st_size or mark.offset > os.fstat(stream.fileno()).st_size:
        return False
    stream.seek(mark.offset - mark.check_size)
    return fingerprint(stream.read(mark.check_size)) == mark.check_hash


def _read(
    cache: Cache,
    source: Source,
    stream: BinaryIO,
    start: _Start,
    found: os.stat_result,
    now: int,
    taken: Taken,
    progress: Callable[[int], None],
) -> None:
    scanner = Scanner(
        start.agent,
        start.state,
        now=now,
        stamp_of=lambda entry_id: entries.stamp_of(cache, start.session, entry_id),
        internal=start.internal,
    )
    offset = start.offset
    stream.seek(offset)
    batch: list[entries.Incoming] = []
    size = 0
    tail: Line | None = None
    for line in split(_chunks(stream, progress), offset):
        if not line.whole:
            tail = line
            break
        batch.append(scanner.read(line.raw))
        offset = line.end
        size += len(line.raw)
        if size >= BATCH_BYTES or len(batch) >= BATCH_LINES:
            _commit(cache, source, stream, start.session, batch, offset, found, scanner.state, taken)
            batch, size = [], 0
    provisional = _provisional(scanner, tail) if tail is not None else None
    taken.held_back = tail is not None and provisional is None
    extra = [provisional] if provisional is not None else []
    _commit(cache, source, stream, start.session, batch, offset, found, scanner.state, taken, extra)


def _provisional(scanner: Scanner, tail: Line) -> entries.Incoming | None:
    """A last line without \\n that parses is taken in, and read again next time; else it waits."""
    kept = msgspec.msgpack.encode(scanner.state)
    entry, view = scanner.read(tail.raw)
    scanner.state = msgspec.msgpack.decode(kept, type=ScanState)
    return None if view.damaged else (entry, view)


def _chunks(stream: BinaryIO, progress: Callable[[int], None]) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        progress(len(chunk))
        yield chunk


def _commit(
    cache: Cache,
    source: Source,
    stream: BinaryIO,
    session: int,
    batch: list[entries.Incoming],
    offset: int,
    found: os.stat_result,
    state: ScanState,
    taken: Taken,
    extra: list[entries.Incoming] | None = None,
) -> None:
    here = stream.tell()
    check = min(CHECK_BYTES, offset)
    stream.seek(offset - check)
    check_hash = fingerprint(stream.read(check))
    stream.seek(here)
    with transaction(cache.connection):
        added = entries.insert(cache, session, [*batch, *(extra or [])])
        mark = files.FileMark(
            str(source.path),
            session,
            found.st_size,
            found.st_mtime_ns,
            found.st_ino,
            offset,
            check,
            check_hash,
            state,
        )
        files.put(cache, mark)
    taken.entries += added.new
    taken.damaged += sum(view.damaged for _, view in batch)
    taken.bytes += sum(len(entry.raw) for entry, _ in batch)


def _sides_changed(cache: Cache, source: Source) -> bool:
    known = files.stats(cache) if source.sides else {}
    return any(_stat(path) != known.get(str(path)) for path in source.sides)


def _stat(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def _take_sides(cache: Cache, source: Source, session: int) -> int:
    """Spilled outputs and the like travel with the session, whole."""
    new = 0
    known = files.stats(cache) if source.sides else {}
    for path in source.sides:
        size, mtime, inode = _stat(path)
        if known.get(str(path)) == (size, mtime, inode) or size > MAX_SIDE_BYTES:
            continue
        name = f"{path.parent.name}/{path.name}" if path.parent.name == "tool-results" else path.name
        entry = Entry(f"file:{name}", None, 0, mtime // 1_000_000, path.read_bytes(), loose=True, file=name)
        with transaction(cache.connection):
            new += entries.insert(cache, session, [(entry, View(kind="file", in_context=False))]).new
            files.put(
                cache, files.FileMark(str(path), session, size, mtime, inode, size, 0, b"", ScanState())
            )
    return new
