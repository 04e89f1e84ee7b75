"""The measurements, each a function from a stage to figures. Whole processes unless said otherwise."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions import compose, document
from atomic_sessions.entry import Entry, Facts, Text
from atomic_sessions.formats.lines import split
from atomic_sessions.formats.pi import view as pi_view
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.html.render import render_page
from bench.generate import LARGE, SMALL
from bench.stage import Figure, Machine, Service, figure, median_of, open_cache, timed

NEEDLE = "quicksilverneedle"


class Bench:
    """A run: the data folder and a folder for everything made on the way."""

    def __init__(self, data: Path, root: Path, runs: int) -> None:
        self.data, self.root, self.runs = data, root, runs
        self._made = 0

    def fresh(self, name: str, *, home: bool = True) -> Machine:
        self._made += 1
        return Machine(self.root, f"{name}{self._made}", self.data / "home" if home else None)

    def filled(self) -> Machine:
        machine = self.fresh("filled")
        machine.run("capture")
        return machine

    # --- the agent alone ------------------------------------------------------------------

    def capture(self) -> Iterator[Figure]:
        """Whole process, search index included; the limit is the bare work on the same lines."""
        files = sorted((self.data / "home" / ".claude").rglob("*.jsonl"))
        limit = median_of(self.runs, lambda: self._bare(files))
        machine = self.fresh("capture")
        yield figure(
            "capture_200", median_of(self.runs, lambda: self.fresh("capture").seconds("capture")), "s", limit
        )
        machine.run("capture")
        yield figure(
            "capture_200_again", median_of(self.runs, lambda: machine.seconds("capture")), "s", self._python()
        )

    def capture_large(self) -> Iterator[Figure]:
        """One session of 50 MB: time, peak memory, ratio to the bare work."""
        path = self.data / "single" / f"{LARGE}.jsonl"
        limit = median_of(self.runs, lambda: self._bare([path]))
        words = ("capture", "--from", str(path))
        seconds = median_of(self.runs, lambda: self.fresh("large", home=False).seconds(*words))
        yield figure("capture_50mb", seconds, "s", limit)
        yield figure("capture_50mb_rss", self.fresh("large", home=False).peak(*words), "MB")

    def _bare(self, files: list[Path]) -> float:
        """Decode, zstd, SQLCipher and FTS of the same lines, nothing else; a whole process as well."""
        self._made += 1
        path = self.root / f"bare{self._made}.sqlite"
        command = [sys.executable, "-m", "bench.bare", str(path), *map(str, files)]
        return timed(lambda: subprocess.run(command, check=True))

    def _python(self) -> float:
        """The limit of any command: an interpreter that imports what every command needs."""
        code = "import sqlcipher3.dbapi2, msgspec, zstandard, cryptography.hazmat.primitives.ciphers.aead"
        return median_of(
            self.runs, lambda: timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))
        )

    def append(self) -> Iterator[Figure]:
        """One durable turn against plain SQLite with the same statements, interleaved."""
        machine = self.fresh("append", home=False)
        key = LocalKey(os.urandom(32))
        folder = machine.home / "append"
        ours: list[float] = []
        plain: list[float] = []
        with Cache.open(folder / "journal.sqlite", key, folder / "journal.keyinfo") as cache:
            statements: list[tuple[str, Any]] = []
            other = _plain_twin(folder / "plain.sqlite", cache)
            header = _header(SESSION, BEGUN)
            for number in range(400):
                statements.clear()
                recorded = _Recorder(cache, statements)
                ours.append(timed(partial(_turn, recorded, header, number)))
                plain.append(timed(partial(_replay, other, statements)))
            other.close()
        half = len(ours) // 2
        ours.sort()
        plain.sort()
        yield figure("append_ratio", ours[half] / plain[half], "ratio", 1.0)

    def reading(self) -> Iterator[Figure]:
        """Listing and searching 200 sessions, and the help text's CPU."""
        machine = self.filled()
        limit = self._python()
        yield figure(
            "list_200", median_of(self.runs * 3, lambda: machine.seconds("sessions", "--all")), "s", limit
        )
        search = ("sessions", "--search", NEEDLE)
        yield figure("search_200", median_of(self.runs * 3, lambda: machine.seconds(*search)), "s", limit)
        bare = median_of(self.runs * 3, lambda: _cpu([sys.executable, "-c", "import argparse"]))
        yield figure("help_cpu", median_of(self.runs * 3, lambda: machine.cpu("--help")), "s", bare)

    def html(self) -> Iterator[Figure]:
        """2,000 messages to one page, inside the process; every message's text is looked for."""
        path = self.data / "single" / f"{SMALL}.jsonl"
        scanner = Scanner("claude-code", ScanState(), now=1 << 41, stamp_of=lambda _: 0)
        found = [scanner.read(line.raw)[0] for line in split([path.read_bytes()])]
        facts = Facts("claude-code", SMALL, "", "/home/dev/single", "", 0)
        page = document.read(facts, "bench", found[-1].id, found)
        seconds = median_of(self.runs, lambda: timed(lambda: render_page(page)))
        text = render_page(page)
        for node in page.nodes:
            said = node.view.spoken()[:40]
            if said and said not in text:
                raise RuntimeError("a message is missing in the page")
        limit = median_of(
            self.runs, lambda: timed(lambda: document.read(facts, "bench", found[-1].id, found))
        )
        yield figure("html_2000", seconds, "s", limit)
        yield figure("html_2000_size", len(text.encode()) / 1e6, "MB", path.stat().st_size / 1e6)

    # --- with a service -------------------------------------------------------------------

    def sync(self) -> Iterator[Figure]:
        """First push, what is stored, a new machine, nothing new, and how long a turn takes to be heard of."""
        service = Service(self.root / "service")
        try:
            one = self.filled()
            one.run("login", service.url, "--invite", "-", "--name", "one", stdin=service.invite)
            yield from self._push(service)
            two = self.fresh("two", home=False)
            yield figure("pull_200", timed(lambda: _join(one, two, service.url)), "s")
            yield figure(
                "sync_noop", median_of(self.runs * 3, lambda: two.seconds("sync")), "s", self._python()
            )
            yield figure("live_lag", median_of(self.runs, lambda: self._lag(one, two)), "s")
        finally:
            service.stop()

    def _push(self, service: Service) -> Iterator[Figure]:
        stored = sum(path.stat().st_size for path in (service.data / "blobs").rglob("*") if path.is_file())
        third = self.filled()
        invite = subprocess.run(
            [sys.executable, "-m", "atomic_service", "invite", "--data", str(service.data)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[-1]
        seconds = timed(lambda: third.run("login", service.url, "--invite", "-", stdin=invite))
        yield figure("push_200", seconds, "s")
        yield figure("push_200_stored", (stored + _sealed_bytes(third)) / 1e6, "MB")

    def _lag(self, one: Machine, two: Machine) -> float:
        watching = [
            subprocess.Popen(
                [sys.executable, "-m", "atomic_agent.cli.app", "sync", "--watch"],
                env=machine.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for machine in (one, two)
        ]
        try:
            time.sleep(2.0)
            identity = _said(one)
            begun = time.perf_counter()
            while identity not in two.run("sessions", "--json"):
                if time.perf_counter() - begun > 30:
                    raise RuntimeError("the turn was not heard of")
            return time.perf_counter() - begun
        finally:
            for process in watching:
                process.terminate()
                process.communicate(timeout=30)


def _cpu(command: list[str]) -> float:
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _said(machine: Machine) -> str:
    """A completed turn in a new session, as a turn commits it; returns the session's id."""
    now = time.time_ns() // 1_000_000
    identity = compose.session_id(now, os.urandom(10))
    with open_cache(machine) as cache:
        _enter(cache, identity, _header(identity, now), 0, now)
    return identity


def _enter(cache: Cache, identity: str, header: bytes, number: int, now: int) -> None:
    with transaction(cache.connection):
        session = sessions.ensure(cache, Facts("atomic", identity, "", "/p", "git:h/p", now, header=header))
        before = leaf.leaf(cache, session)
        batch = []
        for step, text in enumerate(("a question " * 20, "an answer " * 100)):
            raw = compose.message(f"{number:06x}{step:02x}", before, now, compose.user(now, [Text(text)]))
            batch.append(
                (Entry(f"{number:06x}{step:02x}", before, 2 * number + step, now + step, raw), pi_view(raw))
            )
            before = f"{number:06x}{step:02x}"
        entries.insert(cache, session, batch)


class _Recorder(Cache):
    """The same cache, remembering every statement it runs."""

    def __init__(self, cache: Cache, statements: list[tuple[str, Any]]) -> None:
        self.path, self.prefix = cache.path, cache.prefix
        self.connection = _Tape(cache.connection, statements)  # type: ignore[assignment]  # same two methods


class _Tape:
    def __init__(self, connection: Any, statements: list[tuple[str, Any]]) -> None:  # a database connection
        self._connection, self._statements = connection, statements

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def execute(self, text: str, values: Any = ()) -> Any:  # a cursor
        self._statements.append((text, values))
        return self._connection.execute(text, values)

    def executemany(self, text: str, rows: Any) -> Any:  # a cursor
        kept = list(rows)
        self._statements.append((text, kept))
        return self._connection.executemany(text, kept)


SESSION = "01a22c81-7192-70af-aa13-6f2a524f0b20"
BEGUN = 1_796_000_000_000


def _header(identity: str, now: int) -> bytes:
    return compose.header(identity, now, "/p", project="git:h/p")


def _turn(cache: Cache, header: bytes, number: int) -> None:
    """One more turn of a session that was begun before: its header is known."""
    _enter(cache, SESSION, header, number, BEGUN + number)


def _plain_twin(path: Path, cache: Cache) -> sqlite3.Connection:
    """The same schema in plain SQLite."""
    twin = sqlite3.connect(path, isolation_level=None)
    twin.execute("PRAGMA journal_mode = WAL")
    twin.execute("PRAGMA synchronous = FULL")
    for (text,) in cache.connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'session_search_%' ORDER BY rowid"
    ):
        # The standard library's SQLite may be too old for contentless tables that delete.
        twin.execute(text.replace("contentless_delete = 1, ", ""))
    return twin


def _replay(connection: sqlite3.Connection, statements: list[tuple[str, Any]]) -> None:
    for text, values in statements:
        if values and isinstance(values, list):
            connection.executemany(text, values)
        else:
            connection.execute(text, values).fetchall()


def _join(one: Machine, two: Machine, url: str) -> None:
    string = one.run("devices", "add")
    process = subprocess.Popen(
        [sys.executable, "-m", "atomic_agent.cli.app", "login", url, "--join", "-", "--name", "two"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=two.environment,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(string)
    process.stdin.close()
    words = next(line for line in process.stdout if line.startswith("Words: ")).removeprefix("Words: ")
    one.run("devices", "approve", "--yes", *words.split())
    process.stdout.read()
    if process.wait(120):
        raise RuntimeError("the machine was not let in")


def _sealed_bytes(machine: Machine) -> int:
    """Bytes of the records this machine's sessions take, sealed anew into a copy of its cache."""
    from atomic_agent.account.device import new_device
    from atomic_agent.keys.keystore import Membership
    from atomic_agent.sync.sealing import Sealer

    copy = machine.home / "copy"
    shutil.copytree(machine.cache.parent, copy)
    other = Machine.__new__(Machine)
    other.environment, other.cache = machine.environment, copy / "journal.sqlite"
    with open_cache(other) as cache:
        cache.connection.execute("UPDATE session_entries SET sealed = 0")
        cache.connection.execute("DELETE FROM session_chains")
        mine = Membership("", bytes(16), new_device("x"), 1, bytes(32), bytes(32), b"", b"", 0)
        Sealer(cache, mine).seal_all()
        (size,) = cache.connection.execute("SELECT sum(length(raw)) FROM session_outbox").fetchone()
        return int(size)
