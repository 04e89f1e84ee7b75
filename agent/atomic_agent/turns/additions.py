"""What a program may add to a session as an entry, and the line it becomes (atomic-sessions.md section 4). Pure.

Knows no session: whether an entry that is spoken of is there, its caller looks up.
"""

import json
from collections.abc import Mapping
from typing import Any

from atomic_sessions import compose
from atomic_sessions.clock import iso
from atomic_sessions.errors import UsageError

Json = Any  # JSON of any shape

SUMMARY_LENGTH = 160
_PLACE = frozenset({"id", "parentId", "type", "timestamp"})
_SPOKEN_OF = {"label": "targetId", "session_summary": "summarizedThroughId", "compaction": "firstKeptEntryId"}


def check(kind: str, said: Mapping[str, Json]) -> None:
    """UsageError for what can be no entry."""
    if not kind or _PLACE & said.keys():
        raise UsageError("An entry's type, id, parent and time are given by its place.", "Leave them out.")
    if kind in {"session", "leaf"}:
        raise UsageError(f"'{kind}' is no entry of the tree.", "Use the calls of the session manager.")
    message = said.get("message")
    if kind == "message" and not (isinstance(message, Mapping) and isinstance(message.get("role"), str)):
        raise UsageError("A message needs a role.", 'Give {"role": "user", "content": "…"}.')
    try:
        json.dumps(said, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UsageError(
            "What the entry was given is not JSON.", "Use texts, finite numbers, lists and dicts."
        ) from None


def spoken_of(kind: str, said: Mapping[str, Json]) -> tuple[Json, ...]:
    """The id of the entry that must be there for this one; none for a compaction that keeps nothing."""
    member = _SPOKEN_OF.get(kind)
    if member is None or (kind == "compaction" and said.get(member) is None):
        return ()
    return (said.get(member),)


def line(kind: str, identity: str, parent: str | None, at: int, said: Mapping[str, Json]) -> bytes:
    """The entry, its place first."""
    return compose.line({"type": kind, "id": identity, "parentId": parent, "timestamp": iso(at), **said})


def summary_line(text: str) -> str:
    """A summary as lists show it: one line, cut with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 1].rstrip() + "…"
