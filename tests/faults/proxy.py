"""A TCP proxy in front of a service that breaks the line where a test says so."""

import asyncio
import threading
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Kind = Literal[
    "delay",
    "cut_before",
    "cut_after",
    "cut_request",
    "cut_reply",
    "half_close",
    "silence",
    "duplicate",
    "foreign",
]
DELAY_SECONDS = 0.05


class Fault(Struct, frozen=True):
    """What happens to one request.

    delay: late, both ways. cut_before: never forwarded. cut_after: served, the reply is lost.
    cut_request: half of it is forwarded. cut_reply: half of the reply arrives. half_close: half of the
    reply, then the sending side ends while the receiving side stays open. silence: no reply ever.
    duplicate: the service gets it twice, the second reply is passed on. foreign: `reply` instead.
    """

    kind: Kind
    reply: bytes = b""


Plan = Callable[[str, int], Fault | None]


def no_fault(_line: str, _number: int) -> None:
    """All goes well."""


def at_request(number: int, fault: Fault) -> Plan:
    """The fault hits the n-th request since `clear`."""
    return lambda _, at: fault if at == number else None


def at_line(part: str, fault: Fault) -> Plan:
    """The fault hits each request whose line holds this."""
    return lambda line, _: fault if part in line else None


class FaultProxy:
    """Listens on loopback. `plan` is asked for each request: its line ("POST /v1/push") and its number."""

    def __init__(self, port: int = 0) -> None:
        self.plan: Plan = no_fault
        self.seen: list[str] = []
        self.upstream = 0
        self.lag = 0.0
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        def stop() -> None:
            self._server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.05, self._loop.stop)

        self._loop.call_soon_threadsafe(stop)
        self._thread.join(10)
        self._loop.close()

    def clear(self) -> None:
        """No more faults, and the count of requests begins anew."""
        self.plan, self.seen, self.lag = no_fault, [], 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._request(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        method, path, _ = head.split(b" ", 2)
        line = f"{method.decode()} {path.decode().split('?')[0]}"
        self.seen.append(line)
        fault = self.plan(line, len(self.seen))
        kind = fault.kind if fault is not None else ""
        if kind == "cut_before":
            return
        if kind == "foreign" and fault is not None:
            writer.write(fault.reply)
            await writer.drain()
            return
        if kind == "silence":
            await reader.read()
            return
        # One request a connection, so that a reply ends where the service closes.
        request = head[:-4] + b"\r\nconnection: close\r\n\r\n" + body
        if kind == "delay" or self.lag:
            await asyncio.sleep(self.lag or DELAY_SECONDS)
        if kind == "cut_request":
            await self._half(request)
            return
        if line == "GET /v1/live":
            await self._stream(request, writer)
            return
        if kind == "duplicate":
            await self._ask(request)
        reply = await self._ask(request)
        if kind == "cut_after":
            return
        if kind in {"cut_reply", "half_close"}:
            reply = reply[: len(reply) // 2]
        if kind == "delay" or self.lag:
            await asyncio.sleep(self.lag or DELAY_SECONDS)
        writer.write(reply)
        await writer.drain()
        if kind == "half_close":
            writer.write_eof()
            await reader.read()

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        writer.write(request)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def _half(self, request: bytes) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        writer.write(request[: len(request) // 2])
        await writer.drain()
        writer.close()

    async def _stream(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        reader, up = await asyncio.open_connection("127.0.0.1", self.upstream)
        up.write(request)
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        finally:
            up.close()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0
