"""Which session files changed since the last look, asked by stat: works on every file system, opens no file.

Looked at is what the system tells of (`notices`), what changed lately, and everything else in turns, so that a look
costs the same however many sessions there are. A `stat` in a process that has just slept takes up to 10 µs: a hundred
of them twice a second are 0.2 % of a CPU.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from atomic_agent.capture import sources
from atomic_agent.capture.notices import Notices, Told
from atomic_agent.capture.sources import Source

NEAR_FOLDERS = 16
NEAR_FILES = 16
FAR = 96
"""How many of the rest are looked at in turn where the system tells nothing."""
YOUNG_NS = 2_000_000_000
"""A folder that changed less than this ago may change again without another time: file systems count in steps."""
EVERYTHING_SECONDS = 60.0
EVERYTHING_SHARE = 500
"""A look at everything is repeated after at least this many times what it took: 0.2 % at most."""
MAX_DEPTH = 12

Sign = tuple[int, int, int, int]


class Place(Struct, frozen=True):
    """A folder, or a single file, where sessions of an agent lie; an empty agent is any."""

    agent: str
    root: Path


class _Seen(Struct):
    """A path as it was last seen; `sign` None: not there, or not yet looked at."""

    place: Place
    depth: int
    folder: bool
    sign: Sign | None = None


class Lookout:
    """Remembers the files and folders of some places. `clock` is monotonic seconds, `wall` ns since 1970."""

    def __init__(
        self,
        places: Sequence[Place],
        told: Notices | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock, self._wall, self._notices = clock, wall, told
        self._seen: dict[str, _Seen] = {}
        self._near: dict[str, None] = {}
        self._far: deque[str] = deque()
        self._young: set[str] = set()
        self._roots = [str(place.root) for place in places]
        self._due = 0.0
        self.unreadable: dict[str, str] = {}
        for place in places:
            # A root may be a file (`--from FILE`), a folder, or not there yet.
            self._seen[str(place.root)] = _Seen(place, 0, folder=not place.root.is_file())

    def look(self) -> list[Source]:
        """The session files that are new or changed since the last look, each once, in a stable order. The
        first look finds all."""
        begun = self._clock()
        told = self._notices.told() if self._notices is not None else Told()
        if begun >= self._due or told.all:
            changed = self._look_at(list(self._seen), everywhere=True)
            self._due = begun + max(EVERYTHING_SECONDS, (self._clock() - begun) * EVERYTHING_SHARE)
            self._arrange()
        else:
            far = FAR if self._notices is None else 0
            turn = [self._far[n] for n in range(min(far, len(self._far)))]
            self._far.rotate(-len(turn))
            named = [path if path in self._seen else os.path.dirname(path) for path in told.paths]  # noqa: PTH120
            changed = self._look_at([*named, *self._near, *turn], everywhere=False)
            if not changed <= self._near.keys():
                self._arrange()
        found: dict[Path, Source] = {}
        for path in sorted(changed):
            seen = self._seen.get(path)
            source = _source(seen.place, path) if seen is not None and not seen.folder else None
            if source is not None:
                found[source.path] = source
        return list(found.values())

    def _look_at(self, paths: Sequence[str], *, everywhere: bool) -> set[str]:
        """Files among these, and below new or changed folders, that are not what they were."""
        changed: set[str] = set()
        folders: list[str] = []
        for path in dict.fromkeys((*paths, *self._young)):
            seen = self._seen.get(path)
            if seen is None:
                continue
            sign = _sign(path)
            if seen.folder:
                if everywhere or sign != seen.sign or path in self._young:
                    folders.append(path)
            elif sign is None:
                self._gone(path, seen)
            elif sign != seen.sign:
                seen.sign = sign
                changed.add(path)
        while folders:
            path = folders.pop()
            folders.extend(self._list(path, self._seen[path], changed))
        return changed

    def _gone(self, path: str, seen: _Seen) -> None:
        seen.sign = None
        if path not in self._roots:
            del self._seen[path]

    def _list(self, path: str, seen: _Seen, changed: set[str]) -> list[str]:
        """Take a folder's names in; its new folders are to be listed too."""
        if self._notices is not None:
            # Before it is listed, so that nothing comes between.
            self._notices.ask(path)
        seen.sign = _sign(path)
        self._young.discard(path)
        if seen.sign is None:
            self.unreadable.pop(path, None)
            self._gone(path, seen)
            return []
        if abs(self._wall() - seen.sign[1]) < YOUNG_NS:
            self._young.add(path)
        try:
            with os.scandir(path) as names:
                there = [name for name in names if name.path not in self._seen]
        except OSError as error:
            self.unreadable[path] = error.strerror or "no reason given"
            return []
        self.unreadable.pop(path, None)
        new: list[str] = []
        depth = seen.depth + 1
        for name in there:
            try:
                folder = name.is_dir(follow_symlinks=depth == 1)
            except OSError as error:
                # A link that leads to itself, say: this name alone is passed over until the folder is listed again.
                self.unreadable[name.path] = error.strerror or "no reason given"
                continue
            self.unreadable.pop(name.path, None)
            if folder:
                if depth < MAX_DEPTH:
                    self._seen[name.path] = _Seen(seen.place, depth, folder=True)
                    new.append(name.path)
            elif _source(seen.place, name.path) is not None:
                self._seen[name.path] = _Seen(seen.place, depth, folder=False, sign=_sign(name.path))
                changed.add(name.path)
        return new

    def _arrange(self) -> None:
        """What changed last is near, the rest is far."""

        def latest(path: str) -> int:
            sign = self._seen[path].sign
            return 0 if sign is None else -max(sign[1], sign[2])

        ordered = sorted((path for path in self._seen if path not in self._roots), key=latest)
        folders = [path for path in ordered if self._seen[path].folder]
        files = [path for path in ordered if not self._seen[path].folder]
        self._near = dict.fromkeys([*self._roots, *folders[:NEAR_FOLDERS], *files[:NEAR_FILES]])
        self._far = deque([*folders[NEAR_FOLDERS:], *files[NEAR_FILES:]])


def _source(place: Place, path: str) -> Source | None:
    if path == str(place.root):
        return next(sources.find_any(place.root), None)
    return sources.source_of(place.agent, place.root, Path(path))


def _sign(path: str) -> Sign | None:
    """Size, times and number of a file. The time of its last change of any kind too: rights that were given back
    change nothing else."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a Path costs more than the stat
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
