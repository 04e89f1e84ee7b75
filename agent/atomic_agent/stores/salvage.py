"""A new cache from what can be read of a damaged one. Neither takes locks nor moves files.

What is certain is copied as it is; what can be made from entries (search, the derived columns) is made
anew. When anything is missing the new cache stands before the account's log as one that knows nothing of
it: the next sync reads the log from its start and offers what it lacks.
"""

# ruff: noqa: S608  # statements are put together from names of tables and columns; values are parameters

import secrets
from collections.abc import Callable, Iterator

import msgspec
import zstandard
from msgspec import Struct

from atomic_agent.cache import entries, outbox, sessions, turns
from atomic_agent.cache.cache import SCHEMA_VERSION, Cache
from atomic_agent.cache.digest import Digest, save_digest
from atomic_agent.cache.open import transaction
from atomic_agent.cache.packing import unpack
from atomic_agent.stores.damaged import BrokenError, Damaged, Row
from atomic_agent.stores.foreign import copy_foreign
from atomic_sessions.errors import AtomicError, CacheRefusedError
from atomic_sessions.formats.agents import viewer

BATCH = 500
ENTRY_INDEX = "session_entry_order"
IDENTITIES = "sqlite_autoindex_session_sessions_1"
WAITING = "sqlite_autoindex_session_outbox_1"
LOG_PLACES = ("cursor", "seen")
"""Where the sync stands in the log: the names under which it keeps that."""
IN_ORDER = {
    "sent": ("id",),
    "uploads": ("id",),
    "chains": ("wire", "writer"),
    "quarantine": ("id",),
    "tombstones": ("wire",),
    "files": ("path",),
    "hidden": ("id", "place"),
}
ENTRY_TYPES = {"session": int, "id": str, "pos": int, "stamp": int, "kind": str, "role": str, "file": str}
Progress = Callable[[str], None]


class Salvaged(Struct):
    """What came over. `entries_lost` is None where nobody can count it; `certain`: nothing of ours is missing;
    `left_out`: what another program keeps in the file and does not find again, or not all of it."""

    sessions: int = 0
    sessions_lost: int = 0
    entries: int = 0
    entries_lost: int | None = 0
    turns: int = 0
    records: int = 0
    broken_pages: int = 0
    certain: bool = True
    left_out: list[str] = []


def salvage(old: Damaged, new: Cache, progress: Progress, *, certain: bool = True) -> Salvaged:
    """Fill an empty cache with what is readable. Raises CacheRefusedError for a cache of a newer version.

    `certain` false: more is missing than the old cache's pages tell.
    """
    found = Salvaged()
    found.broken_pages, whole = old.broken_pages()
    # Altered pages explain themselves; a file that is wrong without one was cut, or lost what was written last.
    found.certain = certain and whole and found.broken_pages > 0
    run = new.connection.execute
    run("PRAGMA synchronous = OFF")  # the file is put on the disk once, when it is whole
    _Copy(old, new, found, progress).all()
    _derive(new, found, progress)
    with transaction(new.connection):
        _settle(new, found)
    run("PRAGMA synchronous = FULL")
    return found


