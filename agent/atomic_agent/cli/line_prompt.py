"""The plain line prompt: reads a prompt, streams the answer, and again. The full program comes later.

Runs the same engine as `atomic -p`; keeps a cancelled or failed prompt editable.
"""

import argparse
import sys

from atomic_agent.cli.answers import TextAnswer
from atomic_agent.cli.selection import fresh, interrupted
from atomic_agent.cli.sitting import Sitting
from atomic_agent.cli.storage import Launch
from atomic_agent.cli.terminal import age, here, now_ms, one_line, safe, say
from atomic_agent.config.way_back import quoted
from atomic_agent.turns import opening
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.engine import no_key
from atomic_sessions.context import Settings
from atomic_sessions.errors import AtomicError

HELP = """/session          what is open        /name TEXT    name it
/model ID         another model       /provider P   another provider      /effort LEVEL
/show             the conversation    /new          a new session         /quit"""


class LinePrompt:
    """One sitting at the terminal."""

    def __init__(self, launch: Launch, talk: Conversation, options: argparse.Namespace) -> None:
        self._answer = TextAnswer()
        self._sitting = Sitting(launch, talk, options, self._answer.tell)
        self.launch = launch
        self.options = options
        self._next = ""

    @property
    def talk(self) -> Conversation:
        return self._sitting.talk

    def loop(self) -> int:
        """Until the person leaves; returns the exit code."""
        if not self._claimed():
            return 0
        go_on = self._offered()
        if go_on is None:
            return 0
        self._sitting.name()
        choice = self._sitting.choice()
        if choice.endpoint is None:
            say(str(no_key()))
        else:
            self._say_open()
            say(f"{choice.provider}/{choice.model}; /help lists the commands, Ctrl-D leaves.")
        try:
            if go_on:
                self._turn(go_on)
            while (line := self._read()) is not None:
                if not line.strip():
                    continue
                if line.startswith("/") and not self._command(line):
                    break
                if not line.startswith("/"):
                    self._turn(line)
        finally:
            self._leave()
        return 0

    def _say_open(self) -> None:
        """What is open, so that nobody speaks into the wrong conversation."""
        said = [node for node in self.talk.path if node.view.decides]
        if said:
            last = one_line(said[-1].view.spoken())[:70]
            since = age(said[-1].stamp, now_ms())
            say(f"{len(said)} messages, the last one ({since}): {last}")

    def _claimed(self) -> bool:
        """Become the writer, or let the person choose what to do about the one there is."""
        held = self.talk.claim(now_ms(), force=self.options.take_over)
        while held is not None:
            since = age(held.since, now_ms())
            say(
                f"Process {held.process.pid} on {one_line(held.process.host)} has been writing this session ({since})."
            )
            reply = self._ask("[r]ead only, go on in a [f]ork, [t]ake over, or Enter to leave: ")
            if reply == "t":
                held = self.talk.claim(now_ms(), force=True)
            elif reply == "f":
                self._sitting.replace(self._forked())
                held = self.talk.claim(now_ms())
            else:
                if reply == "r":
                    self._show()
                return False
        return True

    def _forked(self) -> Conversation:
        if not self.talk.saved:
            return fresh(self.launch.store, here(), now_ms())
        return opening.resume(self.launch.store, self.talk.key, here(), now_ms(), fork=True)

    def _offered(self) -> str | None:
        """Offer the turn a kill interrupted: its prompt to go on with, or empty (A1); None to leave."""
        for turn in interrupted(self.talk, self.options):
            since = age(turn.begun.at, now_ms())
            say(f"This turn was interrupted {'just now' if since == 'now' else since + ' ago'}:")
            say(f"  {safe(turn.begun.prompt)}")
            match self._ask("[g]o on with it, [d]rop it, or Enter to leave it for later: "):
                case "g":
                    self._sitting.replace(opening.again(self.launch.store, turn, here(), now_ms()))
                    return turn.begun.prompt if self._claimed() else None
                case "d":
                    self.launch.store.drop(turn.turn)
                    self._next = turn.begun.prompt
        return ""

    def _turn(self, prompt: str) -> None:
        """One turn; what fails is said and the prompt comes back editable."""
        try:
            turn = self._sitting.turn(prompt)
        except KeyboardInterrupt:
            self._answer.broken()
            say("Cancelled; nothing was saved.")
            # The person ended the turn and has the prompt back, so no later open offers it again.
            self.talk.roll_back()
            self._next = prompt
        except AtomicError as error:
            self._answer.broken()
            say(f"atomic: {error}")
            self._next = prompt
        else:
            self._answer.closed(self.talk, turn)

    def _read(self) -> str | None:
        """The next line; None at its end. The prompt goes to stderr, so that stdout is answers only."""
        import readline  # brings line editing and history to input()

        # A pasted stack trace is one prompt, not one for each of its lines.
        readline.parse_and_bind("set enable-bracketed-paste on")
        text, self._next = self._next, ""
        if text:
            # A prompt of several lines cannot be edited on one; it is shown and sent as one line.
            readline.set_startup_hook(lambda: readline.insert_text(" ".join(text.split("\n"))))
        try:
            return input("> ")
        except EOFError:
            say("")
            return None
        except KeyboardInterrupt:
            say("")
            return ""
        finally:
            readline.set_startup_hook(None)

    @staticmethod
    def _ask(question: str) -> str:
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower()[:1]

    def _command(self, line: str) -> bool:
        """Do what a line with a slash says; False to leave."""
        name, _, rest = line[1:].partition(" ")
        rest = rest.strip()
        try:
            match name:
                case "quit" | "exit" | "q":
                    return False
                case "session":
                    self._say_session()
                case "name":
                    self._name(rest)
                case "model" | "provider" | "effort":
                    self._pick(name, rest)
                case "new":
                    self._say_way_back()
                    self._sitting.begin_anew()
                case "show":
                    self._show()
                case "help":
                    say(HELP)
                case _:
                    say(f"There is no command /{one_line(name)[:20]}.")
                    say(HELP)
        except AtomicError as error:
            say(f"atomic: {error}")
        return True

    def _pick(self, what: str, value: str) -> None:
        if value:
            self._sitting.pick(what, value)
            return
        choice = self._sitting.choice()
        say(f"{choice.provider}/{choice.model}" + (f", effort {choice.effort}" if choice.effort else ""))

    def _name(self, name: str) -> None:
        if not name:
            say("Say it like this: /name TEXT")
            return
        self.talk.rename(name, now_ms())

    def _say_session(self) -> None:
        talk = self.talk
        place = (
            "not saved"
            if not self.launch.keeps
            else "saved with its first answer"
            if not talk.saved
            else "saved"
        )
        said = sum(node.view.decides for node in talk.path)
        say(f"{talk.facts.id} ({place}), {said} messages in the context, {one_line(talk.facts.cwd)}")

    def _show(self) -> None:
        from atomic_agent.cli.show import transcript
        from atomic_agent.turns.history import History

        for line in transcript(History(self.talk.path, [], self.talk.beside, Settings())):
            print(line)

    def _leave(self) -> None:
        """Save what is to be saved, and say how to come back."""
        self._sitting.leave()
        self._say_way_back()

    def _say_way_back(self) -> None:
        if not self.talk.saved or not self.launch.keeps:
            return
        back = self.launch.way_back(self.talk.facts.id)
        if back is not None:
            say(f"Come back with: {back}")
        else:
            say(f"Come back with the same store chosen, and: --session {quoted(self.talk.facts.id)}")
