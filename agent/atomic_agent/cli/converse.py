"""`atomic`, `atomic -c`, `atomic -p`: choose a session and a model, make one turn or open the line prompt.

stdout is the answer, stderr the talk. What a turn saves and when is `turns.engine`'s.
"""

import argparse
import sys
from pathlib import Path

from atomic_agent.cache import turns
from atomic_agent.cache.cache import Cache
from atomic_agent.cli.answers import JsonAnswer, TextAnswer
from atomic_agent.cli.selection import SELECTORS, busy, chosen, imported, opened
from atomic_agent.cli.terminal import now_ms, say, welcome
from atomic_agent.locations import home
from atomic_agent.stores.journal import Journal, open_journal
from atomic_agent.turns import opening
from atomic_agent.turns.choice import EFFORTS
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.engine import Engine
from atomic_sessions.errors import AtomicError, ProviderError, UsageError
from atomic_sessions.formats.lines import plain
from atomic_sessions.ids import CUSTOM_ID


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-c", "--continue", dest="go_on", action="store_true", help="go on with this project's newest session"
    )
    add(
        "-p",
        "--print",
        dest="prompt",
        metavar="PROMPT",
        help="one turn, no prompt line; - reads standard input",
    )
    add("--mode", choices=["text", "json"], default="text", help="how -p prints (json: one object a line)")
    add("--session", metavar="ID", help="go on with this session; the first eight characters do")
    add("--session-id", metavar="ID", help="this exact id in this project, opened or made")
    add("--fork", metavar="ID", help="go on in a copy of this session")
    add(
        "--import",
        dest="source",
        metavar="FILE|LINK",
        help="bring in an export or a shared session; - reads the link",
    )
    add("-n", "--name", metavar="TEXT", help="name the session")
    add("--no-session", action="store_true", help="keep nothing on the disk")
    add("--provider", metavar="NAME", default="", help="zen, openai or anthropic")
    add("--model", metavar="ID", default="", help="the model that answers")
    add("--effort", choices=EFFORTS, default="", help="how long it thinks")
    add("--resume-interrupted", action="store_true", help="go on with the turn that a kill interrupted")
    add("--drop-interrupted", action="store_true", help="forget such a turn; its prompt is printed")
    add("--take-over", action="store_true", help="write although another process holds the session")


def run(options: argparse.Namespace) -> int:
    check(options)
    prompt = read_prompt(options)
    if options.no_session:
        return _unsaved(options, prompt)
    with open_journal(home()) as journal:
        welcome(journal)
        if opening.settle(journal.cache):
            say("An answer that was complete when its program was killed has been saved.")
        if options.source is not None and prompt is None and not sys.stdin.isatty():
            print(imported(journal, options.source).id)
            return 0
        talk = opened(journal, options)
        if prompt is None and not options.resume_interrupted:
            from atomic_agent.cli.line_prompt import LinePrompt

            return LinePrompt(journal, talk, options).loop()
        return _one_turn(journal, talk, options, prompt)


def check(options: argparse.Namespace) -> None:
    """Refuse flags that cannot be used together."""
    chosen = [name for name in SELECTORS if getattr(options, name) not in {None, False}]
    names = {
        "go_on": "-c",
        "session": "--session",
        "session_id": "--session-id",
        "fork": "--fork",
        "source": "--import",
    }
    if len(chosen) > 1:
        raise UsageError(f"{names[chosen[0]]} and {names[chosen[1]]} cannot be used together.", "Choose one.")
    if options.no_session and chosen:
        raise UsageError(
            f"--no-session and {names[chosen[0]]} cannot be used together.",
            "Without a session there is nothing to open.",
        )
    if options.no_session and (options.name or options.resume_interrupted or options.drop_interrupted):
        raise UsageError("With --no-session there is no session to name and no turn to take up.")
    if options.resume_interrupted and (options.drop_interrupted or options.prompt is not None):
        raise UsageError(
            "--resume-interrupted runs the interrupted prompt, so it takes no other.", "Leave -p away."
        )
    if options.source == "-" and options.prompt == "-":
        raise UsageError(
            "Standard input cannot hold both the link and the prompt.", "Give the prompt after -p."
        )
    if options.session_id is not None and not CUSTOM_ID.fullmatch(options.session_id):
        raise UsageError(
            "A session id holds letters, digits, dots, dashes and underscores.", "Choose another id."
        )


def read_prompt(options: argparse.Namespace) -> str | None:
    """The prompt of a single turn, from -p or standard input; None for the line prompt."""
    given = options.prompt
    if options.source == "-" or (
        given is None and (options.source is not None or options.resume_interrupted)
    ):
        return given if given is None else _sayable(str(given))
    if given == "-":
        return _sayable(sys.stdin.read())
    if given is None:
        return None if sys.stdin.isatty() else _sayable(sys.stdin.read())
    # Standard input is left alone: a caller's pipe may stay open for ever.
    return _sayable(str(given))


def _sayable(prompt: str) -> str:
    prompt = plain(prompt)
    if not prompt.strip():
        raise UsageError("The prompt is empty.", 'Give one: atomic -p "…", or: printf %s … | atomic -p -')
    return prompt.rstrip("\n")


def _unsaved(options: argparse.Namespace, prompt: str | None) -> int:
    talk = opening.fresh(None, str(Path.cwd()), "", now_ms())
    if prompt is None:
        from atomic_agent.cli.line_prompt import LinePrompt

        return LinePrompt(None, talk, options).loop()
    return _one_turn(None, talk, options, prompt)


def _one_turn(
    journal: Journal | None, talk: Conversation, options: argparse.Namespace, prompt: str | None
) -> int:
    held = talk.claim(now_ms(), force=options.take_over)
    if held is not None:
        raise busy(held)
    if prompt is None:
        waiting = next(t for t in turns.pending(_cache(journal)) if t.turn == talk.in_flight)
        prompt = waiting.begun.prompt
    answer = JsonAnswer() if options.mode == "json" else TextAnswer()
    try:
        choice = chosen(journal, talk, options)
        answer.opened(talk)
        turn = Engine(talk, clock=now_ms, tell=answer.tell, patient=False).run(choice, prompt)
    except (ProviderError, KeyboardInterrupt):
        answer.broken()
        talk.roll_back()
        raise
    finally:
        talk.close()
    answer.closed(talk, turn)
    if journal is not None and journal.secrets.membership is not None:
        from atomic_agent.sync.background import after_turn, at_exit

        after_turn(journal)
        at_exit(journal)
    return 0


def _cache(journal: Journal | None) -> Cache:
    if journal is None:
        raise AtomicError("There is no session to take a turn up in.")
    return journal.cache
