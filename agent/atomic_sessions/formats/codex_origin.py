"""What the first line of a Codex rollout says of the whole file: whose it is, where it comes from, and when. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from atomic_sessions.clock import parse_time
from atomic_sessions.formats.codex_records import BASE, LINE, META, NONE, SOURCE, SPAWN, SUBAGENT, Line, Meta
from atomic_sessions.formats.lines import decode
from atomic_sessions.ids import UUID

_SECONDS = 100_000_000_000
"""A number below this is a time in seconds, above it in ms."""


class Origin(Struct, frozen=True):
    """What a rollout says of itself. `parent` is the session it was forked from, or whose sub-agent it
    is when it is `internal`."""

    id: str
    cwd: str = ""
    created_at: int | None = None
    parent: str = ""
    internal: bool = False


def origin(lines: Iterable[bytes], file_name: str) -> Origin:
    """What the first lines of a rollout say; the id is empty when neither they nor its name have one.

    The first record counts: a fork repeats that of its source after its own. Where the first line is
    damaged, the name knows better than a record that follows.
    """
    named = "".join(UUID.findall(file_name)[-1:])
    first = True
    for raw in lines:
        if not raw.strip():
            continue
        meta = _meta(raw)
        if meta is not None:
            session_id = meta.id or "" if first else named or meta.id or ""
            if first or session_id == meta.id:
                return _origin(meta, session_id or named, time_of(meta.timestamp))
            return Origin(session_id)
        first = False
    return Origin(named)


def _meta(raw: bytes) -> Meta | None:
    line, _ = decode(raw, LINE)
    if line is None:
        return None
    if line.type == "session_meta":
        return decode(bytes(line.payload), META)[0]
    return decode(raw, META)[0] if is_bare_meta(line) else None


def is_bare_meta(line: Line) -> bool:
    """The first line of the oldest files: what is now a payload, without an envelope."""
    return not line.type and not line.record_type and line.payload == NONE and line.timestamp is not None


def _origin(meta: Meta, session_id: str, at: int | None) -> Origin:
    source, _ = decode(bytes(meta.source), SOURCE)
    internal = source is not None and source.subagent != NONE
    parent = meta.forked_from_id or ""
    if not parent:
        base, _ = decode(bytes(meta.history_base), BASE)
        parent = (base.thread_id if base is not None else "") or ""
    if source is not None and internal:
        sub, _ = decode(bytes(source.subagent), SUBAGENT)
        above = meta.parent_thread_id
        if sub is not None:
            spawn, _ = decode(bytes(sub.thread_spawn), SPAWN)
            above = (spawn.parent_thread_id if spawn is not None else None) or sub.parent_thread_id or above
        parent = above or parent
    return Origin(session_id, meta.cwd or "", at, "" if parent == session_id else parent, internal)


def time_of(value: str | float | None) -> int | None:
    """A record's time in ms: text, or a number of seconds or ms."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _SECONDS:
        value = value * 1000
    return parse_time(value)
