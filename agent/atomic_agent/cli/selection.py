"""Which session a command line means: the newest, one by id, a copy, an import, or a new one.

Chooses and opens; makes no turn. What falls back or goes on elsewhere is said on stderr.
"""

import argparse
import os
import sys
from pathlib import Path

from atomic_agent.cache import sessions as rows
from atomic_agent.cache import turns
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.claims import Claim
from atomic_agent.cache.open import transaction
from atomic_agent.cli.terminal import from_stdin, now_ms, one_line, safe, say
from atomic_agent.locations import home
from atomic_agent.projects import display, project_of
from atomic_agent.stores.journal import Journal
from atomic_agent.turns import opening
from atomic_agent.turns.choice import Choice, choose, load_picks
from atomic_agent.turns.conversation import AGENT, Conversation
from atomic_sessions.context import Settings
from atomic_sessions.errors import BusyError, NotFoundError
from atomic_sessions.ids import SessionKey, session_key

SELECTORS = ("go_on", "session", "session_id", "fork", "source")


def opened(journal: Journal, options: argparse.Namespace) -> Conversation:
    """The conversation that the options name."""
    cwd, now = str(Path.cwd()), now_ms()
    project = project_of(cwd)
    cache = journal.cache
    talk, row = _selected(journal, options, cwd, project, now)
    if options.name:
        talk.rename(options.name, now)
    if row is not None and talk.row is None:
        what = "A copy of" if row.agent == AGENT else f"The {row.agent} session"
        say(f"{what} '{one_line(row.label)[:60]}' goes on here as a new session, {talk.facts.id}.")
    return _with_interrupted(cache, talk, options, cwd, project, now)


def _selected(
    journal: Journal, options: argparse.Namespace, cwd: str, project: str, now: int
) -> tuple[Conversation, rows.SessionRow | None]:
    cache = journal.cache
    if options.go_on:
        if journal.secrets.membership is not None:
            from atomic_agent.sync.background import before_continue

            before_continue(journal)
        row = next(rows.listed(cache, project=project, folder=cwd, limit=1), None)
        if row is None:
            say(f"There is no session of {display(project, Path(cwd).name)} yet; this is a new one.")
            return opening.fresh(cache, cwd, project, now), None
    elif options.session is not None or options.fork is not None:
        row = rows.find(cache, options.session if options.fork is None else options.fork, project)
    elif options.source is not None:
        row = imported(journal, options.source)
    elif options.session_id is not None:
        found = _exact(cache, options.session_id, project)
        if found is None:
            return opening.fresh(cache, cwd, project, now, session=options.session_id), None
        row = found
    else:
        return opening.fresh(cache, cwd, project, now), None
    return opening.resume(cache, row, cwd, project, now, fork=options.fork is not None), row


def _exact(cache: Cache, session: str, project: str) -> rows.SessionRow | None:
    """The session with exactly this id in this project; NotFoundError when it was deleted."""
    key = session_key(AGENT, session, project)
    if rows.is_deleted(cache, SessionKey(key.agent, key.id, key.scope)):
        raise NotFoundError(f"The session '{session}' was deleted and stays deleted.", "Choose another id.")
    try:
        row = rows.find(cache, session, project)
    except NotFoundError:
        return None
    return row if row.id == session and row.project == project else None


def imported(journal: Journal, source: str) -> rows.SessionRow:
    from atomic_agent.publish.importing import import_file, import_link, is_link

    if source == "-":
        source = from_stdin("link or the file's path").strip()
    cwd = str(Path.cwd())
    row = import_link(journal, source, cwd) if is_link(source) else import_file(journal, Path(source), cwd)
    say(f"Brought in '{one_line(row.label)[:60]}' ({row.messages} messages) as {row.id}.")
    return row


def _with_interrupted(
    cache: Cache, talk: Conversation, options: argparse.Namespace, cwd: str, project: str, now: int
) -> Conversation:
    """Apply --resume-interrupted and --drop-interrupted; otherwise say that a turn waits (A1)."""
    found = interrupted(cache, talk, options, project)
    if not found:
        if options.resume_interrupted:
            raise NotFoundError("No turn was interrupted here.", "See: atomic sessions")
        return talk
    if options.drop_interrupted:
        for turn in found:
            with transaction(cache.connection):
                turns.clear(cache, turn.turn)
            say(f"Dropped: {safe(turn.begun.prompt)}")
        return talk
    if options.resume_interrupted:
        talk.close()
        return opening.again(cache, found[-1], cwd, project, now)
    if options.prompt is not None or not sys.stdin.isatty():
        say(
            "A turn that was interrupted here waits; take it up with --resume-interrupted or --drop-interrupted."
        )
    return talk


def interrupted(
    cache: Cache, talk: Conversation, options: argparse.Namespace, project: str
) -> list[turns.PendingTurn]:
    """Turns a kill left behind: of this session, and for `atomic` and `atomic -c` of this project's
    sessions that never came to be. A single new turn (-p alone) has nothing to do with them."""
    plain = not any(getattr(options, name) for name in SELECTORS)
    alone = (
        plain and options.prompt is not None and not (options.resume_interrupted or options.drop_interrupted)
    )
    if alone:
        return []
    return opening.interrupted(cache, talk.source, project if plain or options.go_on else None)


def chosen(journal: Journal | None, talk: Conversation, options: argparse.Namespace) -> Choice:
    """The model for the next turn; what falls back is said."""
    flags = Settings(options.provider, options.model, options.effort)
    saved = load_picks(journal.cache) if journal is not None else Settings()
    keys = (lambda: journal.secrets.provider_keys) if journal is not None else _kept_keys
    choice = choose(flags, os.environ, talk.settings, saved, keys)
    for note in choice.notes:
        say(f"{note} Using {choice.provider}/{choice.model}." if choice.endpoint is not None else note)
    return choice


def _kept_keys() -> dict[str, str]:
    """Provider keys without opening the cache, which --no-session leaves alone."""
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
