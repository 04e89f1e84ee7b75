"""Runs of workflows and their stages as records: what one says, and what follows from a change. Pure.

Facts: formats/atomic-sessions.md sections 4.1 and 14, whose names the JSON has. Members that are unknown here stay as
they were written, but for the space between them. What went in and came out of a stage is never shown.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from atomic_agent.cache import claims
from atomic_agent.cache.claims import Process
from atomic_sessions.errors import NotFoundError, SessionExistsError, UsageError
from atomic_sessions.formats.upgrade import encode, members
from atomic_sessions.unreadable import UNREADABLE

RUNNING = "running"
PAUSED = "paused"
INTERRUPTED = "interrupted"
COMPLETED = "completed"
FAILED = "failed"
STATUSES = (RUNNING, PAUSED, INTERRUPTED, COMPLETED, FAILED)
NULL = Raw(b"null")
_LATER = 1 << 62
_MORE = "\ue000"
"""A name no program gives a member; what stands under it is put in beside the others."""


_OF_RUNS = {
    "id": "runId",
    "created_at": "createdAt",
    "updated_at": "updatedAt",
    "session": "sessionId",
    "more": _MORE,
}
_OF_STAGES = {
    "run": "runId",
    "id": "stageId",
    "name": "stageName",
    "parents": "parentIds",
    "session": "sessionId",
    "replay_key": "replayKey",
    "started_at": "startedAt",
    "ended_at": "endedAt",
    "more": _MORE,
}


class Run(Struct, frozen=True, rename=_OF_RUNS):
    """A run of a workflow. `session` is the id of the session it was begun from, empty for none; `inputs` is JSON;
    `process` makes it while it is running. Times in ms."""

    id: str
    name: str = ""
    project: str = ""
    cwd: str = ""
    status: str = RUNNING
    created_at: int = 0
    updated_at: int = 0
    session: str = ""
    inputs: Raw = NULL
    process: Process | None = None
    more: dict[str, Raw] = {}

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.status})"


class Stage(Struct, frozen=True, rename=_OF_STAGES):
    """A stage of a run. `session` is the id of its internal session, empty for none; `parents` are the stages it comes
    after; `result` is JSON; `process` makes it while it is running. Times in ms, 0 for not yet."""

    run: str
    id: str
    name: str = ""
    status: str = RUNNING
    parents: tuple[str, ...] = ()
    session: str = ""
    model: str = ""
    replay_key: str = ""
    started_at: int = 0
    ended_at: int = 0
    result: Raw = NULL
    error: str = ""
    process: Process | None = None
    more: dict[str, Raw] = {}

    def __repr__(self) -> str:
        return f"Stage({self.run!r}, {self.id!r}, {self.status})"


R = TypeVar("R", Run, Stage)


def line(one: Run | Stage) -> bytes:
    """A record as JSON on one line, with the members nobody here knows."""
    parts = members(msgspec.json.encode(replace(one, more={})))
    assert parts is not None
    del parts[_MORE]
    return encode(parts | {name: raw for name, raw in one.more.items() if name not in parts})


def read(raw: bytes, kind: type[R]) -> R | None:
    """A record from its line; None for what is none."""
    parts = members(raw)
    try:
        found = msgspec.json.decode(raw, type=kind)
    except UNREADABLE:
        return None
    known = set(kind.__struct_encode_fields__)
    return replace(found, more={name: value for name, value in (parts or {}).items() if name not in known})


def begun(run: Run, me: Process, now: int) -> Run:
    """A run as it is kept first. UsageError for one that cannot be."""
    _check(run, (run.id,))
    return _by(
        replace(
            run,
            inputs=_compact(run.inputs),
            more=_all(run.more),
            created_at=run.created_at or now,
            updated_at=max(run.updated_at, now),
        ),
        me,
    )


def with_status(run: Run, status: str, me: Process, now: int) -> Run:
    """A run after its status was set; who sets it running goes on with it."""
    new = replace(run, status=status, process=None, updated_at=max(run.updated_at, now))
    _check(new, ())
    return _by(new, me)


def put(run: Run, stage: Stage, me: Process, now: int) -> tuple[Run, Stage]:
    """A run and its stage after that stage was written. UsageError for one that cannot be kept."""
    _check(stage, (stage.run, stage.id))
    new = replace(stage, result=_compact(stage.result), more=_all(stage.more))
    return replace(run, updated_at=max(run.updated_at, now)), _by(new, me)


def _by(one: R, me: Process) -> R:
    """A running record says which process runs it, any other that none does."""
    return replace(one, process=(one.process or me) if one.status == RUNNING else None)


def _check(one: Run | Stage, ids: Iterable[str]) -> None:
    if one.status not in STATUSES:
        raise UsageError(
            f"A run or stage cannot be '{one.status[:40]}'.", f"Use one of: {', '.join(STATUSES)}"
        )
    for identity in ids:
        if not identity.strip() or not _is_text(identity):
            raise UsageError("A run and a stage need an id that is a text and not blank.", "Give it one.")


def _is_text(value: str) -> bool:
    """False for half a character, which no store can hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _all(more: dict[str, Raw]) -> dict[str, Raw]:
    return {name: _compact(value) for name, value in more.items()}


def _compact(value: Raw) -> Raw:
    try:
        return Raw(msgspec.json.format(bytes(value), indent=-1))
    except UNREADABLE:
        raise UsageError("What a run or stage was given to keep is not JSON.", "Encode it first.") from None


def seen(one: R, me: Process) -> R:
    """A record as it is now: running, but its process is gone, means interrupted."""
    if one.status != RUNNING or (one.process is not None and claims.alive(one.process, me.host)):
        return one
    return replace(one, status=INTERRUPTED, process=None)


def in_order(stages: Collection[Stage]) -> list[Stage]:
    """Stages after those they come after, else by their beginning; the same whatever order they were written in."""
    waiting = {stage.id: stage for stage in sorted(stages, key=lambda s: (s.started_at or _LATER, s.id))}
    found: list[Stage] = []
    while waiting:
        ready = (s for s in waiting.values() if not any(p in waiting and p != s.id for p in s.parents))
        first = next(ready, None) or next(iter(waiting.values()))  # a circle is broken at its oldest
        found.append(waiting.pop(first.id))
    return found


def left(stages: Iterable[Stage]) -> list[Stage]:
    """What is still to do, of stages in order."""
    return [stage for stage in stages if stage.status != COMPLETED]


def page(runs: Iterable[Run], project: str | None, limit: int, offset: int) -> Iterator[Run]:
    """A page of runs, what changed last first."""
    wanted = sorted((run for run in runs if project is None or run.project == project), key=_order)
    yield from wanted[offset : None if limit < 0 else offset + limit]


def _order(run: Run) -> tuple[int, str]:
    return -run.updated_at, run.id


def no_run(run: str) -> NotFoundError:
    return NotFoundError(f"There is no run '{run[:64]}'.", "Begin it first.")


def taken(run: str) -> SessionExistsError:
    return SessionExistsError(
        f"The run '{run[:64]}' is here already; nothing was replaced.", "Go on with it."
    )
