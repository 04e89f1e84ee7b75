"""`atomic`, `atomic -c`, `atomic -p`: choose a session and a model, make one turn or open the line prompt.

stdout is the answer, stderr the talk. What a turn saves and when is `turns.engine`'s.
"""

import argparse
import sys

from atomic_agent.cli import selection
from atomic_agent.cli.answers import JsonAnswer, TextAnswer
from atomic_agent.cli.selection import busy, chosen, imported, opened, tools_of
from atomic_agent.cli.storage import Launch, launched
from atomic_agent.cli.terminal import now_ms, say
from atomic_agent.cli.trust import store_arguments
from atomic_agent.stores import marks
from atomic_agent.turns import opening
from atomic_agent.turns.choice import EFFORTS
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.engine import Engine
from atomic_sessions.errors import ProviderError, UsageError
from atomic_sessions.formats.lines import plain


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
    add(
        "--mode",
        choices=["text", "json", "rpc"],
        default="text",
        help="how -p prints (json: one object a line); rpc: requests on standard input, docs/rpc.md",
    )
    add("-r", "--resume", dest="pick", action="store_true", help="choose one of this project's sessions")
    add("--session", metavar="ID", help="go on with this session; the first eight characters do")
    add(
        "--session-id",
        metavar="ID",
        help="this exact id in this project, opened or made; with --fork the copy's",
    )
    add("--fork", metavar="ID", help="go on in a copy of this session")
    add(
        "--import",
        dest="source",
        metavar="FILE|LINK",
        help="bring in an export or a shared session; - reads the link",
    )
    add("-n", "--name", type=plain, metavar="TEXT", help="name the session")
    add("--no-session", action="store_true", help="keep nothing on the disk")
    store_arguments(parser)
    add("--provider", metavar="NAME", default="", help="zen, openai or anthropic")
    add("--model", metavar="ID", default="", help="the model that answers")
    add("--effort", choices=EFFORTS, default="", help="how long it thinks")
    add("--tools", metavar="NAMES", help="these tools alone: a,b; or changes to what is on: +a,-b")
    add("--no-tools", action="store_true", help="no tools at all")
    add("--no-builtin-tools", action="store_true", help="none of this program's own tools")
    add("--exclude-tools", metavar="NAMES", help="tools that stay off, whoever asks for them")
    add("--resume-interrupted", action="store_true", help="go on with the turn that a kill interrupted")
    add("--drop-interrupted", action="store_true", help="forget such a turn; its prompt is printed")
    add("--take-over", action="store_true", help="write although another process holds the session")


def joined(arguments: list[str]) -> list[str]:
    """`--tools -a` as `--tools=-a`: what begins with a dash is a value there."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] == "--tools" and not argument.startswith("--"):
            found[-1] = f"--tools={argument}"
        else:
            found.append(argument)
    return found


def run(options: argparse.Namespace) -> int:
    check(options)
    prompt = read_prompt(options)
    importing = (
        options.source is not None and prompt is None and options.mode != "rpc" and not sys.stdin.isatty()
    )
    with launched(options, ask=prompt is None and options.mode != "rpc") as launch:
        if opening.settle(launch.store, say):
            say("An answer that was complete when its program was killed has been saved.")
        if importing and launch.keeps:
            row = imported(launch.store, options.source)
            if options.name:
                marks.rename(launch.store, row.key, options.name, now_ms())
            print(row.facts.id)
            return 0
        talk = opened(launch, options)
        if talk is None:
            return 0
        if options.mode == "rpc":
            from atomic_agent.cli.rpc import Rpc

            return Rpc(launch, talk, options).loop()
        if prompt is None and options.drop_interrupted and not sys.stdin.isatty():
            return 0  # there was nothing more to do
        if prompt is None and not options.resume_interrupted:
            from atomic_agent.cli.line_prompt import LinePrompt

            return LinePrompt(launch, talk, options).loop()
        return _one_turn(launch, talk, options, prompt)


def check(options: argparse.Namespace) -> None:
    """Refuse flags that cannot be used together."""
    selection.check(options)
    if options.resume_interrupted and (options.drop_interrupted or options.prompt is not None):
        raise UsageError(
            "--resume-interrupted runs the interrupted prompt, so it takes no other.", "Leave -p away."
        )
    if options.source == "-" and options.prompt == "-":
        raise UsageError(
            "Standard input cannot hold both the link and the prompt.", "Give the prompt after -p."
        )
    if options.mode == "rpc" and (options.prompt is not None or options.pick or options.resume_interrupted):
        raise UsageError(
            "--mode rpc reads what to do from standard input.", "Leave -p, -r and --resume-interrupted away."
        )
    if options.pick and options.prompt is not None:
        raise UsageError("-r asks which session, so it cannot go with -p.", "Name one: --session ID, or -c.")
    if options.name is not None and not options.name.strip():
        raise UsageError("--name is empty.", "Give the session a name, or leave the flag away.")


def read_prompt(options: argparse.Namespace) -> str | None:
    """The prompt of a single turn, from -p or standard input; None for the line prompt."""
    given = options.prompt
    if options.pick or options.mode == "rpc":
        return None
    if options.source == "-" or (
        given is None and (options.source is not None or options.resume_interrupted)
    ):
        return given if given is None else _sayable(str(given))
    if given == "-":
        return _sayable(sys.stdin.read())
    if given is None:
        piped = None if sys.stdin.isatty() else sys.stdin.read()
        if piped is None or (options.drop_interrupted and not piped.strip()):
            return None
        return _sayable(piped)
    # Standard input is left alone: a caller's pipe may stay open for ever.
    return _sayable(str(given))


def _sayable(prompt: str) -> str:
    prompt = plain(prompt)
    if not prompt.strip():
        raise UsageError("The prompt is empty.", 'Give one: atomic -p "…", or: printf %s … | atomic -p -')
    return prompt.rstrip("\n")


def _one_turn(launch: Launch, talk: Conversation, options: argparse.Namespace, prompt: str | None) -> int:
    held = talk.claim(now_ms(), force=options.take_over)
    if held is not None:
        raise busy(held)
    if options.name:
        talk.rename(options.name, now_ms())
    if prompt is None:
        waiting = next(flight for flight in launch.store.pending() if flight.turn == talk.in_flight)
        prompt = waiting.begun.prompt
    answer = JsonAnswer(launch.way_back) if options.mode == "json" else TextAnswer()
    try:
        tools = tools_of(talk, options)
        choice = chosen(launch, talk, options)
        answer.opened(talk, tools.active)
        engine = Engine(talk, clock=now_ms, tell=answer.tell, patient=False)
        turn = engine.run(choice, prompt, tools.recorded)
    except (ProviderError, KeyboardInterrupt):
        answer.broken()
        talk.roll_back()
        raise
    finally:
        talk.close()
    answer.closed(talk, turn)
    launch.keep_picks(choice.settings)
    if launch.journal is not None and launch.syncs:
        from atomic_agent.sync.background import after_turn, at_exit

        after_turn(launch.journal)
        at_exit(launch.journal)
    return 0
