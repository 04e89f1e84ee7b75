"""Small session files of the agents, written for the tests, and a folder of them that is captured."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from atomic_agent.cache import sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.capture import run, sources
from atomic_agent.publish.exporting import Rendering
from atomic_agent.stores.sqlite import SqliteStore
from atomic_agent.turns.history import History, load
from atomic_sessions.entry import Entry

NOW = 1_796_043_907_321
SID = "615753d9-cd5a-4f7e-8341-494c874882a7"
OTHER = "2ac81de5-bf6e-40da-b53d-bbe7bc472ada"
PI_ID = "01a22c81-7192-70af-aa13-6f2a524f0b20"

Record = dict[str, Any]  # JSON


def raw(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def text_of(records: Iterable[Record | bytes]) -> bytes:
    """A file's bytes: each record on its line, raw bytes as they are."""
    return b"".join((r if isinstance(r, bytes) else raw(r)) + b"\n" for r in records)


def claude(number: int, text: str, *, sid: str = SID, parent: int | None = -1, **more: object) -> Record:
    """A chain record: user for even numbers, assistant for odd ones, below the one before."""
    role = "user" if number % 2 == 0 else "assistant"
    above = number - 1 if parent == -1 else parent
    content: object = text if role == "user" else [{"type": "text", "text": text}]
    return {
        "parentUuid": None if above is None or above < 0 else _uuid(above),
        "isSidechain": False,
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": _uuid(number),
        "timestamp": f"2026-11-30T12:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "cwd": "/home/dev/proj",
        "sessionId": sid,
        "version": "2.1.332",
        **more,
    }


def _uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


def pi_header(**more: object) -> Record:
    return {
        "type": "session",
        "version": 3,
        "id": PI_ID,
        "timestamp": "2026-11-30T12:00:00.000Z",
        "cwd": "/home/dev/proj",
        **more,
    }


def pi(number: int, text: str, role: str = "", **more: object) -> Record:
    role = role or ("user" if number % 2 == 0 else "assistant")
    return {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": f"{number - 1:08x}" if number else None,
        "timestamp": f"2026-11-30T12:00:{number % 60:02d}.000Z",
        "message": {
            "role": role,
            "content": [{"type": "text", "text": text}],
            "timestamp": NOW + number,
            **more,
        },
    }


def capture(cache: Cache, *places: Path, only: Sequence[str] = (), now: int = NOW) -> run.Report:
    """What `atomic capture --from PLACE` does."""
    found = [source for place in places for source in sources.find_any(place)]
    return run.capture(cache, found, only=list(only), now=now)


def rows(cache: Cache) -> dict[str, sessions.SessionRow]:
    """All sessions, sub-agents' too, by id."""
    return {row.id: row for row in sessions.listed(cache, internal=True)}


def the_row(cache: Cache) -> sessions.SessionRow:
    (row,) = rows(cache).values()
    return row


def lines(cache: Cache, session_id: str | None = None) -> list[Entry]:
    """A session's own lines in canonical order."""
    row = the_row(cache) if session_id is None else rows(cache)[session_id]
    return list(SqliteStore(cache).read(row.facts.key))


def loaded(cache: Cache, row: sessions.SessionRow, *, whole: bool = False) -> History:
    """What opens of a session."""
    store = SqliteStore(cache)
    return load(store, store.open(row.facts.key), whole=whole)


def exported(cache: Cache, session_id: str | None = None) -> bytes:
    """What `atomic export ID FILE.jsonl` writes."""
    row = the_row(cache) if session_id is None else rows(cache)[session_id]
    store = SqliteStore(cache)
    return b"".join(Rendering(store, store.open(row.facts.key), "jsonl").pieces())


def append(path: Path, *content: bytes | Record) -> None:
    with path.open("ab") as stream:
        for piece in content:
            stream.write(piece if isinstance(piece, bytes) else raw(piece) + b"\n")


def write(path: Path, *records: Record | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text_of(records))
    return path


AGENTS = ("claude-code", "codex", "pi")


def head(agent: str) -> list[bytes]:
    """The lines with which every file of this session begins."""
    if agent == "pi":
        return [raw(pi_header())]
    if agent == "codex":
        meta = {"id": SID, "cwd": "/home/dev/proj"}
        return [raw({"timestamp": "2026-11-30T12:00:00.000Z", "type": "session_meta", "payload": meta})]
    return []


def message(agent: str, number: int, text: str = "said") -> bytes:
    """One message; another number or text is another line under another id."""
    if agent == "pi":
        return raw({**pi(number, text), "id": f"{number:x}-{text[:20]}", "parentId": None})
    if agent == "codex":
        content = [{"type": "input_text", "text": f"{text} {number}"}]
        item = {"type": "message", "role": "user", "content": content}
        return raw({"timestamp": "2026-11-30T12:00:01.000Z", "type": "response_item", "payload": item})
    return raw({**claude(number, text, parent=None), "uuid": f"{number}-{text[:20]}"})


def file_name(agent: str) -> str:
    return {"claude-code": f"{SID}.jsonl", "codex": f"rollout-x-{SID}.jsonl", "pi": f"{PI_ID}.jsonl"}[agent]


def content_of(agent: str, *messages: bytes) -> bytes:
    return text_of([*head(agent), *messages])
