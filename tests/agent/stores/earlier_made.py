"""A folder of earlier sessions written by hand, and the default store beside it."""

import os
from collections.abc import Callable
from pathlib import Path

from agent.stores.jsonl_made import Folder, header3, line, said
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, UUID
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.earlier import EarlierStore
from atomic_agent.stores.sqlite import SqliteStore, open_sqlite
from atomic_sessions.clock import iso
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)
Everything = dict[str, tuple[int, int, bytes]]


def silent(done: int, total: int) -> None:
    """Progress that nobody looks at."""


class Earlier:
    """A folder as earlier versions left it, and any number of stores over it and one database."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = Folder(root / "agent")
        self.put = self.folder.put
        self._opened: list[SqliteStore] = []

    def store(
        self,
        *,
        clock: Callable[[], int] = lambda: NOW,
        progress: Callable[[int, int], None] = silent,
        syncs: bool = False,
        id_key: bytes | None = None,
    ) -> EarlierStore:
        """The store as a new process opens it."""
        found = EarlierStore(
            self.database().cache,
            self.folder.path,
            clock,
            progress=progress,
            syncs=syncs,
            id_key=lambda: id_key,
        )
        self._opened.append(found)
        return found

    def database(self) -> SqliteStore:
        """The same database without the folder, as where a person chose it."""
        self._opened.append(open_sqlite(self.root / "kept" / "sessions.sqlite", LocalKey(bytes(32))))
        return self._opened[-1]

    def everything(self) -> Everything:
        """Every file and folder there with inode, mtime and bytes."""
        found: Everything = {}
        for path in [self.folder.path, *sorted(self.folder.path.rglob("*"))]:
            there = path.lstat()
            content = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else b""
            found[str(path)] = (there.st_ino, there.st_mtime_ns, content)
        return found

    def close(self) -> None:
        for store in self._opened:
            store.close()


def session(
    identity: str = UUID, *texts: str, cwd: str = HERE, at: int = NOW, role: str = "user"
) -> list[bytes]:
    """A session of format 3 whose messages follow each other, the last one at `at`."""
    messages = texts or ("hello",)
    begun = at - 1000 * len(messages)
    lines = [header3(identity, cwd, begun)]
    for number, text in enumerate(messages, 1):
        parent = f"e{number - 1}" if number > 1 else None
        lines.append(said(f"e{number}", parent, text, begun + 1000 * number, role))
    return lines


def stage(identity: str, parent: str) -> list[bytes]:
    """A workflow stage's session of format 3, made by a session."""
    flow = {"runId": "r", "stageId": "s", "stageName": "n"}
    place = f"/x/2026-01-01T00-00-00-000Z_{parent}.jsonl"
    head = header3(identity, internal=True, workflow=flow, parentSession=place)
    return [head, said("e1", None, "stage work")]


def format1(identity: str = UUID, *, cwd: str = HERE) -> list[bytes]:
    """A session of format 1: no version and no ids."""
    at = iso(NOW)
    return [
        line(
            type="session", id=identity, timestamp=at, cwd=cwd, provider="p", modelId="m", thinkingLevel="low"
        ),
        line(type="message", timestamp=at, message={"role": "user", "content": "one", "timestamp": NOW + 1}),
        line(
            type="message",
            timestamp=at,
            message={"role": "hookMessage", "customType": "x", "content": "note", "timestamp": NOW + 2},
        ),
        line(
            type="message",
            timestamp=at,
            message={"role": "assistant", "content": "two", "timestamp": NOW + 3},
        ),
    ]
