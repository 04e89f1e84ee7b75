"""Files that travel with a session, whole: outputs that its agent spilled, what a sub-agent was told."""

from collections.abc import Iterator
from pathlib import Path

from atomic_agent.cache import entries, files
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.capture.facts import path_name, text_of
from atomic_agent.capture.sources import Source
from atomic_sessions.entry import Entry, View
from atomic_sessions.formats.scan import ScanState

MAX_SIDE_BYTES = 64 * 1024 * 1024


def sides_changed(cache: Cache, source: Source) -> bool:
    """True when one is new, or not what it was when it was taken in."""
    return any(True for _ in _changed(cache, source))


def take_sides(cache: Cache, source: Source, session: int) -> int:
    """Take in those that changed; how many entries are new."""
    new = 0
    for path, (size, mtime, inode) in _changed(cache, source):
        if size > MAX_SIDE_BYTES:
            continue
        name = text_of(f"{path.parent.name}/{path.name}" if path.parent.name == "tool-results" else path.name)
        entry = Entry(f"file:{name}", None, 0, mtime // 1_000_000, path.read_bytes(), loose=True, file=name)
        with transaction(cache.connection):
            new += entries.insert(cache, session, [(entry, View(kind="file", in_context=False))]).new
            files.put(
                cache, files.FileMark(path_name(path), session, size, mtime, inode, size, 0, b"", ScanState())
            )
    return new


def _changed(cache: Cache, source: Source) -> Iterator[tuple[Path, tuple[int, int, int]]]:
    for path in source.sides:
        try:
            found = stat_of(path)
        except FileNotFoundError:
            # Gone since the folder was listed; the session itself is still there.
            continue
        if files.stats(cache, path_name(path)) != found:
            yield path, found


def stat_of(path: Path) -> tuple[int, int, int]:
    """(size, mtime_ns, inode) of a file."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino
