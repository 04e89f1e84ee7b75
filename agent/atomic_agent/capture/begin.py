"""Where reading of a session file begins: at the mark it was read to, or at its top, and whose session it is."""

import os
from collections.abc import Sequence
from typing import BinaryIO, Literal, cast

import msgspec
import zstandard
from msgspec import Struct

from atomic_agent.cache import files, sessions
from atomic_agent.cache.cache import Cache, fingerprint
from atomic_agent.cache.open import transaction
from atomic_agent.capture.facts import facts_of, head
from atomic_agent.capture.sources import Source, is_packed
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.detect import detect
from atomic_sessions.formats.scan import ScanState
from atomic_sessions.ids import session_key

MAX_WINDOW = 1 << 27

Outcome = Literal["new", "updated", "unchanged", "skipped", "deleted"]


class Taken(Struct):
    """What came of one file. `session` is the row of its session, 0 when it has none here."""

    outcome: Outcome
    agent: str = ""
    why: str = ""
    entries: int = 0
    damaged: int = 0
    held_back: bool = False
    rewritten: bool = False
    bytes: int = 0
    session: int = 0


class Start(Struct, frozen=True):
    """Where reading begins: at a mark, or at the top of a file. `before` is what stands just above it."""

    session: int
    agent: str
    internal: bool
    offset: int
    state: ScanState
    fresh: bool
    rewritten: bool
    has_tail: bool = False
    before: bytes = b""


def plain(source: Source, stream: BinaryIO) -> BinaryIO:
    """The file's content from its top. A packed file is unpacked as it is read, and only ever read from there on."""
    if not is_packed(source.path):
        return stream
    stream.seek(0)
    unpacking = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    return cast(BinaryIO, unpacking.stream_reader(stream, read_across_frames=True, closefd=False))


def begin(
    cache: Cache,
    source: Source,
    stream: BinaryIO,
    mark: files.FileMark | None,
    only: Sequence[str],
) -> Start | Taken:
    """Where to go on, or what came of a file that is not read."""
    if mark is not None:
        row = sessions.get(cache, mark.session)
        packed = is_packed(source.path)
        before = None if packed else still_there(stream, mark)
        grown = before is not None
        if not row.project or not grown or not mark.offset:
            if not packed:
                stream.seek(0)
            lines, whole = head(stream)
            if whole and _is_another(source, row, lines):
                return _fresh(cache, source, lines, only)
            if not row.project:
                _place(cache, source, lines, row)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(mark.state), type=ScanState)
        return Start(
            mark.session,
            row.agent,
            row.internal,
            mark.offset if grown else 0,
            state if grown else ScanState(),
            fresh=False,
            rewritten=not grown and not packed,
            has_tail=grown and mark.size > mark.offset,
            before=before or b"",
        )
    if source.agent == "codex" and source.path.suffix == ".json":
        return Taken(
            "skipped", "codex", why="an early session of Codex in one JSON object, which is not read"
        )
    lines, whole = head(stream)
    if not whole:
        return Taken("skipped", source.agent, why="its first line is unfinished")
    return _fresh(cache, source, lines, only)


def _fresh(cache: Cache, source: Source, lines: list[bytes], only: Sequence[str]) -> Start | Taken:
    """The top of a file whose session its first lines tell."""
    kind = detect(lines)
    agent = kind.agent or ("" if kind.why else source.agent)
    if not agent or (source.agent and agent != source.agent and source.agent in {"claude-code", "codex"}):
        return Taken("skipped", source.agent, why=kind.why or "not a session")
    if only and agent not in only:
        return Taken("skipped", agent)
    try:
        facts = facts_of(source, agent, kind.id, kind.owner, lines)
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
    return Start(session, agent, facts.internal, 0, ScanState(), fresh=fresh, rewritten=False)


def _is_another(source: Source, row: sessions.SessionRow, lines: list[bytes]) -> bool:
    """True when the first lines of a file that was read before are those of another session than it held."""
    kind = detect(lines)
    if not kind.agent:
        return False
    try:
        facts = facts_of(source, kind.agent, kind.id, kind.owner, lines)
    except BadSessionFileError:
        return False
    if row.internal and not facts.internal:
        # Lines that do not say whose sub-agent they are say nothing against what was known.
        return False
    if (facts.agent, facts.id) != (row.agent, row.id):
        return True
    scope = session_key(facts.agent, facts.id, facts.project).scope
    return bool(row.scope and scope) and scope != row.scope and facts.cwd != row.cwd


def _place(cache: Cache, source: Source, lines: list[bytes], row: sessions.SessionRow) -> None:
    """A session whose first lines did not say where it belongs may be told by later ones."""
    kind = detect(lines)
    try:
        facts = facts_of(source, row.agent, kind.id or row.id, kind.owner, lines)
    except BadSessionFileError:
        return
    if facts.project and (facts.id, row.scope) == (
        row.id,
        session_key(row.agent, row.id, facts.project).scope,
    ):
        with transaction(cache.connection):
            sessions.ensure(cache, msgspec.structs.replace(facts, scope=row.scope), spread=True)


def still_there(stream: BinaryIO, mark: files.FileMark) -> bytes | None:
    """What stands above the mark, when it is what was read there before; None for a file that was rewritten."""
    size = os.fstat(stream.fileno()).st_size
    if mark.size > size or mark.offset > size:
        return None
    stream.seek(mark.offset - mark.check_size)
    before = stream.read(mark.check_size)
    return before if fingerprint(before) == mark.check_hash else None
