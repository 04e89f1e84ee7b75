"""Attack 8: four processes append 2,000 entries each while one reads and one is killed."""

import subprocess
import sys
import threading
from pathlib import Path

from agent.cache import stored
from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from system.machines import until

KEY = LocalKey(bytes(32))
COUNT = 2000
# Commits do not wait for the disk: what is tried here are locks and a kill, and a kill loses no page of the system's.
APPENDER = """
import sys
from pathlib import Path
from atomic_agent.cache import entries, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats.pi import view
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with Cache.open(folder / "db", LocalKey(bytes(32)), folder / "keyinfo") as cache:
    cache.connection.execute("PRAGMA synchronous = OFF")
    with transaction(cache.connection):
        session = sessions.ensure(cache, Facts("pi", name, "", "/p", "path:/p", 1))
    parent = None
    for number in range(count):
        raw = f'{{"type":"message","id":"{name}{number}","message":{{"role":"user","content":"hi"}}}}'.encode()
        entry = Entry(f"{name}{number}", parent, number, number + 1, raw)
        with transaction(cache.connection):
            entries.insert(cache, session, [(entry, view(raw))])
        parent = entry.id
        print(entry.id, flush=True)
"""


def _entries(cache: Cache) -> dict[str, list[str]]:
    """Ids by session, in their order."""
    rows = cache.connection.execute("SELECT key, id FROM session_sessions ORDER BY key").fetchall()
    return {name: [entry.id for entry in stored.read(cache, key)] for key, name in rows}


def test_writers_and_a_kill(tmp_path: Path) -> None:
    """Attack 8: every acknowledged line is there once and in its order, none is half, the file is whole."""
    (folder := tmp_path / "cache").mkdir(mode=0o700)
    with Cache.open(folder / "db", KEY, folder / "keyinfo"):
        pass
    acknowledged: dict[str, list[str]] = {name: [] for name in "abcde"}
    writers = {
        name: subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(folder), name, str(COUNT if name != "e" else 10**6)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in acknowledged
    }

    def listen(name: str) -> None:
        out = writers[name].stdout
        assert out is not None
        acknowledged[name] += [line.strip() for line in out if line.endswith("\n")]

    listeners = [threading.Thread(target=listen, args=(name,)) for name in writers]
    for listener in listeners:
        listener.start()
    with Cache.open(folder / "db", KEY, folder / "keyinfo") as reader:
        seen: dict[str, int] = {}

        def look() -> bool:
            found = _entries(reader)
            for name, ids in found.items():
                # What was read once is there from then on, and always a beginning without a hole.
                assert ids == [f"{name}{number}" for number in range(len(ids))]
                assert len(ids) >= seen.get(name, 0)
                seen[name] = len(ids)
            return seen.get("e", 0) >= 200

        until(look, 60)
        writers["e"].kill()
        until(lambda: look() and all(not one.is_alive() for one in listeners), 60)
    for name, writer in writers.items():
        assert writer.stdout is not None
        writer.stdout.close()
        assert writer.wait(60) == (0 if name != "e" else -9)
    with Cache.open(folder / "db", KEY, folder / "keyinfo") as cache:
        assert cache.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = _entries(cache)
    for name in "abcd":
        assert found[name] == acknowledged[name] == [f"{name}{number}" for number in range(COUNT)]
    # The line the killed process was about to acknowledge may be there or not.
    assert found["e"][: len(acknowledged["e"])] == acknowledged["e"]
    assert len(found["e"]) - len(acknowledged["e"]) <= 1
