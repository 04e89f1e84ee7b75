"""One turn: prompt, request, answer, entry. The order of the steps is the save policy (A1, A7).

Keeps the prompt before it is sent and the answer before it is entered. Prints nothing; what happens is
told to `tell`. A failed turn raises and leaves nothing in the session.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from atomic_agent import interrupts
from atomic_agent.turns.choice import PROVIDERS, Choice
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.providers.port import Done, Event, Notice, Request, Stream, opened
from atomic_sessions import compose, context
from atomic_sessions.entry import Text, Usage
from atomic_sessions.errors import ProviderError, StoreWriteError

Tell = Callable[[Event], None]
Clock = Callable[[], int]

NOT_SAVED = "The conversation goes on in memory and is saved with the next turn that the disk takes."


class Turn(Struct, frozen=True):
    """A completed turn: its answer and the id of the answer's entry."""

    text: str
    entry: str
    provider: str
    model: str
    usage: Usage
    stop: str

    def __repr__(self) -> str:
        return f"<Turn {self.entry}>"


class Engine:
    """Makes turns in one conversation. `patient` goes on in memory when the disk refuses, and says so once;
    otherwise the refusal is raised, after the answer was told."""

    def __init__(
        self, talk: Conversation, *, clock: Clock, tell: Tell, patient: bool, stream: Stream | None = None
    ) -> None:
        self.talk = talk
        self._clock = clock
        self._tell = tell
        self._patient = patient
        self._stream = stream
        self._said = False

    def run(self, choice: Choice, prompt: str, tools: Sequence[str] | None = None) -> Turn:
        """Make one turn; `tools` is the set to write down with it, None leaves what the session says. Raises
        ProviderError, StoreWriteError, KeyboardInterrupt with nothing entered."""
        if choice.endpoint is None:
            raise no_key()
        talk, now = self.talk, self._clock()
        draft = talk.draft(now)
        if (choice.provider, choice.model) != (talk.settings.provider, talk.settings.model):
            draft.add(lambda i, p, at: compose.model_change(i, p, at, choice.provider, choice.model))
        if choice.effort and choice.effort != talk.settings.effort:
            draft.add(lambda i, p, at: compose.thinking_level_change(i, p, at, choice.effort))
        if tools is not None and tuple(tools) != talk.settings.tools:
            draft.add(lambda i, p, at: compose.active_tools_change(i, p, at, tools))
        if name := talk.new_name:
            draft.add(lambda i, p, at: compose.session_info(i, p, at, name))
        draft.add(lambda i, p, at: compose.message(i, p, at, compose.user(at, [Text(prompt)])))
        self._on_disk(lambda: talk.begin(draft, prompt, now))
        history = context.build(talk.path, talk.beside, prompt, provider=choice.provider)
        done = self._ask(Request(choice.endpoint, choice.model, choice.effort, tuple(history)))
        after = self._clock()
        answer = draft.add(
            lambda i, p, at: compose.message(
                i,
                p,
                at,
                compose.assistant(
                    at,
                    done.blocks,
                    provider=choice.provider,
                    model=choice.model,
                    usage=done.usage,
                    stop=done.stop,
                    response_id=done.response_id,
                    answered_by=done.model,
                ),
            ),
            after,
        )
        self._on_disk(lambda: talk.answered(answer))
        self._on_disk(lambda: talk.complete(draft))
        self._said = talk.owes
        text = "".join(block.text for block in done.blocks if isinstance(block, Text))
        return Turn(text, answer.id, choice.provider, choice.model, done.usage, done.stop)

    def _ask(self, request: Request) -> Done:
        interrupts.take()
        try:
            stream = self._stream or opened(request.endpoint.protocol)
            for event in stream(request):
                self._tell(event)
                if isinstance(event, Done):
                    return event
        except Exception:
            if interrupts.take():
                raise KeyboardInterrupt from None
            raise
        raise ProviderError(f"{request.endpoint.provider} gave no answer.", "Send the prompt again.")

    def _on_disk(self, step: Callable[[], None]) -> None:
        try:
            step()
        except StoreWriteError as error:
            if not self._patient:
                raise
            if not self._said:
                self._said = True
                self._tell(Notice(f"{error.message} {NOT_SAVED}"))


def no_key() -> ProviderError:
    """There is nobody to ask."""
    names = ", ".join(provider.key_name for provider in PROVIDERS.values())
    return ProviderError(
        "No provider has a key here.", f"Set one of {names}, or: atomic keys set {'|'.join(PROVIDERS)}"
    )
