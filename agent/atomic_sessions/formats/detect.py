"""Whose session a file is, told from its first lines. Pure."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_records import NONE
from atomic_sessions.formats.lines import decode

HEAD_LINES = 50


class _Head(Struct):
    type: str = ""
    kind: str = ""
    id: str | None = None
    version: object = None
    cwd: str = ""
    sessionId: str = ""
    agentId: str = ""
    uuid: str = ""
    leafUuid: str = ""
    projectHash: str = ""
    record_type: str = ""
    payload: Raw = NONE
    instructions: Raw = Raw(b"")


_DECODER = msgspec.json.Decoder(_Head)

_OTHERS = {
    "session.start": "Copilot CLI",
}


def _unread(agent: str) -> str:
    return f"a session of {agent}, which this version does not read yet"


class Detected(Struct, frozen=True):
    """`agent` empty: not a session we read, `why` says what it is. `id` is the session's own id where
    its lines carry one, `owner` the session a sub-agent's records name."""

    agent: str = ""
    why: str = ""
    id: str = ""
    owner: str = ""


def detect(lines: Iterable[bytes]) -> Detected:
    """Look at the first lines of a file."""
    seen = 0
    first = True
    for raw in lines:
        if not raw.strip():
            continue
        seen += 1
        head, _ = decode(raw, _DECODER)
        if head is None:
            continue
        if head.kind == "header":
            return Detected(why="a session of another program's format 4")
        if head.type == "session" and head.id is not None:
            return Detected("atomic" if head.version == 4 else "pi", id=head.id)
        if head.type in codex.RECORDS and bytes(head.payload).startswith(b"{"):
            return Detected("codex")
        if not head.type and (head.record_type == "state" or (head.id and bytes(head.instructions))):
            return Detected("codex")
        if head.projectHash or (head.type in {"gemini", "user"} and head.id and not head.sessionId):
            return Detected(why=_unread("Gemini CLI"))
        if head.type in _OTHERS and first:
            return Detected(why=_unread(_OTHERS[head.type]))
        if head.sessionId or head.leafUuid or (head.uuid and head.type in {"user", "assistant", "system"}):
            if head.sessionId and (head.uuid or head.agentId):
                return Detected("claude-code", id=head.sessionId, owner=head.sessionId)
            return Detected("claude-code", id=head.sessionId)
        if head.type in {"user", "assistant"} and first:
            return Detected("claude-code")
        first = False
        if seen >= HEAD_LINES:
            break
    return Detected(why="not a session" if seen else "empty")
