"""Which process writes which session of a JSONL folder: a small file beside the sessions, one a session.

Only for the holder of the folder's lock. A claim tells and asks; it never blocks a reader.
"""

from pathlib import Path

import msgspec

from atomic_agent import private_files
from atomic_agent.cache import claims
from atomic_agent.cache.claims import Claim, Process
from atomic_agent.stores.jsonl_files import read_side, side_path
from atomic_sessions.unreadable import UNREADABLE

ENDING = ".claim"


def take(folder: Path, name: str, me: Process, now: int, *, force: bool = False) -> Claim | None:
    """Claim a session; the claim of another living process instead, unless forced."""
    held = holder(folder, name, me)
    if held is not None and not force:
        return held
    content = msgspec.json.encode(Claim(name, me, now))
    private_files.write(side_path(folder, name, ENDING), content)
    return None


def holder(folder: Path, name: str, me: Process) -> Claim | None:
    """The living process other than `me` that holds a session."""
    held = _last(folder, name)
    if held is None or held.process == me or not claims.alive(held.process, me.host):
        return None
    return held


def _last(folder: Path, name: str) -> Claim | None:
    """The last that claimed a session, alive or not."""
    try:
        return msgspec.json.decode(read_side(side_path(folder, name, ENDING)), type=Claim)
    except (OSError, *UNREADABLE):
        return None


def release(folder: Path, name: str, me: Process) -> None:
    """Give a session back; another's claim stays."""
    held = _last(folder, name)
    if held is not None and held.process == me:
        forget(folder, name)


def forget(folder: Path, name: str) -> None:
    side_path(folder, name, ENDING).unlink(missing_ok=True)
