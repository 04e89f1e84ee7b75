"""A small model provider on this machine, for the demo and the tests: OpenAI chat completions and
Anthropic messages, streaming and not. Answers on loopback only and never thinks.

The default answer tells what history came: "Answer 3: 2 user, 1 assistant, 0 tool; you said: PROMPT".
A prompt can hold directives: [[say: TEXT]], [[think: TEXT]], [[slow: SECONDS]] before each chunk,
[[hang]] after the first chunk, [[cut]] after the first chunk, [[status: CODE]], [[html]].

    python -m atomic_agent.demo.provider --port 0 --port-file F
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from atomic_agent.demo.spoken import Asked, say_anthropic, say_chat, whole_anthropic, whole_chat


class DemoProvider:
    """The server, in a thread of its own. `refuse` holds status codes for the next requests, each used
    once; `retry_after` goes with them. `hanging` is set when an answer has stopped in its middle; with
    `released` set nothing hangs or is slow any more."""

    def __init__(self, port: int = 0, *, keys: tuple[str, ...] = ()) -> None:
        self.requests: list[Asked] = []
        self.refuse: list[int] = []
        self.retry_after = ""
        self.keys = keys
        self.hanging = threading.Event()
        self.released = threading.Event()
        self._lock = threading.Lock()
        provider = self

        class Handler(_Handler):
            owner = provider

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[Asked, int]:
        """Keep a request; with the status it is answered with."""
        with self._lock:
            asked = Asked(len(self.requests) + 1, path, headers, body)
            self.requests.append(asked)
            status = self.refuse.pop(0) if self.refuse else int(asked.directives.get("status", "200"))
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        return asked, 401 if self.keys and key not in self.keys else status

    def start(self) -> Self:
        self._thread.start()
        return self

    def wait(self) -> None:
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: DemoProvider

    def log_message(self, *_: object) -> None:
        """Say nothing: requests hold prompts and keys."""

    def do_POST(self) -> None:
        """Answer one request."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        if not path.endswith(("/chat/completions", "/messages")):
            self._send(404, {"error": {"message": "no such path", "type": "not_found_error"}})
            return
        asked, status = self.owner.take(path, headers, json.loads(raw))
        if status != 200:
            # Providers do quote the prompt and the key in their messages; nobody may repeat them.
            said = f"refused: {asked.prompt} {headers}"
            self._send(status, {"error": {"message": said, "type": _KINDS.get(status, "api_error")}})
        elif "html" in asked.directives:
            self._write(200, "text/html", b"<html><body>Welcome to the proxy</body></html>")
        elif asked.body.get("stream"):
            self._stream(asked)
        else:
            self._send(200, whole_anthropic(asked) if asked.anthropic else whole_chat(asked))

    def _send(self, status: int, value: dict[str, Any]) -> None:
        self._write(status, "application/json", json.dumps(value).encode())

    def _write(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        if status != 200 and self.owner.retry_after:
            self.send_header("retry-after", self.owner.retry_after)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, asked: Asked) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        orders = asked.directives
        spoken = False
        try:
            for event in say_anthropic(asked) if asked.anthropic else say_chat(asked):
                if event is None:
                    if "slow" in orders:
                        self.owner.released.wait(float(orders["slow"]))
                    if spoken and "cut" in orders:
                        return
                    if spoken and "hang" in orders and not self.owner.released.is_set():
                        self.owner.hanging.set()
                        self.owner.released.wait()
                        return
                    spoken = True
                    continue
                self.wfile.write(event)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            return


_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="a small local model provider")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path, help="write the port here once it answers")
    options = parser.parse_args()
    provider = DemoProvider(options.port).start()
    if options.port_file is not None:
        temp = options.port_file.with_suffix(".part")
        temp.write_text(f"{provider.port}\n")
        temp.replace(options.port_file)
    print(f"ready {provider.openai_url}", flush=True)
    provider.wait()


if __name__ == "__main__":
    main()
