"""Ctrl-C, remembered: a library that meets it in the middle of its own work may raise something else.

pydantic, which both provider libraries build on, turns an interrupt that falls into the building of a
model into an error about that model.
"""

import signal
import threading
from types import FrameType

_pressed = threading.Event()


def install() -> None:
    """Remember each Ctrl-C from now on, and raise KeyboardInterrupt as Python does; does nothing in another thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _on_interrupt)


def _on_interrupt(_number: int, _frame: FrameType | None) -> None:
    _pressed.set()
    raise KeyboardInterrupt


def take() -> bool:
    """True when Ctrl-C was pressed since the last call."""
    pressed = _pressed.is_set()
    _pressed.clear()
    return pressed