class _Copy:
    """One table after the other."""

    def __init__(self, old: Damaged, new: Cache, found: Salvaged, progress: Progress) -> None:
        self.old = old
        self.new = new
        self.found = found
        self.progress = progress

    def all(self) -> None:
        with transaction(self.new.connection):
            self._meta()
            self._sessions()
        before, self.found.certain = self.found.certain, True
        self._entries()
        whole = self.found.certain
        self.found.certain = before and whole
        with transaction(self.new.connection):
            self._count_lost(whole)
            self._outbox()
            for table, keys in IN_ORDER.items():
                self._plain(table, keys)
            self._turns()
        self.found.left_out = copy_foreign(self.old, self.new.connection)

    def _shared(self, table: str) -> list[str]:
        """The columns that both caches have, in the new one's order."""
        there = set(self.old.columns(f"session_{table}"))
        here = self.new.connection.execute(self.new.sql(f'PRAGMA table_info("{{p}}session_{table}")'))
        return [str(row[1]) for row in here.fetchall() if row[1] in there]

    def _put(self, table: str, columns: list[str], rows: list[Row]) -> int:
        marks = ", ".join("?" * len(columns))
        names = ", ".join(f'"{name}"' for name in columns)
        done = self.new.connection.executemany(
            self.new.sql(f"INSERT OR IGNORE INTO {{p}}session_{table} ({names}) VALUES ({marks})"), rows
        )
        return done.rowcount

    def _read(self, rows: Iterator[Row | None]) -> Iterator[Row]:
        """The rows that could be read; that others could not is remembered."""
        for row in rows:
            if row is None:
                self.found.certain = False
            else:
                yield row

    def _meta(self) -> None:
        """The named values, but for the writer: whoever still has a copy of the old file is another one."""
        for name, value in self._read(self.old.in_order("session_meta", ["name"], ["name", "value"])):
            if not isinstance(name, str) or not isinstance(value, bytes):
                self.found.certain = False
            elif name == "schema" and int.from_bytes(value, "big") > SCHEMA_VERSION:
                raise CacheRefusedError(
                    f"The cache {self.new.path} was written by a newer version.", "Update atomic-sessions."
                )
            elif name != "schema":
                self.new.put("writer before" if name == "writer" else name, value)

    def _sessions(self) -> None:
        columns = ["key", *(name for name in self._shared("sessions") if name != "key")]
        rows = self._read(self.old.by_row("session_sessions", "key", columns[1:], IDENTITIES))
        self._put("sessions", columns, [row for row in rows if isinstance(row[0], int)])
        # A row that is gone may still be named by an index: enough for its entries to stay together.
        try:
            for key, agent, identity, scope in self.old.ask(
                f"SELECT key, agent, id, scope FROM session_sessions INDEXED BY {IDENTITIES}"
            ):
                self._name(key, agent, identity, scope)
        except BrokenError:
            pass

    def _name(self, key: object, agent: object, identity: object, scope: object) -> None:
        done = self.new.connection.execute(
            self.new.sql(
                "INSERT OR IGNORE INTO {p}session_sessions"
                " (key, agent, id, scope, cwd, project, created_at, parent, internal, header, deleted)"
                " VALUES (?, ?, ?, ?, '', '', 0, '', 0, X'', -1)"
            ),
            (key, agent, identity, scope),
        )
        if done.rowcount:
            self.found.certain = False

    def _entries(self) -> None:
        columns = ["row", *(name for name in self._shared("entries") if name != "row")]
        known = {
            row[0] for row in self.new.connection.execute(self.new.sql("SELECT key FROM {p}session_sessions"))
        }
        names = [name for name in columns if name in ENTRY_TYPES]
        batch: list[Row] = []
        for row in self._read(self.old.by_row("session_entries", "row", columns[1:], ENTRY_INDEX)):
            entry = dict(zip(columns, row, strict=True))
            typed = all(isinstance(entry[name], ENTRY_TYPES[name]) for name in names)
            if typed and entry["session"] in known and _is_whole(entry["codec"], entry["raw"], entry["size"]):
                batch.append(row)
            else:
                self.found.certain = False
            if len(batch) >= BATCH:
                self._flush(columns, batch)
        self._flush(columns, batch)

    def _flush(self, columns: list[str], batch: list[Row]) -> None:
        with transaction(self.new.connection):
            kept = self._put("entries", columns, batch)
        self.found.certain = self.found.certain and kept == len(batch)
        self.found.entries += kept
        batch.clear()
        self.progress(f"{self.found.entries} entries read")

    def _count_lost(self, whole: bool) -> None:
        """What an index names and the table no longer holds; only where both agree nothing is missing."""
        run = self.new.connection.execute
        there = self.new.sql("SELECT 1 FROM {p}session_entries WHERE row = ?")
        named = lost = 0
        try:
            for (row,) in self.old.ask(f"SELECT row FROM session_entries INDEXED BY {ENTRY_INDEX}"):
                named += 1
                lost += run(there, (row,)).fetchone() is None
        except BrokenError:
            self.found.entries_lost = 0 if whole else None
            self.found.certain = False
            return
        self.found.entries_lost = lost
        if lost or named != self.found.entries:
            self.found.certain = False

    def _outbox(self) -> None:
        columns = ["row", *(name for name in self._shared("outbox") if name != "row")]
        rows = list(self._read(self.old.by_row("session_outbox", "row", columns[1:], WAITING)))
        self.found.records = self._put("outbox", columns, rows)

    def _plain(self, table: str, keys: tuple[str, ...]) -> None:
        columns = self._shared(table)
        if not columns:
            self.found.certain = False
            return
        batch: list[Row] = []
        for row in self._read(self.old.in_order(f"session_{table}", keys, columns)):
            batch.append(row)
            # The objects in it may be as large as an upload is.
            if len(batch) >= (1 if table == "uploads" else BATCH):
                self._put(table, columns, batch)
                batch.clear()
        self._put(table, columns, batch)

    def _turns(self) -> None:
        """The parts of turns in flight that unpack; claims name processes of before and are left."""
        columns = self._shared("turns")
        names: set[object] = set()
        for row in self._read(self.old.in_order("session_turns", ("turn", "part"), columns)):
            part = dict(zip(columns, row, strict=True))
            if _is_part(part["part"], part["raw"]):
                self._put("turns", columns, [row])
                names.add(part["turn"])
            else:
                self.found.certain = False
        self.found.turns = len(names)


