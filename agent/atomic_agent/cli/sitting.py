"""One sitting in conversations: the store, the open one, its turns. Knows neither a terminal nor a protocol.

What the line prompt and the RPC mode have in common. Says what it has to say through `tell`.
"""

import argparse
from collections.abc import Callable

from atomic_agent.cli.selection import ToolSet, busy, chosen, fresh, interrupted, tools_of
from atomic_agent.cli.storage import Launch
from atomic_agent.cli.terminal import here, now_ms
from atomic_agent.turns import opening
from atomic_agent.turns.choice import EFFORTS, Choice, known
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.engine import Engine, Turn
from atomic_agent.turns.providers.port import Event, Notice
from atomic_sessions.context import Settings
from atomic_sessions.errors import AtomicError, UsageError


class Sitting:
    """`options` are the command line's; a pick changes them for the turns to come."""

    def __init__(
        self,
        launch: Launch,
        talk: Conversation,
        options: argparse.Namespace,
        tell: Callable[[Event], None],
    ) -> None:
        self.launch = launch
        self.talk = talk
        self.options = options
        self._tell = tell
        self._engine = self._new_engine()
        self._picked = False

    def choice(self) -> Choice:
        """The model that answers next."""
        return chosen(self.launch, self.talk, self.options)

    def tools(self) -> ToolSet:
        """The tools that are on."""
        return tools_of(self.talk, self.options)

    def turn(self, prompt: str) -> Turn:
        """One turn. Raises ProviderError, StoreWriteError, KeyboardInterrupt with nothing entered; when it returns the
        turn is saved, and its picks are."""
        self._place()
        choice = self.choice()
        turn = self._engine.run(choice, prompt, self.tools().recorded)
        self._picked = False
        self.launch.keep_picks(choice.settings)
        if self.launch.journal is not None and self.launch.syncs:
            from atomic_agent.sync.background import after_turn

            after_turn(self.launch.journal)
        return turn

    def _place(self) -> None:
        """Choose the store again before a new conversation is first saved (B6). A turn of it that failed is said
        again now, so it waits nowhere."""
        talk = self.talk
        if talk.saved or talk.unsaved or talk.source or talk.owes:
            return
        talk.roll_back()
        if not self.launch.reselect(talk.close):
            return
        store, cwd = self.launch.store, here()
        self._tell(Notice(f"This conversation is kept in {store.name}."))
        there = opening.exact(store, talk.facts.id, store.project_of(cwd))
        if there is not None:
            self.talk = opening.resume(store, there.key, cwd, now_ms())
        else:
            self.talk = fresh(store, cwd, now_ms(), talk.facts.id)
        if talk.new_name:
            self.talk.rename(talk.new_name, now_ms())
        self._engine = self._new_engine()
        self._claim()

    def begin_anew(self) -> None:
        """A new session, in the store that is chosen by now."""
        if not self.launch.reselect(self.talk.close):
            self.talk.close()
        self.talk = fresh(self.launch.store, here(), now_ms())
        self._engine = self._new_engine()
        self._claim()

    def _claim(self) -> None:
        held = self.talk.claim(now_ms())
        if held is not None:
            raise busy(held)

    def replace(self, talk: Conversation) -> None:
        """Go on in another conversation of this store, which is still to be claimed."""
        self.talk.close()
        self.talk = talk
        self._engine = self._new_engine()

    def name(self) -> None:
        """Give the session the name that the command line has for it, once it is ours."""
        if self.options.name:
            self.talk.rename(self.options.name, now_ms())
            self.options.name = None

    def drop_interrupted(self) -> list[str]:
        """Forget the turns that wait here; their prompts."""
        prompts = []
        for flight in interrupted(self.talk, self.options):
            self.launch.store.drop(flight.turn)
            prompts.append(flight.begun.prompt)
        return prompts

    def pick(self, what: str, value: str) -> None:
        """Another provider, model or effort, from the next turn on. UsageError for one nobody knows."""
        if what == "provider":
            value = known(value).name
            self.options.model = ""
        elif what == "effort" and value not in EFFORTS:
            raise UsageError(f"There is no effort '{value[:20]}'.", f"Known: {', '.join(EFFORTS)}.")
        setattr(self.options, what, value)
        self._picked = True

    def leave(self) -> None:
        """Save what a failing disk would not take, and the picks."""
        try:
            self.launch.leave(self._picks() if self._picked else None)
        finally:
            self.talk.close()
        if self.launch.journal is not None and self.launch.syncs:
            from atomic_agent.sync.background import at_exit

            at_exit(self.launch.journal)

    def _picks(self) -> Settings:
        """What was picked, whether or not its provider can be asked now."""
        try:
            return self.choice().settings
        except AtomicError:
            options = self.options
            usual = known(options.provider).model if options.provider else ""
            return Settings(options.provider, options.model or usual, options.effort)

    def _new_engine(self) -> Engine:
        return Engine(self.talk, clock=now_ms, tell=self._tell, patient=True)
