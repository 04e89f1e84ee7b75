"""One agent's file into the cache: incremental, safe against partial, rewritten and damaged files.

Every batch is one transaction with the offset it reached, so a kill loses nothing and doubles
nothing. The agent's file is only ever read.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, cast

import msgspec
import zstandard
from msgspec import Struct

from atomic_agent.cache import entries, files, sessions
from atomic_agent.cache.cache import Cache, fingerprint
from atomic_agent.cache.open import transaction
from atomic_agent.capture.sources import Source, is_packed
from atomic_agent.projects import project_of
from atomic_sessions.entry import Entry, Facts, View
from atomic_sessions.errors import BadSessionFileError, FutureFormatError
from atomic_sessions.formats import codex
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.detect import detect
from atomic_sessions.formats.lines import Line, salvage, split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import SessionHeader, members, read_header
from atomic_sessions.ids import session_key

CHUNK = 1024 * 1024
BATCH_BYTES = 8 * 1024 * 1024
BATCH_LINES = 4000
CHECK_BYTES = 4096
HEAD_BYTES = 256 * 1024
HEAD_LINES = 200
MAX_HEAD_BYTES = 64 * 1024 * 1024
MAX_NAME = 4096
MAX_WINDOW = 1 << 27
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
    has_tail: bool = False


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
    if not stat.S_ISREG(found.st_mode):
        return Taken("skipped", why="not a regular file")
    mark = files.mark(cache, _name(source.path))
    same = mark is not None and (mark.size, mark.mtime_ns, mark.inode) == _stat(source.path)
    if same and not _sides_changed(cache, source):
        return Taken("unchanged")
    try:
        with source.path.open("rb") as stream:
            start = _begin(cache, source, _plain(source, stream), mark, now, only)
            if isinstance(start, Taken):
                return start
            taken = Taken("new" if start.fresh else "updated", start.agent, rewritten=start.rewritten)
            _read(cache, source, _plain(source, stream), start, found, now, taken, progress)
    except zstandard.ZstdError as error:
        raise BadSessionFileError("It is compressed and cannot be unpacked: the file is damaged.") from error
    taken.entries += _take_sides(cache, source, start.session)
    entries.refresh_stale(cache)
    if not taken.entries and not start.fresh:
        taken.outcome = "unchanged"
    return taken


def _plain(source: Source, stream: BinaryIO) -> BinaryIO:
    """The file's content from its top. A packed file is unpacked as it is read, and only ever read from there on."""
    if not is_packed(source.path):
        return stream
    stream.seek(0)
    unpacking = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    return cast(BinaryIO, unpacking.stream_reader(stream, read_across_frames=True, closefd=False))


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
        packed = is_packed(source.path)
        grown = not packed and _is_grown(stream, mark)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(mark.state), type=ScanState)
        return _Start(
            mark.session,
            row.agent,
            row.internal,
            mark.offset if grown else 0,
            state if grown else ScanState(),
            fresh=False,
            rewritten=not grown and not packed,
            has_tail=grown and mark.size > mark.offset,
        )
    if source.agent == "codex" and source.path.suffix == ".json":
        return Taken(
            "skipped", "codex", why="an early session of Codex in one JSON object, which is not read"
        )
    lines = _head(stream)
    kind = detect(lines)
    agent = kind.agent or ("" if kind.why else source.agent)
    if not agent or (source.agent and agent != source.agent and source.agent in {"claude-code", "codex"}):
        return Taken("skipped", source.agent, why=kind.why or "not a session")
    if only and agent not in only:
        return Taken("skipped", agent)
    try:
        facts = _facts(source, agent, kind.id, kind.owner, lines)
    except BadSessionFileError as error:
        return Taken("skipped", agent, why=error.message)
    key = session_key(facts.agent, facts.id, facts.project)
    facts = msgspec.structs.replace(facts, scope=key.scope)
    above = session_key(facts.agent, facts.parent, facts.project)
    if sessions.is_deleted(cache, key) or (
        facts.internal and facts.parent and sessions.is_deleted(cache, above)
    ):
        return Taken("deleted", agent, why="deleted earlier; nothing brings it back")
    fresh = sessions.by_key(cache, key) is None
    with transaction(cache.connection):
        session = sessions.ensure(cache, facts, spread=True)
    return _Start(session, agent, facts.internal, 0, ScanState(), fresh=fresh, rewritten=False)


def _name(path: Path) -> str:
    """A path as text that the cache takes, also when it is no UTF-8."""
    return _text(str(path))


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _head(stream: BinaryIO) -> list[bytes]:
    """The first lines, each whole: a first record may hold a picture, a header more than a megabyte."""
    found: list[bytes] = []
    size = 0
    for line in split(_beginning(stream)):
        found.append(line.raw)
        size += len(line.raw)
        if size >= HEAD_BYTES or len(found) >= HEAD_LINES:
            break
    return found


