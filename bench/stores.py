"""Lists of stores: many files of a JSONL folder, many sessions of the encrypted cache, in this process.

The limit of a first listing is reading the same windows of the same files; of a later one, their stat; of a page
of the cache, its statement.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from atomic_agent.cache import entries, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.earlier import EarlierStore
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.jsonl_rows import WINDOW
from atomic_agent.stores.sqlite import SqliteStore, open_sqlite
from atomic_sessions import compose
from atomic_sessions.entry import Entry, Facts, Text
from atomic_sessions.errors import ProviderError
from atomic_sessions.formats.agents import viewer
from bench.stage import ATOMIC, Figure, Machine, figure, median_of, open_cache, timed

FILES = 2_000
FILE_BYTES = 40_000
EARLIER_BYTES = 500_000
SESSIONS = 10_000
PAGE = 50
BEGUN = 1_796_000_000_000


def stores(root: Path, runs: int) -> Iterator[Figure]:
    """First and second listing of 2,000 files, of 40 KB in a folder of one's own and of 500 KB among the earlier
    sessions; a page of 10,000 sessions, and `-c` on them."""
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
    yield from _earlier(root, runs)
    yield from _continued(root, runs)


def _earlier(root: Path, runs: int) -> Iterator[Figure]:
    """1 GB of earlier sessions beside an empty cache: read the first time, then known by size and time."""
    folder = root / "earlier"
    folder.mkdir(mode=0o700)
    fill_folder(folder, size=EARLIER_BYTES)
    places = [root / f"beside{number}" / "sessions.sqlite" for number in range(runs)]
    first = median_of(runs, lambda: _listed(places.pop(), folder))
    known = root / "beside0" / "sessions.sqlite"
    again = median_of(runs, lambda: _listed(known, folder))
    stat = median_of(runs, lambda: timed(lambda: [one.stat() for one in os.scandir(folder)]))
    windows = median_of(runs, lambda: timed(lambda: _windows(folder)))
    yield figure("list_1gb_earlier", first, "s", windows)
    yield figure("list_1gb_again", again, "s", stat)


def _listed(cache: Path, folder: Path) -> float:
    """Seconds of listing all sessions of a cache and of the folder beside it."""
    with open_sqlite(cache, LocalKey(bytes(32))).cache as opened:
        store = EarlierStore(opened, folder, lambda: time.time_ns() // 1_000_000)
        return timed(lambda: list(store.listed()))


def _continued(root: Path, runs: int) -> Iterator[Figure]:
    """`atomic -c` as a whole process up to the question of the model's key, which this machine has none of."""
    machine = Machine(root, "continued")
    machine.run("sessions")
    with open_cache(machine) as cache:
        fill_cache(SqliteStore(cache, syncs=True), folder=str(machine.home))
    command = [ATOMIC, "-c", "-p", "hi"]

    def ends() -> None:
        done = subprocess.run(
            command, env=machine.environment, cwd=machine.home, capture_output=True, check=False
        )
        assert done.returncode == ProviderError.exit_code, done.stderr

    bare = median_of(runs * 3, lambda: timed(lambda: machine.run("--version")))
    yield figure("continue_10000", median_of(runs * 3, lambda: timed(ends)), "s", bare)


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


def fill_cache(store: SqliteStore, count: int = SESSIONS, folder: str = "") -> None:
    """Sessions of two messages each, in one folder or in ten."""
    view = viewer("atomic")
    with transaction(store.cache.connection):
        for number in range(count):
            at = BEGUN + number * 60_000
            identity = compose.session_id(at, number.to_bytes(10, "big"))
            cwd = folder or f"/work/p{number % 10}"
            header = compose.header(identity, at, cwd)
            key = sessions.ensure(
                store.cache, Facts("atomic", identity, "", cwd, store.project_of(cwd), at, header=header)
            )
            entries.insert(store.cache, key, [(entry, view(entry.raw)) for entry in _turns(2, 100, at)])
