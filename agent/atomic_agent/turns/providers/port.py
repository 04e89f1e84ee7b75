"""The port to a model's provider: one request in, events out. Imports no client library.

An adapter yields deltas as they come and ends with one `Done`; anything else ends in ProviderError. It
tries again only before the first delta, and says so with a `Notice`.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from atomic_sessions.entry import Block, Usage
from atomic_sessions.pairing import ContextMessage

Protocol = Literal["openai-chat", "anthropic-messages"]

MAX_RETRIES = 2
MAX_RETRY_SECONDS = 20.0
CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 600.0
"""Some reasoning models say nothing for minutes before their first token."""
MAX_TOKENS = 16_000


class Endpoint(Struct, frozen=True):
    """Where a provider answers and the key it asks for. Shows the key to nobody."""

    provider: str
    protocol: Protocol
    url: str
    key: str
    key_name: str
    url_name: str

    def __repr__(self) -> str:
        return f"<Endpoint {self.provider}>"


class Request(Struct, frozen=True):
    """One question. `effort` empty leaves it to the model."""

    endpoint: Endpoint
    model: str
    effort: str
    messages: tuple[ContextMessage, ...]

    def __repr__(self) -> str:
        return f"<Request to {self.endpoint.provider}>"


class TextDelta(Struct, frozen=True):
    """The next piece of the answer."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """The next piece of shown reasoning."""

    text: str


class Notice(Struct, frozen=True):
    """A sentence for the person about what is going on."""

    text: str


class Done(Struct, frozen=True):
    """The complete answer. `stop` is one of format 4; `model` the one that really answered."""

    blocks: tuple[Block, ...]
    usage: Usage
    stop: str
    model: str
    response_id: str


Event = TextDelta | ThinkingDelta | Notice | Done
Stream = Callable[[Request], Iterator[Event]]


def opened(protocol: Protocol) -> Stream:
    """The adapter of a protocol; this is where its client library is imported."""
    if protocol == "anthropic-messages":
        from atomic_agent.turns.providers import anthropic_messages

        return anthropic_messages.stream
    from atomic_agent.turns.providers import openai_chat

    return openai_chat.stream
