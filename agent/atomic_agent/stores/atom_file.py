"""The Atom file on the disk: `~/.atom/session.json`, one session, 0600, replaced whole (A2 to A5, A7).

Loading never raises. Before something that is no session, or that another program wrote meanwhile, is replaced, it is
kept beside the file under a name of its own: nothing is ever lost by a save. What it holds is never shown.

Saved after each completed turn (`save_turn`) and at a clean exit (`save_picks`); a failed or cancelled turn calls
neither, so it touches nothing. What a save raises reaches the caller, whose conversation goes on in memory.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from msgspec import Struct

from atomic_agent import private_files
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Usage
from atomic_sessions.errors import StoreWriteError
from atomic_sessions.formats import atom
from atomic_sessions.formats.atom import Corrupt, Document, Loaded, Missing, State
from atomic_sessions.formats.atom_history import turns
from atomic_sessions.formats.atom_messages import history

DAMAGED = "corrupt"
OTHERS = "other"
FORMER = "former"


class Saved(Struct, frozen=True):
    """What a save has to say: sentences for the person, most often none."""

    notices: tuple[str, ...] = ()


class AtomFile:
    """One Atom file. `state` is what was there when it was opened, then what was saved last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state, self._seen = _look(path)

    def __repr__(self) -> str:
        return f"AtomFile({str(self.path)!r})"

    @property
    def document(self) -> Document | None:
        """The session in it, None when there is none."""
        return self.state.document if isinstance(self.state, Loaded) else None

    @property
    def notice(self) -> str:
        """The one line to say at a start: nothing unless the file is corrupt."""
        if not isinstance(self.state, Corrupt):
            return ""
        return f"The Atom file {self.path} is corrupt: {self.state.why}. This is a fresh start; the file is kept aside."

    def save_turn(self, path: Sequence[Entry], picks: Settings, usage: Usage, mode: str, at: int) -> Saved:
        """`save_history` of the open branch as it is now."""
        return self.save_history(history(path), picks, usage, mode, at)

    def save_history(self, said: Sequence[str], picks: Settings, usage: Usage, mode: str, at: int) -> Saved:
        """Save a completed turn: what was said in all turns, and the session's totals.

        Raises StoreWriteError, or CacheRefusedError for a folder others can write to; nothing is changed then.
        """
        narrowed = self._check()
        now, seen = _look(self.path, (self.state, self._seen))
        before = now.document if isinstance(now, Loaded) else None
        notices = self._kept_aside(now)
        if before is not None and seen != self._seen and tuple(said[: len(before.history)]) != before.history:
            notices += self.keep_other().notices
        new = atom.with_session(before, said, turns(before, said), picks, usage, mode, at)
        self._write(new)
        return Saved(notices + narrowed)

    def refresh(self) -> None:
        """Take what is there now for what was there when it was opened."""
        self.state, self._seen = _look(self.path, (self.state, self._seen))

    def keep_former(self) -> Saved:
        """Keep the conversation that lies there under a name of its own, before a new one takes its place."""
        return Saved(_kept(self.path, FORMER, "held an earlier conversation, which is"))

    def keep_other(self) -> Saved:
        """Keep what another program put there, before the conversation of this one goes on in its place."""
        return Saved(_kept(self.path, OTHERS, "was written by another program meanwhile; its session is"))

    def clear(self, at: int) -> None:
        """Take the conversation out; picks and members of other programs stay. Raises as `save_turn`."""
        self._check()
        now = _look(self.path)[0]
        before = now.document if isinstance(now, Loaded) else atom.fresh()
        self._write(atom.with_session(before, (), (), before.picks, Usage(), atom.NORMAL, at))

    def save_picks(self, picks: Settings, at: int) -> Saved:
        """Save what a clean exit without another turn leaves: provider, model and effort. Raises as `save_turn`."""
        narrowed = self._check()
        now, _ = _look(self.path, (self.state, self._seen))
        notices = self._kept_aside(now)
        self._write(atom.with_picks(now.document if isinstance(now, Loaded) else None, picks, at))
        return Saved(notices + narrowed)

    def _check(self) -> tuple[str, ...]:
        """Refuse a link; say when others could read the file until now."""
        private_files.make_folder(self.path.parent)
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreWriteError(f"{self.path} cannot be written: {error.strerror}.", "Check it.") from error
        if stat.S_ISLNK(found.st_mode):
            raise StoreWriteError(f"{self.path} is a symbolic link.", "Put the file itself there.")
        if os.name == "posix" and stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
            return (f"Others could read {self.path}; now only you can.",)
        return ()

    def _kept_aside(self, now: State) -> tuple[str, ...]:
        return _kept(self.path, DAMAGED, "was corrupt; it is") if isinstance(now, Corrupt) else ()

    def _write(self, document: Document) -> None:
        raw = atom.encode(document)
        if len(raw) > atom.MAX_BYTES:
            raise StoreWriteError(
                f"The conversation is larger than the {atom.MAX_BYTES >> 20} MiB an Atom file holds.",
                "Compact it, or keep it in another store.",
            )
        private_files.write(self.path, raw)
        self.state, self._seen = Loaded(document), _digest(raw)


def _look(path: Path, known: tuple[State, bytes] | None = None) -> tuple[State, bytes]:
    """What is there, and a digest of it. What is `known` already is not read through again: at every save of a long
    conversation that is most of the work."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return Missing(), b""
    except (OSError, ValueError) as error:
        return Corrupt(f"it cannot be read ({getattr(error, 'strerror', None) or 'no such name'})"), b""
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return Corrupt("it is not a file"), b""
        with os.fdopen(handle, "rb", closefd=False) as stream:
            raw = stream.read(atom.MAX_BYTES + 1)
    except OSError as error:
        return Corrupt(f"it cannot be read ({error.strerror})"), b""
    finally:
        os.close(handle)
    seen = _digest(raw)
    return known if known is not None and known[1] == seen else (atom.load(raw), seen)


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _kept(path: Path, label: str, why: str) -> tuple[str, ...]:
    """Keep what lies at the path under a free name beside it. Where the disk can, the file gets a second name, so
    that there is no moment without a file and no name of another is taken."""
    try:
        aside = _aside(path, label)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StoreWriteError(
            f"{path} cannot be kept aside: {error.strerror}.", "Move it away yourself."
        ) from error
    return (f"{path} {why} kept as {aside.name}.",)


def _aside(path: Path, label: str) -> Path:
    for number in count(1):
        aside = path.with_name(f"{path.name}.{label}" + (f"-{number}" if number > 1 else ""))
        if os.path.lexists(aside):
            if os.path.samestat(aside.lstat(), path.lstat()):
                return aside  # kept by a save that failed afterwards
            continue
        try:
            os.link(path, aside, follow_symlinks=False)
        except FileExistsError:
            continue
        except FileNotFoundError:
            raise
        except (OSError, NotImplementedError):
            path.rename(aside)
        if aside.is_file():
            aside.chmod(0o600)
        return aside
    raise AssertionError("unreachable")