def _beginning(stream: BinaryIO) -> Iterator[bytes]:
    size = 0
    while size < MAX_HEAD_BYTES and (chunk := stream.read(HEAD_BYTES)):
        size += len(chunk)
        yield chunk


def _header(lines: Sequence[bytes]) -> SessionHeader:
    """The first line that is a session header; damage may stand before it."""
    refused: BadSessionFileError | None = None
    for raw in lines:
        try:
            return read_header(raw if members(raw) is not None else salvage(raw) or raw)
        except FutureFormatError:
            raise
        except BadSessionFileError as error:
            refused = refused or error
    raise refused or BadSessionFileError("The file does not begin with a session header.")


def _facts(source: Source, agent: str, own_id: str, owner: str, lines: list[bytes]) -> Facts:
    cwd, created = "", None
    read = viewer(agent, internal=bool(source.owner))
    for raw in lines:
        said = read(raw)
        cwd = cwd or said.cwd
        created = said.at if created is None else created
        if cwd and created is not None:
            break
    if created is None:
        created = int(source.path.stat().st_mtime * 1000)
    if agent == "codex":
        return _rollout_facts(source, lines, cwd, created)
    stem, parent, internal, session_id = _text(source.path.stem), "", False, own_id
    if agent == "claude-code":
        parent = _text(source.owner) or (owner if stem.startswith("agent-") else "")
        internal = bool(parent)
        session_id = f"{parent}/{stem}" if internal else stem
    else:
        header = _header(lines)
        parent, internal, cwd = header.parent, header.internal, header.cwd
    if max(len(session_id), len(cwd), len(parent)) > MAX_NAME:
        raise BadSessionFileError("The session's id, folder or parent is longer than any real one.")
    return Facts(agent, session_id, "", cwd, project_of(cwd), created, parent, internal)


def _rollout_facts(source: Source, lines: list[bytes], cwd: str, created: int) -> Facts:
    of = codex.origin(lines, _text(source.path.name))
    if not of.id:
        raise BadSessionFileError(
            "It is part of a Codex session: neither its records nor its name say which."
        )
    cwd = of.cwd or cwd
    if max(len(of.id), len(cwd), len(of.parent)) > MAX_NAME:
        raise BadSessionFileError("The session's id, folder or parent is longer than any real one.")
    at = created if of.created_at is None else of.created_at
    return Facts("codex", of.id, "", cwd, project_of(cwd), at, of.parent, of.internal)


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
    early = entries.unsealed_at(cache, start.session, start.state.pos) if start.has_tail else []
    for line in split(_chunks(stream, progress), offset):
        if not line.whole:
            tail = line
            break
        batch.append(scanner.read(line.raw))
        if early:
            _take_back(cache, start.session, early, batch[0])
            early = []
        offset = line.end
        size += len(line.raw)
        if size >= BATCH_BYTES or len(batch) >= BATCH_LINES:
            _commit(cache, source, stream, start.session, batch, offset, None, scanner.state, taken)
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


def _commit(
    cache: Cache,
    source: Source,
    stream: BinaryIO,
    session: int,
    batch: list[entries.Incoming],
    offset: int,
    found: os.stat_result | None,
    state: ScanState,
    taken: Taken,
    extra: list[entries.Incoming] | None = None,
) -> None:
    """Take in a batch with the mark it reaches. `found` None: the file goes on, so that after a kill it
    must not look as if it had been read to its end."""
    here = stream.tell()
    check = 0 if is_packed(source.path) else min(CHECK_BYTES, offset)
    if check:
        stream.seek(offset - check)
    check_hash = fingerprint(stream.read(check))
    if check:
        stream.seek(here)
    with transaction(cache.connection):
        added = entries.insert(cache, session, [*batch, *(extra or [])])
        mark = files.FileMark(
            _name(source.path),
            session,
            found.st_size if found is not None else offset,
            found.st_mtime_ns if found is not None else 0,
            found.st_ino if found is not None else 0,
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
    return any(_stat(path) != files.stats(cache, _name(path)) for path in source.sides)


def _stat(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def _take_sides(cache: Cache, source: Source, session: int) -> int:
    """Spilled outputs and the like travel with the session, whole."""
    new = 0
    for path in source.sides:
        size, mtime, inode = _stat(path)
        if files.stats(cache, _name(path)) == (size, mtime, inode) or size > MAX_SIDE_BYTES:
            continue
        name = _text(f"{path.parent.name}/{path.name}" if path.parent.name == "tool-results" else path.name)
        entry = Entry(f"file:{name}", None, 0, mtime // 1_000_000, path.read_bytes(), loose=True, file=name)
        with transaction(cache.connection):
            new += entries.insert(cache, session, [(entry, View(kind="file", in_context=False))]).new
            files.put(
                cache, files.FileMark(_name(path), session, size, mtime, inode, size, 0, b"", ScanState())
            )
    return new
