"""A home with a cache of some hundred entries, its bytes, and ways to hurt them."""

import base64
import random
import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.cache import stored
from atomic_agent.cache import entries, files, outbox, sessions, turns
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import KeyInfo, transaction, write_keyinfo
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.repair import Repaired, repair
from atomic_sessions.entry import Entry
from atomic_sessions.formats.scan import ScanState

PAGE = 4096
KEY = LocalKey(bytes(range(32)))
SESSIONS = 8
LINES = 60
TOMBSTONE = b"t" * 32
DEAD = "00000000-0000-4000-8000-00000000dead"

Lines = dict[tuple[str, str], tuple[bytes, str | None, int, int]]


class Hurt(Struct):
    """A copy of the original that may be damaged."""

    home: Home

    def repair(self) -> Repaired:
        return repair(self.home, lambda _: None, lambda _: None, now=lambda: 0.0)

    def open(self) -> Cache:
        return Cache.open(self.home.cache, KEY, self.home.keyinfo, create=False)

    def lines(self) -> Lines:
        with self.open() as cache:
            return lines_of(cache)

    def flip(self, page: int, at: int = 100) -> None:
        with self.home.cache.open("r+b") as stream:
            stream.seek(page * PAGE + at)
            (byte,) = stream.read(1)
            stream.seek(page * PAGE + at)
            stream.write(bytes([byte ^ 1]))

    def blank(self, page: int) -> None:
        with self.home.cache.open("r+b") as stream:
            stream.seek(page * PAGE)
            stream.write(bytes(PAGE))

    def cut(self, pages: int) -> None:
        with self.home.cache.open("r+b") as stream:
            stream.truncate(pages * PAGE + 77)

    @property
    def pages(self) -> int:
        return self.home.cache.stat().st_size // PAGE

    def content(self) -> dict[str, bytes]:
        """The cache's folder, without locks and side files."""
        return {
            path.name: path.read_bytes()
            for path in sorted(self.home.cache.parent.iterdir())
            if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal"))
        }


class Original:
    """The home that is copied for each test; `roots` are the pages at which tables and indexes begin."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "original" / ".atomic")
        self._copies = 0
        self._folder = folder
        self.key_file = folder / "key"
        self.key_file.touch(0o600)
        self.key_file.write_bytes(base64.b64encode(bytes(range(32))))
        self.home.root.mkdir(mode=0o700, parents=True)
        with Cache.open(self.home.cache, KEY, self.home.keyinfo) as cache:
            write_keyinfo(self.home.keyinfo, KeyInfo(1, KEY.name, KEY.check_value))
            _fill(cache)
            cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.roots: dict[str, int] = {
                str(name): int(page) - 1
                for name, page in cache.connection.execute(
                    "SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0"
                )
            }
            self.lines = lines_of(cache)
            self.writer = cache.writer
        with_roots = set(self.roots.values())
        self.schema = {page for page in range(max(with_roots)) if page not in with_roots}

    def copy(self) -> Hurt:
        self._copies += 1
        root = self._folder / f"copy{self._copies}" / ".atomic"
        shutil.copytree(self.home.root, root)
        return Hurt(Home(root))


def _fill(cache: Cache) -> None:
    noise = random.Random(7)
    for number in range(SESSIONS):
        key = stored.ensure(cache, stored.facts(session_id(number)))
        lines = [
            stored.said(
                f"e{n}",
                f"e{n - 1}" if n else None,
                f"word{n} " + noise.randbytes(noise.choice([60, 200, 200, 4000])).hex(),
                pos=n,
                stamp=1000 * number + n + 1,
                role="user" if n % 2 == 0 else "assistant",
            )
            for n in range(LINES)
        ]
        stored.put(cache, key, lines, sealed=True, received=5)
    with transaction(cache.connection):
        for number in range(3):
            mark = files.FileMark(f"/f{number}", number + 1, 1, 1, 1, 1, 1, b"h", ScanState())
            files.put(cache, mark)
        cache.put("cursor", b"here")
        cache.put("seen", b"\x07")
        outbox.tombstone(cache, TOMBSTONE)
        sessions.mark_deleted(cache, sessions.ensure(cache, stored.facts(DEAD)))
    begun = turns.Begun(stored.facts("new"), "a prompt", 1, [Entry("p", None, 0, 1, b'{"type":"x"}')])
    turns.begin(cache, "turn-1", "pi//new", 0, begun)


def session_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def lines_of(cache: Cache) -> Lines:
    """Every entry by its session's id and its own."""
    found: Lines = {}
    for key, identity in cache.connection.execute("SELECT key, id FROM session_sessions").fetchall():
        for one in entries.read(cache, key):
            entry = one.entry
            found[identity, entry.id] = (entry.raw, entry.parent, entry.pos, entry.stamp)
    return found


def assert_sound(hurt: Hurt, done: Repaired, original: Original) -> Lines:
    """What holds for every repaired cache; its entries."""
    kept = hurt.lines()
    assert all(original.lines[name] == line for name, line in kept.items())
    assert not (hurt.home.cache.parent / "journal.sqlite.repairing").exists()
    aside = Path(done.kept_aside)
    assert aside.parent == hurt.home.cache.parent
    assert aside.stat().st_mode & 0o777 == hurt.home.cache.stat().st_mode & 0o777 == 0o600
    with hurt.open() as cache:
        run = cache.connection.execute
        assert run("PRAGMA integrity_check").fetchone() == ("ok",)
        assert run("PRAGMA foreign_key_check").fetchone() is None
        assert cache.writer != original.writer
        assert (
            run("SELECT count(*) FROM session_entries").fetchone() == (done.salvaged.entries,) == (len(kept),)
        )
        (found,) = run("SELECT count(*) FROM session_search WHERE session_search MATCH 'word5'").fetchone()
        assert found == sum(b'"word5 ' in line[0] for line in kept.values())
        for (key,) in run("SELECT key FROM session_sessions WHERE deleted = 0").fetchall():
            before, after = stored.digests(cache, key)
            assert msgspec.structs.asdict(before) == msgspec.structs.asdict(after)
        assert not outbox.count(cache)
        reset = not cache.get("cursor")
        assert reset == (not done.salvaged.certain)
        (unsealed,) = run("SELECT count(*) FROM session_entries WHERE sealed = 0").fetchone()
        assert unsealed == (len(kept) if reset else 0)
        (marks,) = run("SELECT count(*) FROM session_files").fetchone()
        assert marks == (0 if reset else 3)
    return kept
