"""What a session file says of itself before it is read: whose it is, where and when it began. Writes nothing."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from atomic_agent.capture.sources import Source
from atomic_agent.projects import project_of
from atomic_sessions.entry import Facts
from atomic_sessions.errors import BadSessionFileError, FutureFormatError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.codex_origin import origin
from atomic_sessions.formats.lines import salvage, split
from atomic_sessions.formats.upgrade import SessionHeader, members, read_header

HEAD_BYTES = 256 * 1024
HEAD_LINES = 200
MAX_HEAD_BYTES = 64 * 1024 * 1024
MAX_NAME = 4096


def path_name(path: Path) -> str:
    """A path as text that the cache takes, also when it is no UTF-8."""
    return text_of(str(path))


def text_of(name: str) -> str:
    """A part of a path as text that the cache takes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def head(stream: BinaryIO) -> tuple[list[bytes], bool]:
    """The first lines, each whole: a first record may hold a picture, a header more than a megabyte. And whether
    there is one to go by: a beginning without its newline that is no JSON yet tells nothing."""
    found: list[bytes] = []
    size = 0
    known = True
    for line in split(_beginning(stream)):
        if not line.whole and not any(raw.strip() for raw in found):
            known = members(line.raw) is not None
        found.append(line.raw)
        size += len(line.raw)
        if size >= HEAD_BYTES or len(found) >= HEAD_LINES:
            break
    return found, known


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


def facts_of(source: Source, agent: str, own_id: str, owner: str, lines: list[bytes]) -> Facts:
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
    stem, parent, internal, session_id = text_of(source.path.stem), "", False, own_id
    if agent == "claude-code":
        parent = text_of(source.owner) or (owner if stem.startswith("agent-") else "")
        internal = bool(parent)
        session_id = f"{parent}/{stem}" if internal else stem
    else:
        header = _header(lines)
        parent, internal, cwd = header.parent, header.internal, header.cwd
    if max(len(session_id), len(cwd), len(parent)) > MAX_NAME:
        raise BadSessionFileError("The session's id, folder or parent is longer than any real one.")
    return Facts(agent, session_id, "", cwd, project_of(cwd), created, parent, internal)


def _rollout_facts(source: Source, lines: list[bytes], cwd: str, created: int) -> Facts:
    of = origin(lines, text_of(source.path.name))
    if not of.id:
        raise BadSessionFileError(
            "It is part of a Codex session: neither its records nor its name say which."
        )
    cwd = of.cwd or cwd
    if max(len(of.id), len(cwd), len(of.parent)) > MAX_NAME:
        raise BadSessionFileError("The session's id, folder or parent is longer than any real one.")
    at = created if of.created_at is None else of.created_at
    return Facts("codex", of.id, "", cwd, project_of(cwd), at, of.parent, of.internal)
