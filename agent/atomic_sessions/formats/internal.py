"""Sessions that belong to a stage of a workflow: how they are marked as such (B22). Pure; `upgrade.marking` reads.

Facts: formats/atomic-sessions.md section 14. Internal is what is marked in full and nothing else: a session is never
hidden because of a guess. A marking that is whole stays as it is; one that is not can be made whole.
"""

import msgspec
from msgspec import Raw

from atomic_sessions.errors import UsageError
from atomic_sessions.formats.upgrade import Marking, encode, marking, members
from atomic_sessions.unreadable import UNREADABLE

VARIABLE = "ATOMIC_WORKFLOW_SESSION_METADATA"
"""Tells a child process whose stage its sessions are of."""


_MARKING = msgspec.json.Decoder(Marking)


def marked(header: bytes, new: Marking) -> bytes:
    """The header of a session of this stage, all its other members kept; a header that is marked already is not
    changed. UsageError for a marking that is not whole."""
    if not new.is_whole:
        raise _malformed("A workflow's stage needs the ids of run and stage, and a name, none of them blank.")
    parts = members(header)
    if parts is None:
        raise _malformed("What is to be marked as a workflow's is no session header.")
    if marking(parts) is not None:
        return header
    said = {name: Raw(msgspec.json.encode(value)) for name, value in msgspec.structs.asdict(new).items()}
    before = members(parts["workflow"]) if "workflow" in parts else None
    return encode(parts | {"internal": Raw(b"true"), "workflow": Raw(encode((before or {}) | said))})


def from_environment(text: str | None) -> Marking | None:
    """What the variable tells a child process; None where it is not set. UsageError for anything but a whole
    marking, of which the sentence repeats nothing."""
    if not text:
        return None
    try:
        found = _MARKING.decode(text)
    except (*UNREADABLE, UnicodeEncodeError):
        found = None
    if found is None or not found.is_whole:
        raise _malformed(f"{VARIABLE} is not the JSON of runId, stageId and stageName.")
    return found


def to_environment(given: Marking) -> str:
    """The variable's value for a child process."""
    return msgspec.json.encode(given).decode()


def _malformed(message: str) -> UsageError:
    return UsageError(message, "Start the stage from its workflow, or unset " + VARIABLE + ".")
