"""Ctrl-C is Ctrl-C, whatever a library makes of it."""

import os
import signal
from collections.abc import Iterator

import pytest

from atomic_agent import interrupts
from atomic_agent.stores.memory import MemoryStore
from atomic_agent.turns import opening
from atomic_agent.turns.choice import Choice
from atomic_agent.turns.engine import Engine
from atomic_agent.turns.providers.port import Endpoint, Event, Request


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    interrupts.install()
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("pressed", [True, False])
def test_an_interrupt_that_a_library_turned_into_its_own_error(*, pressed: bool) -> None:
    """It ends the turn as a cancelled one; the same error without Ctrl-C stays what it is."""

    def stream(_: Request) -> Iterator[Event]:
        try:
            if pressed:
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass
        raise ValueError("a model could not be built")
        yield

    talk = opening.fresh(MemoryStore(), "/p", 1_796_000_000_000)
    engine = Engine(talk, clock=lambda: 1_796_000_000_000, tell=lambda _: None, patient=False, stream=stream)
    choice = Choice("openai", "m", "", Endpoint("openai", "openai-chat", "", "", "", ""))
    with pytest.raises(KeyboardInterrupt if pressed else ValueError):
        engine.run(choice, "hello")
