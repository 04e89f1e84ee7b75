"""The folder of earlier sessions as lists show it: what its files say, kept from one list to the next. Never writes
into the folder, and shows no session that the database has or ever had.

Of one over 32 KiB the first message and the newest entries are read (B3), of several copies of a session the one with
the newest message counts (B17).
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent.cache import earlier
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.packing import squeezed, unsqueezed
from atomic_agent.cache.search import snippet
from atomic_agent.stores import words
from atomic_agent.stores.earlier_projects import FolderProjects
from atomic_agent.stores.jsonl_files import session_files
from atomic_agent.stores.jsonl_index import AGENT, Clock, Signature, signature
from atomic_agent.stores.jsonl_rows import Said, newness, read_row
from atomic_agent.stores.rows import Hit, Row, newest_first
from atomic_sessions.errors import BadSessionFileError, FutureFormatError, StoreUnavailableError
from atomic_sessions.ids import UUID, SessionKey, session_key, wire_id
from atomic_sessions.unreadable import UNREADABLE

READER = 1
"""Rises whenever the same file gives another row, so that what an older program kept is read again."""
BATCH = 256
MAX_SAID = 32 * 1024
"""Characters of a file that are kept to be searched, the newest first."""
MAX_KEPT_HEADER = 16 * 1024
"""A header may be megabytes; one above this is not in a list's row, only in the session once it is opened."""

Progress = Callable[[int, int], None]
Copies = dict[SessionKey, list[Row]]


class _Seen(Struct):
    mark: Signature
    row: Row | None


