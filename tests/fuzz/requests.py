"""Requests nobody would send: bodies of the wire's types, then damaged, and what a route may answer to them."""

import asyncio
import hashlib
import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from hypothesis import note
from hypothesis import strategies as st
from msgspec import inspect

from atomic_service.embedded.databases import prepare
from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_sessions import wire
from service.running import RunningService

LONGEST_SECONDS = 10.0
"""On a machine that others use; the mean is 2 ms."""
MAX_ERROR_BYTES = 2048
STEP_SECONDS = 0.05
"""What the service's clock gains with each request, so that its limits per second let all of them in."""
CODES = {str(code) for code in wire.ErrorCode}


class Target:
    """A running service, a device of it, and a check of every answer."""

    def __init__(self, service: RunningService, failures: list[logging.LogRecord]) -> None:
        self.service = service
        self.device = service.device()
        self._failures = failures
        writer = self.device.writer()
        self.sealed = [writer.seal() for _ in range(3)]
        self.device.push(*self.sealed)
        self.object = self.device.upload(b"body", "blob", writer.session)
        self.known = [
            *(self.device.account, self.device.id, writer.session, self.object, *self.sealed),
            *(writer.seal(), hashlib.sha256(self.sealed[0]).digest(), secrets.token_bytes(16)),
            *(
                self.device.genesis().body,
                self.device.genesis().signature,
                bytes(16),
                bytes(32),
                bytes(64),
                b"",
            ),
        ]

    def ask(
        self, method: str, path: str, *, body: bytes | None = None, caller: bool, **arguments: Any
    ) -> httpx.Response:
        """Send one request and hold its answer against what any answer must be."""
        self.service.clock.forward(seconds=STEP_SECONDS)
        headers = httpx.Headers(arguments.pop("headers", {}))
        if caller:
            headers["authorization"] = f"Bearer {self.device.token}"
        note(f"{method} {path} {arguments} {headers.get('content-type')} {body!r:.300}")
        begun = time.monotonic()
        with self.device.http.stream(method, path, content=body, headers=headers, **arguments) as reply:
            live = reply.headers.get("content-type", "").startswith("text/event-stream")
            if not live:  # a stream of pokes has no end
                reply.read()
        assert time.monotonic() - begun < LONGEST_SECONDS
        self._check(reply, live=live)
        return reply

    def _check(self, reply: httpx.Response, *, live: bool) -> None:
        assert not self._failures, self._failures[0].getMessage()
        assert reply.status_code < 500 or reply.status_code == wire.STATUS[wire.ErrorCode.OVER_QUOTA]
        assert reply.status_code != wire.STATUS[wire.ErrorCode.SLOW_DOWN], "the limits hide the routes"
        if live:
            return
        assert len(reply.content) <= (
            MAX_ERROR_BYTES if reply.status_code >= 400 else wire.MAX_PULL_BYTES + wire.MAX_EVENT_BYTES
        )
        path = reply.request.url.raw_path
        if reply.request.method == "HEAD" or not path.startswith(b"/v1/"):
            return
        assert reply.headers[wire.API_HEADER] == wire.API_VERSION
        if reply.status_code >= 400:
            assert reply.headers["content-type"] == wire.PROBLEM_TYPE
            problem = msgspec.json.decode(reply.content, type=wire.Problem)
            assert problem.status == reply.status_code
            assert problem.code in CODES


class Watch(logging.Handler):
    """Keeps what was logged as an error."""

    def __init__(self, failures: list[logging.LogRecord]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        self._failures.append(record)


@contextmanager
def running_target() -> Iterator[Target]:
    """A service of its own with a log of what it did not expect."""
    failures: list[logging.LogRecord] = []
    watch = Watch(failures)
    logger = logging.getLogger("atomic_service.failures")
    logger.addHandler(watch)
    folder = Path(tempfile.mkdtemp(prefix="atomic-test-"))
    postgres = EmbeddedPostgres(folder, durable=False)
    postgres.start()
    try:
        asyncio.run(prepare(postgres, "atomic"))
        service = RunningService(postgres, "atomic", folder / "blobs").start()
        try:
            yield Target(service, failures)
        finally:
            service.stop()
    finally:
        logger.removeHandler(watch)
        postgres.stop()
        shutil.rmtree(folder)


# --- bodies -----------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from([-1, 0, 1, 4, 1 << 31, (1 << 63) - 1, 1 << 63])
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | st.text(max_size=20) | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.integers(-5, 5), inner, max_size=4)
    ),
    max_leaves=6,
)


def structure(kind: inspect.Type, known: list[bytes]) -> st.SearchStrategy[Any]:
    """Builtins that decode as a type of the wire; bytes are often some that the service knows."""
    match kind:
        case inspect.BytesType():
            return st.sampled_from(known) | st.binary(max_size=80)
        case inspect.IntType():
            return NUMBERS
        case inspect.StrType():
            return st.text(max_size=30)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.ListType(item_type=item):
            return st.lists(structure(item, known), max_size=4)
        case inspect.UnionType(types=types):
            return st.one_of([structure(one, known) for one in types])
        case inspect.StructType(fields=fields):
            return st.fixed_dictionaries(
                {field.encode_name: structure(field.type, known) for field in fields}
            )
    raise AssertionError(f"the wire has a new type: {kind}")


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[Any]) -> bytes:
    """msgpack of a valid body after at most one wound to its structure and three to its bytes."""
    value = draw(whole)
    wound = draw(st.sampled_from(["none", "replace", "remove", "add", "all"]))
    if wound == "all":
        value = draw(ANYTHING)
    elif wound != "none" and isinstance(value, dict):
        name = draw(st.sampled_from(sorted(value)))
        if wound == "remove":
            del value[name]
        else:
            value[name if wound == "replace" else draw(st.text(max_size=5))] = draw(ANYTHING)
    raw = bytearray(msgspec.msgpack.encode(value))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        place = draw(st.integers(0, len(raw)))
        how = draw(st.sampled_from(["cut", "flip", "insert", "deep"]))
        if how == "cut":
            del raw[place:]
        elif how == "insert":
            raw[place:place] = draw(st.binary(min_size=1, max_size=5))
        elif how == "deep":  # an array in an array, many times
            raw[place:place] = b"\x91" * draw(st.sampled_from([50, 2000, 100_000]))
        elif place < len(raw):
            raw[place] ^= 1 << draw(st.integers(0, 7))
    return bytes(raw)
