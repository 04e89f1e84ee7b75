"""A small model provider on this machine, for the demo and the tests: OpenAI chat completions and
Anthropic messages, streaming and not. Answers on loopback only and never thinks.

The default answer tells what history came: "Answer 3: 2 user, 1 assistant, 0 tool; you said: PROMPT".
A prompt can hold directives: [[say: TEXT]], [[think: TEXT]], [[slow: SECONDS]] before each chunk,
[[hang]] after the first chunk, [[cut]] after the first chunk, [[status: CODE]], [[html]].

    python -m atomic_agent.demo.provider --port 0 --port-file F
"""

import argparse
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DIRECTIVE = re.compile(r"\[\[\s*(say|think|slow|hang|cut|status|html)\s*(?::\s*(.*?))?\s*\]\]", re.DOTALL)
CHUNKS = 4
SIGNATURE = "demo-signature"


class Asked:
    """One request as it came: headers in lower case, `counts` of (user, assistant, tool) messages."""

    def __init__(self, number: int, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        self.number = number
        self.path = path
        self.headers = headers
        self.body = body
        self.anthropic = path.endswith("/messages")
        self.counts, self.prompt = self._read()

    def _read(self) -> tuple[tuple[int, int, int], str]:
        user = assistant = tool = 0
        prompt = ""
        for message in self.body.get("messages", []):
            content = message.get("content") or []
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            results = sum(part.get("type") == "tool_result" for part in parts)
            tool += results + (message["role"] == "tool")
            assistant += message["role"] == "assistant"
            texts = [part["text"] for part in parts if part.get("type") == "text"]
            if message["role"] == "user" and (texts or not results):
                user += 1
                prompt = texts[-1] if texts else ""
        return (user, assistant, tool), prompt

    @property
    def directives(self) -> dict[str, str]:
        return dict(DIRECTIVE.findall(self.prompt))

    def answer(self) -> str:
        """What the model says."""
        if said := self.directives.get("say"):
            return said
        user, assistant, tool = self.counts
        plain = " ".join(DIRECTIVE.sub("", self.prompt).split())
        return (
            f"Answer {self.number}: {user} user, {assistant} assistant, {tool} tool; you said: {plain[:200]}"
        )


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
            self._send(200, _whole_anthropic(asked) if asked.anthropic else _whole_chat(asked))

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
            for event in _say_anthropic(asked) if asked.anthropic else _say_chat(asked):
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


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // CHUNKS))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(value: dict[str, Any], kind: str = "") -> bytes:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


# Each yields events, and None before each chunk of the text.


def _say_chat(asked: Asked) -> Iterator[bytes | None]:
    frame = {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": asked.body["model"],
    }

    def delta(value: dict[str, Any], finish: str | None = None) -> bytes:
        return _event({**frame, "choices": [{"index": 0, "delta": value, "finish_reason": finish}]})

    yield delta({"role": "assistant", "content": ""})
    if thought := asked.directives.get("think"):
        yield delta({"reasoning_content": thought})
    for piece in _pieces(asked.answer()):
        yield None
        yield delta({"content": piece})
    yield None
    yield delta({}, "stop")
    yield _event({**frame, "choices": [], "usage": _chat_usage(asked)})
    yield b"data: [DONE]\n\n"


def _chat_usage(asked: Asked) -> dict[str, int]:
    return {"prompt_tokens": 100 + asked.number, "completion_tokens": 10, "total_tokens": 110 + asked.number}


def _whole_chat(asked: Asked) -> dict[str, Any]:
    message = {"role": "assistant", "content": asked.answer()}
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _chat_usage(asked),
    }


def _whole_anthropic(asked: Asked) -> dict[str, Any]:
    thought = asked.directives.get("think")
    blocks = [{"type": "thinking", "thinking": thought, "signature": SIGNATURE}] if thought else []
    return {
        "id": f"msg_{asked.number}",
        "type": "message",
        "role": "assistant",
        "model": asked.body["model"],
        "content": [*blocks, {"type": "text", "text": asked.answer()}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100 + asked.number, "output_tokens": 10},
    }


def _say_anthropic(asked: Asked) -> Iterator[bytes | None]:
    def event(kind: str, **fields: object) -> bytes:
        return _event({"type": kind, **fields}, kind)

    whole = _whole_anthropic(asked)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "thinking":
            yield event(
                "content_block_start", index=index, content_block={**block, "thinking": "", "signature": ""}
            )
            yield event(
                "content_block_delta",
                index=index,
                delta={"type": "thinking_delta", "thinking": block["thinking"]},
            )
            yield event(
                "content_block_delta", index=index, delta={"type": "signature_delta", "signature": SIGNATURE}
            )
        else:
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for piece in _pieces(block["text"]):
                yield None
                yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
            yield None
        yield event("content_block_stop", index=index)
    yield event(
        "message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=whole["usage"]
    )
    yield event("message_stop")


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
