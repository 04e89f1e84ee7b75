"""Sessions put into a cache without any file: rows, entries, and what came of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from atomic_agent.cache import entries, sessions
from atomic_agent.cache import open as opening
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.digest import Digest, load_digest
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats.agents import viewer

NOW = 1_796_043_907_321
CANARY = "pelican-7f3a9-canary"
UUID = "01a22c81-7192-70af-aa13-6f2a524f0b20"


def facts(session: str = UUID, *, agent: str = "pi", project: str = "git:h/p", scope: str = "") -> Facts:
    return Facts(agent, session, scope, "/p", project, NOW)


def ensure(cache: Cache, of: Facts | None = None) -> int:
    """A session's row, made if there is none."""
    with transaction(cache.connection):
        return sessions.ensure(cache, of or facts())


def put(
    cache: Cache,
    session: int,
    batch: Sequence[Entry],
    *,
    agent: str = "pi",
    received: int | None = None,
    sealed: bool = False,
) -> int:
    """Insert entries with their views in one transaction; how many were new."""
    view = viewer(agent)
    with transaction(cache.connection):
        incoming = [(entry, view(entry.raw)) for entry in batch]
        new = entries.insert(cache, session, incoming, received=received, sealed=sealed).new
    entries.refresh_stale(cache)
    return new


def acknowledge(cache: Cache, session: int, ids: Sequence[str], received: int) -> None:
    """The service first saw these entries at `received`."""
    with transaction(cache.connection):
        entries.acknowledge(cache, session, ids, received)
    entries.refresh_stale(cache)


def read(cache: Cache, session: int) -> list[Entry]:
    return [stored.entry for stored in entries.read(cache, session)]


def digests(cache: Cache, session: int) -> tuple[Digest, Digest]:
    """What the session's row says, and what it says when it is made anew from the entries."""
    before = load_digest(cache, session)
    with transaction(cache.connection):
        entries.refresh(cache, session)
    return before, load_digest(cache, session)


def said(entry_id: str, parent: str | None, text: str, *, pos: int, stamp: int, role: str = "user") -> Entry:
    """A pi message."""
    line = {"type": "message", "id": entry_id, "parentId": parent, "message": {"role": role, "content": text}}
    return Entry(entry_id, parent, pos, stamp, json.dumps(line).encode())


def lines_of(cache: Cache) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, as a thief with the key would see it."""
    names = [
        name
        for (name,) in cache.connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
    ]
    return {name: cache.connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}


class Emptied:
    """A cache for many examples of one property: opened once, emptied before each."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="atomic-cache-")
        folder = Path(self._folder.name)
        self.cache = Cache.open(folder / "c" / "db", LocalKey(bytes(32)), folder / "c" / "keyinfo")
        self.cache.connection.execute("PRAGMA synchronous = OFF")

    def fresh(self) -> Cache:
        run = self.cache.connection.execute
        run("DELETE FROM session_search")
        for table in ("entries", "sessions", "files", "outbox", "turns", "chains"):
            run(f"DELETE FROM session_{table}")
        return self.cache

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cache.close()
        self._folder.cleanup()


class Place:
    """Where a cache of this test lies."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "workflows"
        self.db = self.folder / "journal.sqlite"
        self.keyinfo = self.folder / "journal.keyinfo"

    def open(self, key: LocalKey, *, create: bool = True) -> Cache:
        return Cache.open(self.db, key, self.keyinfo, create=create)

    def make(self, key: LocalKey, lines: int = 1) -> None:
        """A cache with its keyinfo and a session of some lines."""
        with self.open(key) as cache:
            opening.write_keyinfo(self.keyinfo, opening.KeyInfo(1, key.name, key.check_value))
            session = ensure(cache, facts(project=f"git:{CANARY}/project"))
            put(
                cache,
                session,
                [said(f"e{n}", None, f"{CANARY} {n}", pos=n, stamp=n + 1) for n in range(lines)],
            )

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}
