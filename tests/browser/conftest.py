"""A real Chromium, and a server of a few lines that gives out what the service would, with its exact headers."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route

from atomic_service.shares.pages import sealed
from atomic_sessions.html.policy import share_policy
from atomic_sessions.sharing import link, new_share
from chromium import launched

SECRET = bytes(range(32))
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module."""
    with launched() as found:
        yield found


def is_ours(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "http://share.test:", "file:", "data:", "blob:"))


class Watched(NamedTuple):
    """A page, and all it asked for, said and opened. Nothing leaves the machine: other hosts are refused.

    Requests to other hosts are those that got as far as the network; what a policy blocks before that stands in
    the console.
    """

    page: Page
    requests: list[str]
    console: list[str]
    dialogs: list[str]
    opened: list[str]


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Make a page under watch; keyword arguments are those of a browser context."""
    contexts: list[BrowserContext] = []

    def make(**options: object) -> Watched:
        context = browser.new_context(**options)  # type: ignore[arg-type]  # playwright types each option by itself
        contexts.append(context)
        context.set_default_timeout(15_000)
        watched = Watched(context.new_page(), [], [], [], [])

        def refuse(route: Route) -> None:
            watched.requests.append(route.request.url)
            route.abort()

        context.on(
            "request", lambda request: watched.requests.append(request.url) if is_ours(request.url) else None
        )
        context.on("page", lambda page: watched.opened.append(page.url))
        context.route(lambda url: not is_ours(url), refuse)
        watched.page.on("console", lambda message: watched.console.append(message.text))
        watched.page.on("pageerror", lambda error: watched.console.append(str(error)))

        def dismiss(dialog: object) -> None:
            watched.dialogs.append("dialog")
            dialog.dismiss()  # type: ignore[attr-defined]  # playwright hands over a Dialog

        watched.page.on("dialog", dismiss)
        return watched

    yield make
    for context in contexts:
        context.close()


class ShareServer(ThreadingHTTPServer):
    """`/s/…` of one share: its page, its files, its payload. Set `status` for what a link that is over answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.payload = b""
        self.status = 200
        self.views: int | None = None
        self.asked: list[str] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def link(self) -> str:
        return link(self.origin, SECRET)


class _Answers(BaseHTTPRequestHandler):
    server: ShareServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        """Tests read `asked` instead."""

    def do_GET(self) -> None:
        self.server.asked.append(f"GET {self.path}")
        share = f"/s/{new_share(SECRET).id}"
        name = self.path.removeprefix("/s/assets/")
        if name in sealed.ASSETS:
            self._send(200, sealed.read(name).encode(), sealed.ASSETS[name])
        elif self.path == share:
            self._send(200, sealed.page(views=self.server.views).encode(), "text/html; charset=utf-8")
        elif self.path == f"{share}/payload" and self.server.views is None:
            self._send(self.server.status, self.server.payload, "application/octet-stream")
        else:
            self._send(404, sealed.read("notfound.html").encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        self.server.asked.append(f"POST {self.path}")
        if self.server.views:
            self.server.views -= 1
            self._send(200, self.server.payload, "application/octet-stream")
        else:
            self._send(410, b"", "text/plain")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", share_policy())
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[ShareServer]:
    server = ShareServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
