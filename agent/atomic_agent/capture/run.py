"""A capture of all or some agents: files found, taken in one by one, and counted. Prints nothing."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import repeatable
from atomic_agent.capture import forks, sources
from atomic_agent.capture.begin import Taken
from atomic_agent.capture.follow import take
from atomic_sessions.errors import AtomicError, UsageError


class Skipped(Struct, frozen=True):
    """A file that did not come in, and why."""

    path: Path
    why: str


class Report(Struct):
    """What a capture did. `damaged` lines were kept and are not shown; `held_back` files end in an
    unfinished line that is read next time; `lacking` are forks whose beginning is not here."""

    new: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    entries: int = 0
    bytes: int = 0
    damaged: int = 0
    held_back: int = 0
    rewritten: int = 0
    skipped: list[Skipped] = []
    lacking: list[forks.Lacking] = []
    agents: dict[str, int] = {}

    @property
    def files(self) -> int:
        return self.new + self.updated + self.unchanged + self.deleted + len(self.skipped)


def check(agents: Sequence[str], folder: Path | None) -> None:
    """UsageError for an agent nobody knows, or a folder that is not there."""
    unknown = [agent for agent in agents if agent not in {*sources.AGENTS, "atomic"}]
    if unknown:
        raise UsageError(
            f"'{unknown[0][:40]}' is not an agent this version captures.",
            f"It captures: {', '.join(sources.AGENTS)}.",
        )
    if folder is not None and not folder.exists():
        raise UsageError(f"--from {folder}: there is no such folder.", "Name a folder or a session file.")
    if folder is not None and sources.is_earlier(folder):
        raise UsageError(
            f"--from {folder}: these sessions are in the lists already.",
            "Open one (atomic -r, atomic --session ID) and it is copied into the cache.",
        )


def gather(agents: list[str], folder: Path | None) -> list[sources.Source]:
    """The files to look at. `folder` looks there, for any agent's files, instead of the usual places."""
    check(agents, folder)
    if folder is not None:
        return list(sources.find_any(folder))
    return list(_usual(agents or list(sources.AGENTS)))


def _usual(agents: list[str]) -> Iterator[sources.Source]:
    for agent in agents:
        for root in sources.roots(agent):
            yield from sources.find(agent, root)


def capture(
    cache: Cache,
    found: list[sources.Source],
    *,
    only: list[str],
    now: int,
    progress: Callable[[int, int, int], None] = lambda *_: None,
) -> Report:
    """Take in the files, of the agents in `only` when it names some.

    `progress` hears (files done, files in all, bytes read so far).
    """
    report = Report()
    read = 0

    def heard(size: int) -> None:
        nonlocal read
        read += size
        progress(index, len(found), read)

    def grown(_: int, entries: int) -> None:
        report.entries += entries

    with repeatable(cache.connection):
        for index, source in enumerate(found):
            try:
                taken = take(cache, source, now, heard, only)
            except OSError as error:
                report.skipped.append(Skipped(source.path, f"unreadable: {error.strerror}"))
                continue
            except AtomicError as error:
                if error.exit_code != 6:
                    raise
                report.skipped.append(Skipped(source.path, error.message))
                continue
            _count(report, source, taken)
            progress(index + 1, len(found), read)
        if any(source.agent in {"", forks.AGENT} for source in found):
            report.lacking = forks.complete(cache, grown)
    return report


def _count(report: Report, source: sources.Source, taken: Taken) -> None:
    match taken.outcome:
        case "new":
            report.new += 1
        case "updated":
            report.updated += 1
        case "unchanged":
            report.unchanged += 1
        case "deleted":
            report.deleted += 1
        case "skipped":
            if taken.why:
                report.skipped.append(Skipped(source.path, taken.why))
    if taken.agent and taken.outcome in {"new", "updated"}:
        report.agents[taken.agent] = report.agents.get(taken.agent, 0) + 1
    report.entries += taken.entries
    report.bytes += taken.bytes
    report.damaged += taken.damaged
    report.held_back += taken.held_back
    report.rewritten += taken.rewritten
