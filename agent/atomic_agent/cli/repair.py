"""`atomic doctor --repair`: mend a damaged cache, and say what came over and what to run next."""

import msgspec

from atomic_agent.cli.terminal import Progress, confirm, emit_json, say
from atomic_agent.locations import home
from atomic_agent.stores.repair import Repaired, repair

NEXT = "Now run: atomic capture, then atomic sync"


def run(*, yes: bool, json: bool) -> int:
    progress = Progress()

    def agree(question: str) -> None:
        progress.clear()
        confirm(question, yes=yes)

    try:
        done = repair(home(), progress.show, agree)
    finally:
        progress.clear()
    if json:
        emit_json({**msgspec.structs.asdict(done), "next": next_steps(done)})
        return 0
    for line in told(done):
        print(line)
    if done.kept_aside:
        say(f"The damaged file is kept: {done.kept_aside}")
        say(NEXT)
    return 0


def next_steps(done: Repaired) -> list[str]:
    """The commands that bring back what is missing."""
    return [] if done.healthy else ["atomic capture", "atomic sync"]


def told(done: Repaired) -> list[str]:
    """What was done, for a person."""
    if done.healthy:
        return ["The cache is sound; nothing was changed."]
    if not done.readable:
        return ["Nothing of the cache could be read. A new, empty one lies in its place."]
    found = done.salvaged
    lost = (
        "how many were lost cannot be counted" if found.entries_lost is None else f"{found.entries_lost} lost"
    )
    lines = [f"Repaired: {found.sessions} sessions, {found.entries} entries kept, {lost}."]
    if found.sessions_lost:
        lines.append(f"Of {found.sessions_lost} sessions nothing but a name was left.")
    if found.turns:
        lines.append(f"{found.turns} unfinished turns are kept and offered at the next open.")
    if not found.certain:
        lines.append("The next sync reads the account's log from its start and sends what it lacks.")
    if found.left_out:
        names = ", ".join(map(repr, found.left_out))
        lines.append(f"Of other programs' tables these did not come over whole: {names}.")
    return lines
