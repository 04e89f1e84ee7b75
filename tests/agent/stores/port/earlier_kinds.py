"""The default store with a folder of earlier sessions beside it, as the contract opens it: what the folder holds is
in no list."""

import json
from pathlib import Path
from typing import Any

from atomic_agent.keys.local_key import LocalKey
from atomic_agent.stores.earlier import EarlierStore
from atomic_agent.stores.sqlite import open_sqlite
from atomic_sessions.ids import SessionKey

NOW = 1_796_043_907_321
DELETED = "0fc22c81-7192-70af-aa13-6f2a524f0b99"


def _opened(place: Path) -> EarlierStore:
    cache = open_sqlite(place / "kept" / "sessions.sqlite", LocalKey(bytes(32))).cache
    return EarlierStore(cache, place / "earlier", lambda: NOW)


def beside_others(place: Path) -> EarlierStore:
    """The folder holds a deleted session, one of a newer format and noise."""
    folder = place / "earlier" / "--elsewhere--"
    is_new = not folder.exists()
    store = _opened(place)
    if is_new:
        folder.mkdir(parents=True)
        (folder / "deleted.jsonl").write_bytes(_header(DELETED, version=3))
        (folder / "newer.jsonl").write_bytes(_header(DELETED[:-1] + "8", version=99))
        (folder / "noise.jsonl").write_bytes(b"\x00" * 99)
        store.delete(SessionKey("atomic", DELETED))
    return store


def _header(identity: str, **more: Any) -> bytes:
    parts = {"type": "session", "id": identity, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/elsewhere"}
    return json.dumps(parts | more).encode() + b"\n"
