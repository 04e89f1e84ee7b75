"""Which session a command line means: the newest, one by id, one picked, a copy, an import, or a new one.

Chooses and opens; makes no turn. What falls back or goes on elsewhere is said on stderr.
"""

import argparse
import os
import sys
from pathlib import Path

from msgspec import Struct

from atomic_agent.cache.claims import Claim
from atomic_agent.cli.storage import Launch
from atomic_agent.cli.terminal import from_stdin, here, now_ms, one_line, safe, say
from atomic_agent.locations import home
from atomic_agent.projects import display
from atomic_agent.stores.port import InFlight, Store
from atomic_agent.stores.rows import Row
from atomic_agent.turns import opening
from atomic_agent.turns.choice import Choice, choose
from atomic_agent.turns.conversation import AGENT, Conversation
from atomic_agent.turns.tool_choice import BUILTIN, Kind, ToolFlags, choose_tools, excluded
from atomic_sessions.context import Settings
from atomic_sessions.errors import BusyError, NotFoundError, UsageError
from atomic_sessions.formats.internal import VARIABLE, from_environment
from atomic_sessions.ids import CUSTOM_ID

SELECTORS = {
    "go_on": "-c",
    "pick": "-r",
    "session": "--session",
    "session_id": "--session-id",
    "fork": "--fork",
    "source": "--import",
}


def check(options: argparse.Namespace) -> None:
    """Refuse selectors that cannot be used together (B8, B9). --session-id may name a fork, and what is not kept."""
    given = [name for name in SELECTORS if getattr(options, name) not in {None, False}]
    if given == ["session_id", "fork"]:
        given = []
    if len(given) > 1:
        raise UsageError(
            f"{SELECTORS[given[0]]} and {SELECTORS[given[1]]} cannot be used together.", "Choose one."
        )
    if options.no_session and given and given[0] not in {"session_id", "source"}:
        raise UsageError(
            f"--no-session and {SELECTORS[given[0]]} cannot be used together.",
            "Without a store there is nothing to open.",
        )
    if options.no_session and (options.resume_interrupted or options.drop_interrupted):
        raise UsageError("With --no-session there is no turn to take up.")
    if options.session_id is not None and not CUSTOM_ID.fullmatch(options.session_id):
        raise opening.bad_id()


def opened(launch: Launch, options: argparse.Namespace) -> Conversation | None:
    """The conversation that the options name; None when nothing was picked."""
    cwd, now = here(), now_ms()
    found = _selected(launch, options, cwd, now)
    if found is None:
        return None
    talk, row = found
    if row is not None and not talk.saved:
        what = "A copy of" if row.facts.agent == AGENT else f"The {row.facts.agent} session"
        say(f"{what} '{one_line(row.label)[:60]}' goes on here as a new session, {talk.facts.id}.")
    return _with_interrupted(launch.store, talk, options, cwd, now)


def _selected(
    launch: Launch, options: argparse.Namespace, cwd: str, now: int
) -> tuple[Conversation, Row | None] | None:
    store = launch.store
    project = store.project_of(cwd)
    if options.go_on:
        row = _newest(launch, project, cwd)
        if row is None:
            say(f"There is no session of {display(project, Path(cwd).name)} yet; this is a new one.")
            return fresh(store, cwd, now), None
    elif options.pick:
        from atomic_agent.cli.chooser import pick

        picked = pick(store, project, cwd)
        if picked is None:
            return None
        row = picked
    elif options.session is not None or options.fork is not None:
        row = store.find(options.session if options.fork is None else options.fork, project)
    elif options.source is not None:
        row = imported(store, options.source)
    else:
        exact = opening.exact(store, options.session_id, project) if options.session_id is not None else None
        if exact is None:
            if options.session_id is not None:
                say(f"There is no session '{options.session_id}' in this project yet; this is a new one.")
            return fresh(store, cwd, now, options.session_id or ""), None
        row = exact
    if options.fork is not None:
        return opening.forked(store, row.key, cwd, now, options.session_id or ""), row
    return opening.resume(store, row.key, cwd, now), row


def fresh(store: Store, cwd: str, now: int, session: str = "") -> Conversation:
    """A new session; of a workflow's stage where its parent process says so (B22)."""
    stage = from_environment(os.environ.get(VARIABLE))
    return opening.fresh(store, cwd, now, session=session, stage=stage)


