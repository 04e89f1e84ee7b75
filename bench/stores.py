"""Lists of stores: many files of a JSONL folder, many sessions of the encrypted cache, in this process.

The limit of a first listing is reading the same windows of the same files; of a later one, their stat; of a page
of the cache, its statement.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from atomic_agent.cache import entries, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.jsonl_rows import WINDOW
from atomic_agent.stores.sqlite import SqliteStore, open_sqlite
from atomic_sessions import compose
from atomic_sessions.entry import Entry, Facts, Text
from atomic_sessions.formats.agents import viewer
from bench.stage import Figure, figure, median_of, timed

FILES = 2_000
FILE_BYTES = 40_000
SESSIONS = 10_000
PAGE = 50
BEGUN = 1_796_000_000_000


def stores(root: Path, runs: int) -> Iterator[Figure]:
    """First and second listing of 2,000 files of 40 KB; a page of 10,000 sessions."""
    folder = root / "jsonl"
    folder.mkdir(mode=0o700)
    fill_folder(folder)
    yield figure(
        "list_2000_files",
        median_of(runs, lambda: timed(lambda: list(_jsonl(folder).listed()))),
        "s",
        median_of(runs, lambda: timed(lambda: _windows(folder))),
    )
    store = _jsonl(folder)
    list(store.listed())
    yield figure(
        "list_2000_again",
        median_of(runs, lambda: timed(lambda: list(store.listed()))),
        "s",
        median_of(runs, lambda: timed(lambda: [one.stat() for one in os.scandir(folder)])),
    )
    cache = open_sqlite(root / "cache" / "sessions.sqlite", LocalKey(bytes(32)))
    fill_cache(cache)
    yield figure(
        "page_10000",
        median_of(runs * 3, lambda: timed(lambda: list(cache.listed(limit=PAGE)))),
        "s",
        median_of(runs * 3, lambda: timed(lambda: list(sessions.listed(cache.cache, limit=PAGE)))),
    )
    project = cache.project_of("/work/p3")
    yield figure(
        "page_project",
        median_of(
            runs * 3,
            lambda: timed(lambda: list(cache.listed(project=project, folder="/work/p3", limit=PAGE))),
        ),
        "s",
    )
    cache.close()


def _jsonl(folder: Path) -> JsonlStore:
    return JsonlStore(folder, lambda: time.time_ns() // 1_000_000)


def _windows(folder: Path) -> int:
    """Both ends of each file, read and let go."""
    size = 0
    for one in os.scandir(folder):
        with Path(one).open("rb") as stream:
            size += len(stream.read(WINDOW))
            stream.seek(-WINDOW, os.SEEK_END)
            size += len(stream.read(WINDOW))
    return size


def _turns(count: int, size: int, at: int) -> Iterator[Entry]:
    parent: str | None = None
    for number in range(count):
        role, identity, now = ("user", "assistant")[number % 2], f"{number:08x}", at + number * 1000
        said = {"role": role, "content": compose.content([Text("word " * (size // 5))]), "timestamp": now}
        yield Entry(identity, parent, number, now, compose.message(identity, parent, now, said))
        parent = identity


def fill_folder(folder: Path, files: int = FILES, size: int = FILE_BYTES) -> None:
    """Sessions of format 4, one a file."""
    for number in range(files):
        at = BEGUN + number * 60_000
        identity = compose.session_id(at, number.to_bytes(10, "big"))
        lines = [compose.header(identity, at, f"/work/p{number % 10}")]
        lines.extend(entry.raw for entry in _turns(20, size // 20 - 200, at))
        (folder / f"{number}_{identity}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def fill_cache(store: SqliteStore, count: int = SESSIONS) -> None:
    """Sessions of two messages each."""
    view = viewer("atomic")
    with transaction(store.cache.connection):
        for number in range(count):
            at = BEGUN + number * 60_000
            identity = compose.session_id(at, number.to_bytes(10, "big"))
            cwd = f"/work/p{number % 10}"
            header = compose.header(identity, at, cwd)
            key = sessions.ensure(
                store.cache, Facts("atomic", identity, "", cwd, store.project_of(cwd), at, header=header)
            )
            entries.insert(store.cache, key, [(entry, view(entry.raw)) for entry in _turns(2, 100, at)])
