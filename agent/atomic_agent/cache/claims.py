"""Which process is writing which session. A claim tells and asks; it never blocks a merge.

Both branches are kept when two wrote anyway (design.md section 4).
"""

import os
import socket
import subprocess
from pathlib import Path

from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_sessions.ids import SessionKey


class Process(Struct, frozen=True):
    """A process on a machine; `started` tells it from a later one that got the same number."""

    host: str
    pid: int
    started: str


class Claim(Struct, frozen=True):
    """A session (`name`) that `process` has been writing since `since` (ms)."""

    name: str
    process: Process
    since: int


def name_of(session: SessionKey) -> str:
    """What claims and turns call a session, whether or not it has a row yet."""
    return f"{session.agent}/{session.scope}/{session.id}"


def myself() -> Process:
    """This process."""
    return Process(_machine(), os.getpid(), started(os.getpid()))


def _machine() -> str:
    """A name of this machine that its network does not change, where the system has one."""
    for place in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        try:
            if found := place.read_text(encoding="ascii").strip():
                return found
        except (OSError, UnicodeDecodeError):
            continue
    return socket.gethostname()


def take(
    cache: Cache, name: str, session: int, me: Process, now: int, *, force: bool = False
) -> Claim | None:
    """Claim a session; returns the claim of another living process instead, unless forced.

    A claim whose process is gone is taken without a word.
    """
    with transaction(cache.connection):
        held = holder(cache, name, me)
        if held is not None and not force:
            return held
        cache.connection.execute(
            cache.sql(
                "INSERT INTO {p}session_claims (name, session, host, pid, started, since) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET session = excluded.session, host = excluded.host,"
                " pid = excluded.pid, started = excluded.started, since = excluded.since"
            ),
            (name, session, me.host, me.pid, me.started, now),
        )
    return None


def holder(cache: Cache, name: str, me: Process) -> Claim | None:
    """The living process other than `me` that holds a session."""
    found = cache.connection.execute(
        cache.sql("SELECT host, pid, started, since FROM {p}session_claims WHERE name = ?"), (name,)
    ).fetchone()
    if found is None:
        return None
    process = Process(found[0], found[1], found[2])
    if process == me or not alive(process, me.host):
        return None
    return Claim(name, process, found[3])


def release(cache: Cache, name: str, me: Process) -> None:
    """Give a session back; another's claim stays."""
    cache.connection.execute(
        cache.sql("DELETE FROM {p}session_claims WHERE name = ? AND host = ? AND pid = ? AND started = ?"),
        (name, me.host, me.pid, me.started),
    )


def sweep(cache: Cache, me: Process) -> None:
    """Forget claims of processes that are gone."""
    rows = cache.connection.execute(
        cache.sql("SELECT name, host, pid, started FROM {p}session_claims WHERE host = ?"), (me.host,)
    ).fetchall()
    for name, *who in rows:
        process = Process(*who)
        if not alive(process, me.host):
            release(cache, name, process)


def alive(process: Process, here: str) -> bool:
    """Whether it still runs; of another machine nobody can tell, so it counts as alive."""
    if process.host != here or os.name != "posix":
        return True
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = started(process.pid)
    return not (now and process.started and now != process.started)


def started(pid: int) -> str:
    """When a process began, as this system tells it; empty when it does not."""
    try:
        # The name in parentheses may hold spaces and more parentheses; field 22 counts from after it.
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        return fields[19]
    except (OSError, IndexError):
        pass
    if os.name != "posix":
        return ""
    try:
        done = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return " ".join(done.stdout.split())
