"""What was picked on this machine last: provider, model, effort (A8). Names only, never a key; never synced.

One small file in the Atomic home, so that it holds whatever store a session is kept in.
"""

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.locations import Home
from atomic_sessions.context import Settings
from atomic_sessions.errors import CacheRefusedError
from atomic_sessions.unreadable import UNREADABLE

VERSION = 1


class _Kept(Struct, frozen=True):
    provider: str
    model: str
    effort: str
    version: int = VERSION


def load(home: Home) -> Settings:
    """The picks; empty before the first turn or when they cannot be read."""
    try:
        kept = msgspec.json.decode(private_files.read(home.picks), type=_Kept)
    except (OSError, CacheRefusedError, *UNREADABLE):
        return Settings()
    return Settings(kept.provider, kept.model, kept.effort) if kept.version == VERSION else Settings()


def save(home: Home, picks: Settings) -> None:
    """Remember for the next launch. StoreWriteError when the disk refuses."""
    if picks == load(home):
        return
    private_files.make_folder(home.root)
    private_files.write(
        home.picks, msgspec.json.encode(_Kept(picks.provider, picks.model, picks.effort)) + b"\n"
    )