class EarlierFiles:
    """What this process knows of the folder, which may not be there. `id_key` is the account's, if there is one."""

    def __init__(
        self,
        cache: Cache,
        folder: Path,
        clock: Clock,
        projects: FolderProjects,
        progress: Progress,
        id_key: Callable[[], bytes | None],
    ) -> None:
        self.folder = folder.absolute()
        self._cache = cache
        self._clock = clock
        self._projects = projects
        self._progress = progress
        self._id_key = id_key
        self._seen: dict[str, _Seen] | None = None

    def sessions(self) -> Copies:
        """The copies of each session that only files hold, the one that counts first."""
        found: Copies = {}
        for read in self._rows():
            # Another project's session may have the same custom id, so that one cannot wait for its project.
            unique = UUID.fullmatch(read.facts.id.split("/", 1)[0])
            row = read if unique else self.placed(read)
            found.setdefault(row.key, []).append(row)
        return {
            key: sorted(found[key], key=newness, reverse=True) for key in found.keys() - self._taken(found)
        }

    def rows(self) -> list[Row]:
        """One row a session, the newest first; `placed` tells their projects."""
        return newest_first(
            msgspec.structs.replace(copies[0], copies=len(copies)) for copies in self.sessions().values()
        )

    def placed(self, row: Row) -> Row:
        """A row with its project, which may cost asking git."""
        project = self._projects.of(row.facts.cwd)
        scope = session_key(AGENT, row.facts.id, project).scope
        return msgspec.structs.replace(
            row, facts=msgspec.structs.replace(row.facts, project=project, scope=scope)
        )

    def hits(self, query: str) -> Iterator[Hit]:
        """The sessions with a kept text that holds every word, newest first."""
        wanted = words.parse(query)
        if not wanted.runs:
            return
        for row in self.rows():
            found = next((one for one in self._said(row) if words.matches(wanted, one[1])), None)
            if found is not None:
                yield Hit(self.placed(row), found[0], snippet(found[1], wanted.text))

    def _taken(self, found: Copies) -> set[SessionKey]:
        """Those that the database has or had under this identity, those that were hidden, and those that the
        account knows to be deleted."""
        if not found:
            return set()
        there = earlier.present(self._cache, list({key.id for key in found}))
        hidden = earlier.hidden(self._cache)
        buried = earlier.buried(self._cache)
        id_key = self._id_key() if buried else None
        return {
            key
            for key, copies in found.items()
            if (key.id, key.scope) in there
            or not hidden.isdisjoint(marks(key, copies))
            or (id_key is not None and wire_id(id_key, key) in buried)
        }

    def _rows(self) -> list[Row]:
        """What each file says that is a session's."""
        try:
            there = [(str(path), path, found) for path, found in session_files(self.folder)]
        except StoreUnavailableError:
            return []  # what is listed beside it must not be lost with it
        known = self._known() if there else {}
        news = [one for one in there if (seen := known.get(one[0])) is None or seen.mark != signature(one[2])]
        gone = [os.fsencode(name) for name in known.keys() - {one[0] for one in there}]
        batch: list[earlier.Kept] = []
        for done, (name, path, found) in enumerate(news, 1):
            known.pop(name, None)
            self._read(name, path, found, batch)
            self._progress(done, len(news))
            if len(batch) >= BATCH:
                earlier.keep(self._cache, batch)
                batch.clear()
        if batch or (gone and there):
            earlier.keep(self._cache, batch, gone)
            for lost in gone:
                known.pop(os.fsdecode(lost), None)
        return [seen.row for name, _, _ in there if (seen := known.get(name)) is not None and seen.row]

    def _known(self) -> dict[str, _Seen]:
        if self._seen is None:
            self._seen = {}
            for kept in earlier.kept(self._cache):
                try:
                    reader, row = msgspec.msgpack.decode(kept.row, type=tuple[int, Row | None])
                except UNREADABLE:
                    continue
                if reader == READER:
                    name = os.fsdecode(kept.path)
                    row = msgspec.structs.replace(row, place=name) if row is not None else None
                    self._seen[name] = _Seen((kept.inode, kept.size, kept.mtime_ns), row)
        return self._seen

    def _read(self, name: str, path: Path, found: os.stat_result, batch: list[earlier.Kept]) -> None:
        """Read one file. What cannot be read now, or only by a newer program, is looked at again."""
        said: list[Said] = []
        row: Row | None
        try:
            row = _portable(read_row(self.folder, path, found, self._clock, said))
        except (FutureFormatError, OSError):
            return
        except BadSessionFileError:
            row = None
        packed = msgspec.msgpack.encode((READER, row))
        text = squeezed(msgspec.msgpack.encode(_newest(said)))
        inode, size, mtime_ns = mark = signature(found)
        batch.append(earlier.Kept(os.fsencode(name), size, mtime_ns, inode, packed, text))
        row = msgspec.structs.replace(row, place=name) if row is not None else None
        self._known()[name] = _Seen(mark, row)

    def _said(self, row: Row) -> list[Said]:
        """What a file is searched by; read again where it could not be kept."""
        inode, size, mtime_ns = self._known()[row.place].mark
        kept = earlier.said(self._cache, os.fsencode(row.place), size, mtime_ns, inode)
        if kept is not None:
            return msgspec.msgpack.decode(unsqueezed(kept), type=list[Said])
        said: list[Said] = []
        path = Path(row.place)
        try:
            read_row(self.folder, path, path.stat(), self._clock, said)
        except (BadSessionFileError, OSError):
            return []
        return _newest(said)


def marks(key: SessionKey, copies: list[Row]) -> list[earlier.Mark]:
    """What a session's files are hidden by. A folder's project may become another one, its path does not."""
    folders = {row.facts.cwd for row in copies if key.scope and row.facts.cwd}
    return [(key.id, key.scope), *((key.id, folder) for folder in sorted(folders))]


def _portable(row: Row) -> Row:
    """A row as it is kept, wherever its file lies; `placed` tells its project."""
    header = row.facts.header if len(row.facts.header) <= MAX_KEPT_HEADER else b""
    return msgspec.structs.replace(row, place="", facts=msgspec.structs.replace(row.facts, header=header))


def _newest(said: list[Said]) -> list[Said]:
    """The first text and the newest ones, as many as are kept."""
    kept: list[Said] = []
    room = MAX_SAID
    for entry, text in reversed(said[1:]):
        if room <= 0:
            break
        kept.append((entry, text[:room]))
        room -= len(text)
    return [*((entry, text[:MAX_SAID]) for entry, text in said[:1]), *reversed(kept)]
