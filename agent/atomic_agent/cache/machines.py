"""Which machines a session's records came from, by name."""

import msgspec

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.sessions import SessionRow

_DEVICES = "devices"
_OWN = "own_device"


def remember(cache: Cache, names: dict[bytes, str], own: bytes) -> None:
    """Keep the device names of the verified ledger."""
    cache.put(_DEVICES, msgspec.msgpack.encode(names))
    cache.put(_OWN, own)


def machines_of(cache: Cache, row: SessionRow) -> list[str]:
    """Names of the machines that wrote parts of this session, sorted; this one is `this machine` until
    it has a name in an account."""
    names = msgspec.msgpack.decode(cache.get(_DEVICES) or b"\x80", type=dict[bytes, str])
    own = cache.get(_OWN) or b""
    found: set[str] = set()
    if row.wire is not None:
        for (device,) in cache.connection.execute(
            cache.sql("SELECT DISTINCT device FROM {p}session_chains WHERE wire = ?"), (row.wire,)
        ):
            found.add(names.get(bytes(device), "an unknown machine"))
    unsealed = cache.connection.execute(
        cache.sql("SELECT 1 FROM {p}session_entries WHERE session = ? AND sealed = 0 LIMIT 1"), (row.key,)
    ).fetchone()
    if unsealed is not None:
        found.add(names.get(own, "this machine"))
    return sorted(found)
