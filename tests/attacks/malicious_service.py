"""A malicious service: a proxy before a real one that tells one lie at a time.

`python -m attacks.malicious_service UPSTREAM` prints `ready URL`. `POST /-/lie` with JSON {"path", "how", …}
sets the lie told to requests whose path begins so (`{}`: none; with "newcomers" only to those that come with a
token for the first time), `GET /-/seen` lists what was asked.
"""

import json
import re
import sys
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from atomic_sessions import wire
from attacks import lies

OURS = {wire.API_HEADER: wire.API_VERSION, "Content-Type": wire.CONTENT_TYPE}
HTML = b"<html>Please log in to the hotel</html>"
PIECE = bytes(64 * 1024)
KEPT = ("content-type", "atomic-api", "cache-control", "retry-after")


class Service(ThreadingHTTPServer):
    """The proxy and what it remembers."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.http = httpx.Client(base_url=upstream, timeout=30, trust_env=False)
        self.lie: dict[str, Any] = {}  # JSON
        self.memory: lies.Memory = {}
        self.tokens: set[str] = set()
        self.known: set[str] = set()
        self.seen: list[dict[str, Any]] = []  # JSON
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """One request: asked on, and answered with the truth or the lie."""

    server: Service

    def log_message(self, *_: object) -> None:
        """Tests ask /-/seen."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/-/"):
            self._control(body)
            return
        with self.server.lock:
            lie = self.server.lie
            told = bool(lie) and re.match(lie["path"], self.path) is not None
            token = self.headers.get("Authorization", "")
            self.server.tokens.add(token)
            if lie.get("newcomers") and token in self.server.known:
                told = False
            self.server.seen.append(
                {
                    "method": self.command,
                    "path": self.path,
                    "headers": {k.lower(): v for k, v in self.headers.items()},
                    "told": told,
                }
            )
        if told and lie["how"] in WHOLE:
            WHOLE[lie["how"]](self, lie)
            return
        reply = self.server.http.request(
            self.command,
            self.path,
            content=body,
            headers={k: v for k, v in self.headers.items() if k.lower() not in {"host", "connection"}},
        )
        if self.path == "/v1/push" and reply.status_code == 200:
            with self.server.lock:
                lies.remember(body, self.server.memory)
        content = reply.content
        if told and reply.status_code == 200:
            content = self._falsified(content, lie)
        headers = reply.headers if self.path.startswith("/s/") else {}
        self._send(
            reply.status_code,
            content,
            {
                k: v
                for k, v in reply.headers.items()
                if k in KEPT or (k in headers and k not in {"content-length", "connection", "date", "server"})
            },
        )

    do_GET = do_POST = do_DELETE = do_PUT = do_HEAD = _answer

    def _falsified(self, content: bytes, lie: dict[str, Any]) -> bytes:  # JSON
        if self.path.startswith("/v1/ledger"):
            return lies.false_ledger(content, lie)
        if self.path.startswith("/v1/mailbox/"):
            return lies.false_mailbox(content, lie)
        return lies.false_pull(content, lie, self.server.memory)

    def _control(self, body: bytes) -> None:
        with self.server.lock:
            if self.path == "/-/lie":
                self.server.lie = json.loads(body)
                self.server.known = set(self.server.tokens)
            self._send(200, json.dumps(self.server.seen).encode(), {})
            if self.path == "/-/lie":
                self.server.seen = []

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self._write(body)

    def _write(self, *pieces: bytes) -> bool:
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except OSError:
            return False  # the other side has had enough
        return True

    # --- replies that have nothing to do with the question

    def html(self, lie: dict[str, Any]) -> None:  # JSON
        self._send(lie.get("status", 200), HTML, {"Content-Type": "text/html"})

    def empty(self, lie: dict[str, Any]) -> None:  # JSON
        self._send(lie.get("status", 200), b"", OURS if lie.get("ours") else {})

    def redirect(self, lie: dict[str, Any]) -> None:  # JSON
        self._send(lie["status"], b"", {**OURS, "Location": lie["to"]})

    def body(self, lie: dict[str, Any]) -> None:  # JSON
        """Any bytes, `repeat` times, as a reply of ours."""
        self._send(
            200, bytes.fromhex(lie["start"]) + bytes.fromhex(lie.get("part", "")) * lie["repeat"], OURS
        )

    def problem(self, lie: dict[str, Any]) -> None:  # JSON
        told = json.dumps(lie["problem"]).encode()
        self._send(lie["problem"]["status"], told, {**OURS, "Content-Type": wire.PROBLEM_TYPE})

    def huge(self, _: dict[str, Any]) -> None:  # JSON
        """A length of a terabyte, and bytes for as long as somebody reads."""
        self.send_response(200)
        for name, value in {**OURS, "Content-Length": str(10**12)}.items():
            self.send_header(name, value)
        self.end_headers()
        while self._write(PIECE):
            pass

    def endless(self, _: dict[str, Any]) -> None:  # JSON
        """No length at all, and no end."""
        self.send_response(200)
        for name, value in {**OURS, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        while self._write(b"%x\r\n" % len(PIECE), PIECE, b"\r\n"):
            pass

    def packed(self, _: dict[str, Any]) -> None:  # JSON
        """A body that was asked for as it is, and is packed: 250 KB that unpack to 256 MB."""
        packer = zlib.compressobj(level=1, wbits=31)
        pieces = [packer.compress(bytes(1024 * 1024)) for _ in range(256)]
        self._send(200, b"".join([*pieces, packer.flush()]), {**OURS, "Content-Encoding": "gzip"})


WHOLE: dict[str, Callable[[Handler, dict[str, Any]], None]] = {  # JSON
    one.__name__: one
    for one in (
        Handler.html,
        Handler.empty,
        Handler.redirect,
        Handler.body,
        Handler.problem,
        Handler.huge,
        Handler.endless,
        Handler.packed,
    )
}


def main() -> None:
    server = Service(sys.argv[1])
    print(f"ready http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
