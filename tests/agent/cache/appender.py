"""A process that appends to a cache and says what was acknowledged: `appender.py FOLDER NAME COUNT`."""

import sys
from pathlib import Path

from atomic_agent.cache import entries, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats.pi import view


def main() -> None:
    folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with Cache.open(folder / "db", LocalKey(bytes(32)), folder / "keyinfo") as cache:
        with transaction(cache.connection):
            session = sessions.ensure(cache, Facts("pi", "shared", "", "/p", "path:/p", 1))
        for number in range(count):
            raw = f'{{"type":"message","id":"{name}{number}","message":{{"role":"user","content":"hi"}}}}'.encode()
            entry = Entry(f"{name}{number}", None, number, number + 1, raw)
            with transaction(cache.connection):
                entries.insert(cache, session, [(entry, view(raw))])
            print(entry.id, flush=True)


if __name__ == "__main__":
    main()
