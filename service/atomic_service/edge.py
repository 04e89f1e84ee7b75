"""The outermost layer: headers that every answer carries, counts, and the access log. Decides nothing.

Wraps the whole application so that the framework's own answers (404, 405, 413) are covered too. The
log holds the route's template, never a path, query, header or body.
"""

import logging
import time
import traceback
from collections.abc import Iterable
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from atomic_service.metrics import Metrics
from atomic_service.problems import encode, problem_of
from atomic_sessions.wire import API_HEADER, API_VERSION, PROBLEM_TYPE

access = logging.getLogger("atomic_service.access")
failures = logging.getLogger("atomic_service.failures")

API_HEADERS = (
    (API_HEADER.lower().encode(), API_VERSION.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
LINK_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-robots-tag", b"noindex"),
)
"""What is shared is not cached, indexed or told to other sites; a page brings a policy of its own."""
UNTIMED = {"/v1/live", "/v1/blobs/{key}"}
UNKNOWN_ROUTE = "-"


class Edge:
    """ASGI application around the ASGI application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        more, status = headers_for(scope["path"]), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with(message["headers"], more)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            self._count(scope, status, time.perf_counter() - started)

    def _count(self, scope: HTTPScope, status: int, seconds: float) -> None:
        route = scope.get("path_template") or UNKNOWN_ROUTE
        method = str(scope["method"]) if route != UNKNOWN_ROUTE else UNKNOWN_ROUTE
        self._metrics.requests.labels(method, route, str(status)).inc()
        if route not in UNTIMED:
            self._metrics.seconds.labels(route).observe(seconds)
        line = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
        access.info(msgspec.json.encode(line).decode())


def headers_for(path: str) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that every answer under a path carries, whoever made it."""
    if path == "/v1" or path.startswith("/v1/"):
        return API_HEADERS
    return LINK_HEADERS if path.startswith("/s/") else ()


def _with(
    present: Iterable[tuple[bytes, bytes]], more: Iterable[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    headers = list(present)
    names = {name.lower() for name, _ in headers}
    return headers + [(name, value) for name, value in more if name not in names]


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The one place where an exception becomes an answer."""
    problem = problem_of(error)
    if problem.status >= 500:
        _log_failure(request, error, problem.code)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if problem.retry_after is not None:
        headers["retry-after"] = str(max(1, round(problem.retry_after)))
    allow = getattr(error, "headers", None)
    if problem.status == 405 and allow:
        headers["allow"] = allow["allow"]
    return Response(encode(problem), status_code=problem.status, media_type=PROBLEM_TYPE, headers=headers)


def _log_failure(request: Request[Any, Any, Any], error: Exception, code: str) -> None:
    """Kind and place of an error. Its message stays out: Postgres quotes keys and values in there."""
    route = request.scope.get("path_template") or UNKNOWN_ROUTE
    if code == "internal":
        place = "".join(traceback.format_tb(error.__traceback__))
        failures.error("%s on %s\n%s", type(error).__name__, route, place)
    else:
        failures.warning("%s on %s answered with %s", type(error).__name__, route, code)
