"""How an answer is printed while it comes: as text, or as one JSON object a line. Decides nothing."""

import sys
from collections.abc import Callable, Sequence

from atomic_agent.cli.terminal import emit_json, safe, say
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.engine import Turn
from atomic_agent.turns.providers.port import Event, Notice, TextDelta, ThinkingDelta

STOPS = {
    "length": "The answer ends here because it reached the model's length limit.",
    "error": "The provider stopped the answer.",
    "toolUse": "The model asked for a tool; tools are not run yet.",
}


class TextAnswer:
    """The answer on stdout as it streams; thinking is not shown."""

    def __init__(self) -> None:
        self._last = "\n"

    def opened(self, talk: Conversation, tools: Sequence[str]) -> None:
        """Nothing to say before the answer."""

    def tell(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                shown = safe(text)
                sys.stdout.write(shown)
                sys.stdout.flush()
                self._last = shown[-1:] or self._last
            case Notice(text):
                self.broken()
                say(text)
            case _:
                pass

    def broken(self) -> None:
        """End a line that was begun."""
        if self._last != "\n":
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._last = "\n"

    def closed(self, talk: Conversation, turn: Turn) -> None:
        self.broken()
        if turn.stop in STOPS:
            say(STOPS[turn.stop])
        elif not turn.text:
            say("The model answered without a word.")


class JsonAnswer:
    """Events `session`, `thinking`, `delta`, `message`, `done`, one object a line; stable. `way_back` tells the command
    that opens a session again, None when there is none (B6)."""

    def __init__(self, way_back: Callable[[str], str | None]) -> None:
        self._way_back = way_back

    def opened(self, talk: Conversation, tools: Sequence[str]) -> None:
        emit_json(
            {
                "type": "session",
                "id": talk.facts.id,
                "cwd": talk.facts.cwd,
                "project": talk.facts.project,
                "parent": talk.facts.parent,
                "new": not talk.saved,
                "tools": list(tools),
            }
        )

    def tell(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                emit_json({"type": "delta", "text": text})
            case ThinkingDelta(text):
                emit_json({"type": "thinking", "text": text})
            case Notice(text):
                say(text)
            case _:
                pass
        sys.stdout.flush()

    def broken(self) -> None:
        """The error goes to stderr and into the exit code."""

    def closed(self, talk: Conversation, turn: Turn) -> None:
        emit_json(
            {
                "type": "message",
                "role": "assistant",
                "id": turn.entry,
                "text": turn.text,
                "provider": turn.provider,
                "model": turn.model,
                "stop": turn.stop,
                "usage": turn.usage,
            }
        )
        back = self._way_back(talk.facts.id)
        emit_json({"type": "done", "session": talk.facts.id, "leaf": talk.leaf, "resume": back})