def _is_whole(codec: object, raw: object, size: object) -> bool:
    """The raw line unpacks to the size that was written down with it."""
    if not isinstance(codec, int) or not isinstance(raw, bytes):
        return False
    try:
        return len(unpack(codec, raw)) == size
    except AtomicError:
        return False


def _is_part(part: object, raw: object) -> bool:
    if not isinstance(raw, bytes):
        return False
    try:
        plain = zstandard.ZstdDecompressor().decompress(raw)
        msgspec.msgpack.decode(plain, type=turns.Begun if part == 0 else turns.Answered)
    except (zstandard.ZstdError, msgspec.MsgspecError):
        return False
    return True


def _derive(new: Cache, found: Salvaged, progress: Progress) -> None:
    """Search and the columns that follow from entries, one session at a time."""
    run = new.connection.execute
    done = 0
    rows = run(new.sql("SELECT key, agent, internal, deleted FROM {p}session_sessions")).fetchall()
    for key, agent, internal, deleted in rows:
        view = viewer(agent, internal=bool(internal))
        digest = Digest()
        count = 0
        with transaction(new.connection):
            for stored in entries.read(new, key):
                count += 1
                if stored.entry.file:
                    continue
                seen = view(stored.entry.raw)
                digest.fold(stored.entry, seen, stored.received)
                if text := entries.searched(seen):
                    run(
                        new.sql("INSERT INTO {p}session_search (rowid, text) VALUES (?, ?)"),
                        (stored.row, text),
                    )
            if deleted < 0 and not count:
                # Of its row only the name is left, and of its entries nothing: it may have been deleted.
                run(new.sql("DELETE FROM {p}session_sessions WHERE key = ?"), (key,))
                found.sessions_lost += 1
            elif deleted > 0:
                sessions.mark_deleted(new, key)
            else:
                save_digest(new, key, digest)
                run(
                    new.sql(
                        "UPDATE {p}session_sessions SET deleted = 0, stale = 0,"
                        " created_at = CASE created_at WHEN 0 THEN coalesce((SELECT min(stamp)"
                        " FROM {p}session_entries WHERE session = key), 0) ELSE created_at END WHERE key = ?"
                    ),
                    (key,),
                )
                found.sessions += 1
        done += count
        progress(f"{done} of {found.entries} entries indexed")


def _settle(new: Cache, found: Salvaged) -> None:
    """The new cache's place before the account's log, as another writer."""
    run = new.connection.execute
    before = new.get("writer before")
    run(new.sql("DELETE FROM {p}session_meta WHERE name = 'writer before'"))
    if found.certain and before is not None:
        new.put("writer", before)
        outbox.change_writer(new, secrets.token_bytes(16))
        return
    found.certain = False
    found.records = 0
    for table in ("outbox", "uploads", "files"):
        # What was sealed is sealed anew, and the agents' files are read again from their start.
        run(new.sql(f"DELETE FROM {{p}}session_{table}"))
    outbox.forget_chains(new)
    for name in LOG_PLACES:
        new.put(name, b"")
    outbox.offer_again(new)
