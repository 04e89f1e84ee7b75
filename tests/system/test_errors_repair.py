"""A damaged cache on a real machine: the command its error names mends it, and a sync makes it whole again."""

import json
import os
from pathlib import Path

import pytest

from atomic_agent.cache.cache import Cache
from system.machines import Machine, claude_lines
from system.troubles import assert_told, key_of, place

LOCAL = "0badcafe-0000-4000-8000-00000000000d"
FAR = "0badcafe-0000-4000-8000-00000000000e"
GONE = "0badcafe-0000-4000-8000-00000000000f"
PAGE = 4096


def _captured(machine: Machine, session: str, lines: int) -> None:
    texts = [f"{session[-1]} line {n} " + os.urandom(300).hex() for n in range(lines)]
    machine.claude_file(session, claude_lines(session, str(machine.folder), texts))
    machine.atomic("capture")
    machine.atomic("sync")


def _leaves(machine: Machine) -> list[int]:
    """Pages behind the roots, where the rows are."""
    with Cache.open(machine.cache, key_of(machine), place(machine).keyinfo) as cache:
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (last,) = cache.connection.execute("SELECT max(rootpage) FROM sqlite_master").fetchone()
    return list(range(last, machine.cache.stat().st_size // PAGE))


def _flip(path: Path, pages: list[int]) -> None:
    content = bytearray(path.read_bytes())
    for page in pages:
        content[page * PAGE + 1000] ^= 1
    path.write_bytes(content)


def _trees(machine: Machine) -> dict[str, str]:
    return {one["id"]: machine.tree(one["id"]) for one in machine.sessions("--all")}


@pytest.mark.parametrize("every", [7, 3])
def test_a_repaired_machine_is_made_whole_by_a_sync(laptop: Machine, desktop: Machine, every: int) -> None:
    """What the damage took comes back: its own from its agents' files, the rest from the other machine."""
    _captured(laptop, LOCAL, 80)
    _captured(laptop, GONE, 4)
    laptop.atomic("sessions", "delete", GONE, "--yes")
    laptop.atomic("sync")
    _captured(desktop, FAR, 80)
    laptop.atomic("sync")
    desktop.atomic("sync")
    whole = _trees(desktop)
    assert _trees(laptop) == whole
    assert set(whole) == {LOCAL, FAR}

    _flip(laptop.cache, _leaves(laptop)[::every])
    done = json.loads(laptop.atomic("doctor", "--repair", "--json").out)
    assert (done["healthy"], done["readable"]) == (False, True)
    assert done["next"] == ["atomic capture", "atomic sync"]
    assert Path(done["kept_aside"]).stat().st_mode & 0o777 == 0o600
    assert done["salvaged"]["sessions"] == 2
    assert done["salvaged"]["certain"] is False

    laptop.atomic("capture")
    laptop.atomic("sync")
    desktop.atomic("sync")
    assert _trees(laptop) == _trees(desktop) == whole
    assert laptop.status()["unsynced_entries"] == 0
    assert laptop.status()["refused_records"] == desktop.status()["refused_records"] == []
    assert laptop.atomic("doctor", "--repair").out == "The cache is sound; nothing was changed.\n"
    assert "problem " not in laptop.atomic("doctor").out


def test_a_machine_whose_cache_cannot_be_read(laptop: Machine, desktop: Machine) -> None:
    """Its first page is gone: said so, set aside with a yes alone, and everything comes back from the account."""
    _captured(laptop, LOCAL, 30)
    _captured(desktop, FAR, 30)
    laptop.atomic("sync")
    desktop.atomic("sync")
    whole = _trees(desktop)
    with laptop.cache.open("r+b") as stream:
        stream.write(bytes(PAGE))
    before = laptop.cache.read_bytes()
    assert_told(laptop, laptop.atomic("sync", code=5), "is damaged", "atomic doctor --repair")
    assert_told(
        laptop, laptop.atomic("doctor", "--repair", code=13), "Nothing of this cache can be read", "--yes"
    )
    assert laptop.cache.read_bytes() == before
    done = laptop.atomic("doctor", "--repair", "--yes")
    assert "A new, empty one lies in its place" in done.out
    assert "atomic capture, then atomic sync" in done.err
    (aside,) = laptop.cache.parent.glob("journal.sqlite.damaged-*")
    assert aside.read_bytes() == before
    laptop.atomic("capture")
    laptop.atomic("sync")
    assert _trees(laptop) == whole


def test_a_repair_beside_a_follower(laptop: Machine) -> None:
    """Exit 14 and what to stop, with the cache as it was."""
    _captured(laptop, LOCAL, 30)
    with Cache.open(laptop.cache, key_of(laptop), place(laptop).keyinfo) as cache:
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (search,) = cache.connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'session_search_data'"
        ).fetchone()
    # What a follower does not look at while nothing is written.
    _flip(laptop.cache, [search - 1])
    watching = laptop.start("capture", "--watch")
    assert watching.stderr is not None
    assert "Watching" in watching.stderr.readline()
    before = laptop.cache.read_bytes()
    done = laptop.atomic("doctor", "--repair", code=14)
    assert_told(laptop, done, "Another process", "atomic capture --watch")
    assert laptop.cache.read_bytes() == before
    watching.terminate()
    watching.communicate(timeout=60)
    assert laptop.atomic("doctor", "--repair").out.startswith("Repaired: 1 sessions, ")