def _newest(launch: Launch, project: str, cwd: str) -> Row | None:
    if launch.journal is not None and launch.syncs:
        from atomic_agent.sync.background import before_continue

        before_continue(launch.journal)
    return next(iter(launch.store.listed(project=project, folder=cwd, limit=1)), None)


def imported(store: Store, source: str) -> Row:
    """Bring in what --import names; a link makes a new session (B9)."""
    from atomic_agent.publish.importing import import_file, import_link, is_link

    if source == "-":
        source = from_stdin("link or the file's path").strip()
    cwd = here()
    row = import_link(store, source, cwd) if is_link(source) else import_file(store, Path(source), cwd)
    say(
        f"Brought in '{one_line(row.label)[:60]}' ({row.messages} messages) as {row.facts.id or '(empty id)'}."
    )
    return row


def _with_interrupted(
    store: Store, talk: Conversation, options: argparse.Namespace, cwd: str, now: int
) -> Conversation:
    """Apply --resume-interrupted and --drop-interrupted; otherwise say that a turn waits (A1)."""
    found = interrupted(talk, options)
    if not found:
        if options.resume_interrupted:
            raise NotFoundError("No turn was interrupted here.", "See: atomic sessions")
        return talk
    if options.drop_interrupted:
        for flight in found:
            store.drop(flight.turn)
            say(f"Dropped: {safe(flight.begun.prompt)}")
        return talk
    if options.resume_interrupted:
        talk.close()
        return opening.again(store, found[-1], cwd, now)
    if options.prompt is not None or not sys.stdin.isatty():
        say(
            "A turn that was interrupted here waits; take it up with --resume-interrupted or --drop-interrupted."
        )
    return talk


def interrupted(talk: Conversation, options: argparse.Namespace) -> list[InFlight]:
    """Turns a kill left behind: of this session, and for `atomic` and `atomic -c` of this project's
    sessions that never came to be. A single new turn (-p alone) has nothing to do with them."""
    plain = all(getattr(options, name) in {None, False} for name in SELECTORS)
    alone = (
        plain and options.prompt is not None and not (options.resume_interrupted or options.drop_interrupted)
    )
    if alone:
        return []
    project = talk.store.project_of(here()) if plain or options.go_on else None
    return opening.interrupted(talk.store, talk.source, project)


def chosen(launch: Launch, talk: Conversation, options: argparse.Namespace) -> Choice:
    """The model for the next turn; what falls back is said."""
    flags = Settings(options.provider, options.model, options.effort)
    journal = launch.journal
    keys = (lambda: journal.secrets.provider_keys) if journal is not None else _kept_keys
    choice = choose(flags, os.environ, talk.settings, launch.picks(), keys)
    for note in choice.notes:
        say(f"{note} Using {choice.provider}/{choice.model}." if choice.endpoint is not None else note)
    return choice


class ToolSet(Struct, frozen=True):
    """The tools that are on, and what a turn writes down of them: None where the session says so already, or nobody
    asked for anything but the defaults."""

    active: tuple[str, ...]
    recorded: tuple[str, ...] | None


def tools_of(talk: Conversation, options: argparse.Namespace) -> ToolSet:
    """The tools of the next turn by flags and record (B19); what stays off is said."""
    flags = ToolFlags(
        options.tools,
        options.no_tools,
        options.no_builtin_tools,
        excluded(options.exclude_tools, BUILTIN) if options.exclude_tools is not None else frozenset(),
    )
    kind: Kind = "stage" if talk.facts.internal else "main"
    known = talk.settings.tools
    found = choose_tools(BUILTIN, flags, known, kind=kind)
    for note in found.notes:
        say(note)
    asked = flags != ToolFlags()
    same = found.active == (known if known is not None else choose_tools(BUILTIN, ToolFlags(), None).active)
    return ToolSet(found.active, found.active if asked and not same else None)


def _kept_keys() -> dict[str, str]:
    """Provider keys without opening the default store, which another store leaves alone."""
    from atomic_agent.keys import keystore, sources

    key = sources.find(home())
    return keystore.load(home(), key).provider_keys if key is not None else {}


def busy(held: Claim) -> BusyError:
    """Somebody else is writing."""
    where = f"process {held.process.pid} on {one_line(held.process.host)}"
    return BusyError(
        f"Another program is writing this session ({where}).",
        "End it, go on in a copy with --fork ID, or write anyway with --take-over.",
    )
