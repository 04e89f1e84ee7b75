"""A folder of session files written by hand, and what is in it."""

import json
import os
from pathlib import Path
from typing import Any

from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, UUID
from atomic_agent.stores.jsonl import JsonlStore
from atomic_sessions.clock import iso

Snapshot = dict[str, tuple[int, int, bytes]]


def line(**parts: Any) -> bytes:
    return json.dumps(parts).encode() + b"\n"


def header3(session: str = UUID, cwd: str = HERE, at: int = NOW, **more: Any) -> bytes:
    """A header of format 3."""
    return line(type="session", version=3, id=session, timestamp=iso(at), cwd=cwd, **more)


def said(identity: str, parent: str | None, text: str, at: int = NOW, role: str = "user") -> bytes:
    """A message as formats 2 to 4 have it."""
    message = {"role": role, "content": text, "timestamp": at}
    return line(type="message", id=identity, parentId=parent, timestamp=iso(at), message=message)


class Folder:
    """A JSONL folder and stores over it."""

    def __init__(self, root: Path) -> None:
        self.path = root / "sessions"
        self.path.mkdir(mode=0o700, parents=True)

    def store(self) -> JsonlStore:
        return JsonlStore(self.path, lambda: NOW)

    def put(self, name: str, *lines: bytes, mtime: int | None = None) -> Path:
        """Write a file below the folder."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"".join(lines))
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        return path

    def snapshot(self) -> Snapshot:
        """Every file with its inode, mtime and bytes."""
        return {
            str(path.relative_to(self.path)): (
                path.stat().st_ino,
                path.stat().st_mtime_ns,
                path.read_bytes(),
            )
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }

    def aside(self) -> list[bytes]:
        """What was kept that could not stay in a session file."""
        return [path.read_bytes() for path in sorted((self.path / ".atomic").glob("*.torn"))]
