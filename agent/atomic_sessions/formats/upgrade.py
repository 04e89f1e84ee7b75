"""Formats 1, 2, 3 and the early alpha of 4 to our format 4: deterministic, streaming, idempotent.

Facts: formats/atomic-sessions.md sections 3, 5 and 17. Two machines that upgrade one file get the
same lines. A line that must change keeps all its other members as they were written.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from atomic_sessions.clock import iso, parse_time
from atomic_sessions.errors import BadSessionFileError, FutureFormatError
from atomic_sessions.formats.lines import plain, salvage
from atomic_sessions.ids import UUID, upgraded_id
from atomic_sessions.unreadable import UNREADABLE

VERSION = 4
_SESSION_FILE = re.compile(r"[^_/\\]+_(.+)\.jsonl")

Members = dict[str, Raw]


class SessionHeader(Struct, frozen=True):
    """What a format 4 header says. `raw` is its line; `version` the one the file had."""

    id: str
    cwd: str
    created_at: int
    parent: str
    internal: bool
    version: int
    raw: bytes


class Marking(Struct, frozen=True):
    """The run and the stage of a workflow that a session belongs to."""

    runId: str
    stageId: str
    stageName: str

    @property
    def is_whole(self) -> bool:
        return all(text.strip() for text in (self.runId, self.stageId, self.stageName))


def members(raw: bytes | Raw) -> Members | None:
    """The members of an object with their bytes unread, in order; None when it is no JSON object."""
    try:
        return msgspec.json.decode(raw, type=Members)
    except UNREADABLE:
        pass
    try:
        found = json.loads(bytes(raw))  # a member read from another object is not bytes itself
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {plain(key): Raw(json.dumps(value).encode()) for key, value in found.items()}


def encode(parts: Members) -> bytes:
    return msgspec.json.encode(parts)


def read_header(raw: bytes) -> SessionHeader:
    """The header of any format we know, as format 4.

    Raises BadSessionFileError when it is no header, FutureFormatError for a version above 4.
    """
    parts = members(raw)
    if parts is None:
        raise BadSessionFileError("The file does not begin with a session header.")
    if _value(parts, "kind") == "header":
        raise BadSessionFileError(
            "The file is a session of another program's format 4.",
            "Export it as JSONL format 3 with the program that wrote it.",
        )
    session_id = _value(parts, "id")
    if _value(parts, "type") != "session" or not isinstance(session_id, str):
        raise BadSessionFileError("The file does not begin with a session header.")
    version = _version(parts)
    new: Members = {"type": _raw("session"), "version": _raw(VERSION), "id": parts["id"]}
    created = parse_time(_value(parts, "createdAt"))
    created = parse_time(_value(parts, "timestamp")) if created is None else created
    cwd = _value(parts, "cwd")
    new["createdAt"] = _raw(iso(created or 0))
    new["cwd"] = _raw(cwd if isinstance(cwd, str) else "")
    parent = _value(parts, "parentSession")
    if not isinstance(parent, str):
        parent = _value(parts, "branchedFrom") if version == 1 else ""
    parent = _parent_id(parent) if isinstance(parent, str) else ""
    if parent:
        new["parentSession"] = _raw(parent)
    for key, value in parts.items():
        if key not in {
            "type",
            "version",
            "id",
            "createdAt",
            "timestamp",
            "cwd",
            "parentSession",
            "branchedFrom",
        }:
            new[key] = value
    internal = marking(parts) is not None
    same = version == VERSION and isinstance(_value(parts, "createdAt"), str) and "timestamp" not in parts
    line = raw if same else encode(new)
    return SessionHeader(
        session_id, cwd if isinstance(cwd, str) else "", created or 0, parent, internal, version, line
    )


def _version(parts: Members) -> int:
    version = _value(parts, "version")
    if version is None:
        return 1
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadSessionFileError("The session header has a version that is not a number.")
    if version > VERSION:
        raise FutureFormatError(
            f"The session has format {version}, newer than the {VERSION} this program knows.",
            "Update atomic-sessions.",
        )
    return version


def _parent_id(parent: str) -> str:
    """The id in a path to a session file, else the text as it is."""
    match = _SESSION_FILE.fullmatch(re.split(r"[/\\]", parent)[-1])
    return match.group(1) if match and UUID.fullmatch(match.group(1)) else parent


def marking(parts: Members) -> Marking | None:
    """Whose session it is by the members of its header; None for one that people see: section 14 of the notes."""
    if _value(parts, "internal") is not True or "workflow" not in parts:
        return None
    try:
        found = msgspec.json.decode(parts["workflow"], type=Marking)
    except UNREADABLE:
        return None
    return found if found.is_whole else None


def upgrade(header: SessionHeader, lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines after the header, as format 4. Blank lines go; damaged ones stay as they are."""
    if header.version >= 3:
        yield from (raw for raw in lines if raw.strip())
        return
    known: list[str | None] = [None]
    taken: set[str] = set()
    previous: str | None = None
    for raw in lines:
        if not raw.strip():
            continue
        parts = members(raw)
        if parts is None:
            suffix = salvage(raw)
            parts = members(suffix) if suffix is not None else None
        if parts is None:
            yield raw
            continue
        changed = _renamed_role(parts)
        if header.version == 1:
            entry_id = _fresh_id(header.id, len(known), raw, taken)
            changed = _with_ids(changed, entry_id, previous, known)
            known.append(entry_id)
            previous = entry_id
        yield encode(changed) if changed is not parts else raw


def _fresh_id(session_id: str, index: int, raw: bytes, taken: set[str]) -> str:
    attempt = 0
    while (entry_id := upgraded_id(session_id, index, raw, attempt)) in taken:
        attempt += 1
    taken.add(entry_id)
    return entry_id


def _with_ids(parts: Members, entry_id: str, previous: str | None, known: list[str | None]) -> Members:
    new: Members = {}
    if "type" in parts:
        new["type"] = parts["type"]
    new["id"], new["parentId"] = _raw(entry_id), _raw(previous)
    for key, value in parts.items():
        if key not in {"type", "id", "parentId", "firstKeptEntryIndex"}:
            new[key] = value
    index = _value(parts, "firstKeptEntryIndex")
    if isinstance(index, int) and not isinstance(index, bool) and 0 < index < len(known):
        new["firstKeptEntryId"] = _raw(known[index])
    return new


def _renamed_role(parts: Members) -> Members:
    """`hookMessage` became `custom` in format 3."""
    if _value(parts, "type") != "message" or "message" not in parts:
        return parts
    message = members(parts["message"])
    if message is None or _value(message, "role") != "hookMessage":
        return parts
    return parts | {"message": Raw(encode(message | {"role": _raw("custom")}))}


def _value(parts: Members, key: str) -> Any:  # JSON of any shape
    raw = parts.get(key)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return None


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))
