"""Attack 7: two hundred flipped bits in the database: an error or the right lines, never others."""

import random
from pathlib import Path

import pytest
import sqlcipher3.dbapi2 as sealed_sqlite

from agent.cache import stored
from agent.cache.stored import Place
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import AtomicError
from attacks.stage import one_sentence, texts
from system.machines import MakeMachine, claude_lines

KEY = LocalKey(bytes(range(32)))
FLIPS = 200
SESSION = "0e700000-0000-4000-8000-000000000001"


@pytest.mark.parametrize("file", ["journal.sqlite", "journal.sqlite-wal"])
def test_flipped_bits_are_never_believed(tmp_path: Path, file: str) -> None:
    """Attack 7: of the database and of its -wal; what opens reads as it was written, or as before it."""
    place = Place(tmp_path)
    place.make(KEY, lines=150)
    cache = place.open(KEY)
    session = stored.ensure(cache)
    if file.endswith("-wal"):
        stored.put(cache, session, [stored.said("late", None, "in the log alone", pos=900, stamp=901)])
    else:
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    right = stored.read(cache, session)
    # As a kill leaves it: the -wal file is there with what was not moved over yet.
    sound = place.content()
    cache.close()
    chooser = random.Random(7)
    refused = believed = 0
    for _ in range(FLIPS):
        for path in place.folder.iterdir():
            path.unlink()
        for name, content in sound.items():
            damaged = bytearray(content)
            if name == file:
                damaged[chooser.randrange(len(damaged))] ^= 1 << chooser.randrange(8)
            (place.folder / name).write_bytes(damaged)
            (place.folder / name).chmod(0o600)
        try:
            with place.open(KEY) as cache:
                found = stored.read(cache, session)
        except (AtomicError, sealed_sqlite.DatabaseError):
            refused += 1
            continue
        # A log is read up to its first broken frame: whole commits may be missing, no line is another.
        assert found == right or (file.endswith("-wal") and found == right[: len(found)])
        believed += 1
    assert refused + believed == FLIPS
    assert refused > FLIPS // 4 or file.endswith("-wal")


def test_a_damaged_cache_is_mended_as_it_says(machine: MakeMachine) -> None:
    """Attack 7: exit 5 and the way out, which keeps the damaged file and, with a capture, loses nothing."""
    laptop = machine("laptop")
    laptop.claude_file(SESSION, claude_lines(SESSION, str(laptop.folder), ["q", "a"]))
    laptop.atomic("capture")
    before = texts(laptop)
    damaged = bytearray(laptop.cache.read_bytes())
    damaged[100] ^= 0x10
    laptop.cache.write_bytes(damaged)
    line = one_sentence(laptop.atomic("sessions", code=5))
    assert "damaged" in line
    assert "atomic doctor --repair" in line
    assert laptop.cache.read_bytes() == damaged
    laptop.atomic("doctor", "--repair", "--yes")
    (kept,) = laptop.cache.parent.glob("journal.sqlite.damaged-*")
    assert kept.read_bytes() == damaged
    laptop.atomic("capture")
    assert texts(laptop) == before
