"""`atomic --mode rpc`: a program drives a conversation, one JSON object a line each way (docs/rpc.md).

Requests come on standard input and are answered in their order, but for `abort`, which ends the turn under way.
Counts as interactive: it goes on in memory when a disk refuses, and what a kill interrupted can be taken up.
"""

import argparse
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from atomic_agent.cli.selection import busy, interrupted
from atomic_agent.cli.sitting import Sitting
from atomic_agent.cli.storage import Launch
from atomic_agent.cli.terminal import emit_json, here, now_ms
from atomic_agent.turns import copies, opening
from atomic_agent.turns.conversation import Conversation
from atomic_agent.turns.providers.port import Event, Notice, TextDelta, ThinkingDelta
from atomic_sessions.errors import AtomicError, UsageError

Request = dict[str, Any]  # JSON
Data = dict[str, Any] | None  # JSON
INTERRUPTED = 130


class Rpc:
    """One program's sitting."""

    def __init__(self, launch: Launch, talk: Conversation, options: argparse.Namespace) -> None:
        self._sitting = Sitting(launch, talk, options, _tell)
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._turning = threading.Event()
        self._do: dict[str, Callable[[Request], Data]] = {
            "prompt": self._prompt,
            "get_state": lambda _: self._state(),
            "get_messages": lambda _: self._messages(),
            "new_session": self._new,
            "switch_session": self._switch,
            "fork": self._fork,
            "get_fork_messages": lambda _: self._said(),
            "set_session_name": self._name,
            "set_model": self._pick,
            "resume_interrupted": lambda _: self._take_up(),
            "drop_interrupted": lambda _: {"prompts": self._sitting.drop_interrupted()},
        }

    def loop(self) -> int:
        """Until standard input ends; returns the exit code."""
        held = self._sitting.talk.claim(now_ms(), force=self._sitting.options.take_over)
        if held is not None:
            raise busy(held)
        self._sitting.name()
        _emit({"type": "ready", **self._state()})
        threading.Thread(target=self._read, daemon=True).start()
        try:
            while (request := self._requests.get()) is not None:
                self._answer(request)
        finally:
            self._sitting.leave()
        return 0

    def _read(self) -> None:
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict) and found.get("type") == "abort":
                self._abort(found)
            else:
                self._requests.put(found if isinstance(found, dict) else {})
        self._requests.put(None)

    def _abort(self, request: Request) -> None:
        under_way = self._turning.is_set()
        if under_way:
            os.kill(os.getpid(), signal.SIGINT)
        _respond(request, {"aborted": under_way})

    def _answer(self, request: Request) -> None:
        kind = request.get("type")
        try:
            work = self._do.get(kind) if isinstance(kind, str) else None
            if work is None:
                raise UsageError(
                    "That is no request.",
                    f"One JSON object a line, its type one of: abort, {', '.join(self._do)}.",
                )
            _respond(request, work(request))
        except AtomicError as error:
            _refuse(request, error.message, error.mend, error.exit_code)
        except KeyboardInterrupt:
            self._sitting.talk.roll_back()
            _refuse(request, "The turn was aborted; nothing was saved.", "", INTERRUPTED)

    def _prompt(self, request: Request) -> Data:
        text = _text(request, "message")
        if not text.strip():
            raise UsageError("The message is empty.", "Say something.")
        self._turning.set()
        try:
            turn = self._sitting.turn(text)
        except AtomicError:
            self._sitting.talk.roll_back()
            raise
        finally:
            self._turning.clear()
        return {
            "entry": turn.entry,
            "text": turn.text,
            "stop": turn.stop,
            "usage": msgspec.to_builtins(turn.usage),
        }

    def _state(self) -> dict[str, Any]:  # JSON
        sitting = self._sitting
        talk, choice = sitting.talk, sitting.choice()
        waiting = interrupted(talk, sitting.options)
        return {
            "session": talk.facts.id,
            "saved": talk.saved,
            "name": talk.new_name or _name_of(sitting),
            "cwd": talk.facts.cwd,
            "store": sitting.launch.store.name,
            "leaf": talk.leaf,
            "messages": sum(node.view.decides for node in talk.path),
            "provider": choice.provider,
            "model": choice.model,
            "effort": choice.effort,
            "tools": list(sitting.tools().active),
            "interrupted": [{"prompt": flight.begun.prompt, "at": flight.begun.at} for flight in waiting],
            "resume": sitting.launch.way_back(talk.facts.id) if talk.saved else None,
        }

    def _messages(self) -> Data:
        return {
            "messages": [
                {"entry": node.id, "role": node.view.role, "text": node.view.spoken()}
                for node in self._sitting.talk.path
                if node.view.decides
            ]
        }

    def _new(self, _request: Request) -> Data:
        self._sitting.begin_anew()
        return self._state()

    def _switch(self, request: Request) -> Data:
        store = self._sitting.launch.store
        row = store.find(_text(request, "session"), store.project_of(here()))
        self._go_on(opening.resume(store, row.key, here(), now_ms()))
        return self._state()

    def _fork(self, request: Request) -> Data:
        talk, store = self._saved(), self._sitting.launch.store
        row, text = copies.before(store, talk.key, _text(request, "entry"), now_ms())
        self._go_on(opening.resume(store, row.key, here(), now_ms()))
        return {**self._state(), "prompt": text}

    def _said(self) -> Data:
        talk, store = self._saved(), self._sitting.launch.store
        return {
            "messages": [
                {"entry": entry.id, "text": text}
                for entry, text in copies.messages(store, store.open(talk.key))
            ]
        }

    def _name(self, request: Request) -> Data:
        self._sitting.talk.rename(_text(request, "name"), now_ms())
        return None

    def _pick(self, request: Request) -> Data:
        for what in ("provider", "model", "effort"):
            if what in request:
                self._sitting.pick(what, _text(request, what))
        return self._state()

    def _take_up(self) -> Data:
        sitting = self._sitting
        waiting = interrupted(sitting.talk, sitting.options)
        if not waiting:
            raise UsageError("No turn was interrupted here.", "Send a prompt.")
        self._go_on(opening.again(sitting.launch.store, waiting[-1], here(), now_ms()))
        return self._prompt({"message": waiting[-1].begun.prompt})

    def _saved(self) -> Conversation:
        if not self._sitting.talk.saved:
            raise UsageError("The session has nothing in it yet.", "Send a prompt first.")
        return self._sitting.talk

    def _go_on(self, talk: Conversation) -> None:
        """Another conversation, once it is ours to write; the one before stays open otherwise."""
        if talk.key != self._sitting.talk.key:
            held = talk.claim(now_ms())
            if held is not None:
                raise busy(held)
            self._sitting.replace(talk)
            return
        self._sitting.replace(talk)
        talk.claim(now_ms())


def _name_of(sitting: Sitting) -> str:
    row = sitting.launch.store.get(sitting.talk.key) if sitting.talk.saved else None
    return row.name if row is not None else ""


def _text(request: Request, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise UsageError(f'The request needs "{name}", a text.', "See docs/rpc.md.")
    return value


def _tell(event: Event) -> None:
    match event:
        case TextDelta(text):
            _emit({"type": "delta", "text": text})
        case ThinkingDelta(text):
            _emit({"type": "thinking", "text": text})
        case Notice(text):
            _emit({"type": "notice", "text": text})
        case _:
            pass


def _respond(request: Request, data: Data) -> None:
    _emit(
        {
            "type": "response",
            "request": request.get("type"),
            "id": request.get("id"),
            "ok": True,
            "data": data,
        }
    )


def _refuse(request: Request, message: str, mend: str, code: int) -> None:
    error = {"message": message, "mend": mend, "code": code}
    _emit(
        {
            "type": "response",
            "request": request.get("type"),
            "id": request.get("id"),
            "ok": False,
            "error": error,
        }
    )


_LOCK = threading.Lock()


def _emit(value: object) -> None:
    with _LOCK:
        emit_json(value)
        sys.stdout.flush()
