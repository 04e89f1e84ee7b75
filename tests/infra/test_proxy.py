"""
The proxy's configuration: rules read off the files everywhere, behaviour where an nginx is installed.

The container's names (service, s3) and places (/etc/nginx) are moved here; every other line is as shipped.
"""

import http.client
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from atomic_sessions import wire
from infra.repository import ROOT, compose, run, text

NGINX = shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/opt/homebrew/bin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="no nginx on this machine")
ROUTES = text("infra/proxy/routes.conf")


def location(name: str) -> str:
    """The body of one location block."""
    start = ROUTES.index(f"location {name} {{")
    return ROUTES[start : ROUTES.index("\n}", start)]


def test_live_connections_are_not_buffered_and_may_be_quiet() -> None:
    """A poke leaves at once, and a night without one ends no connection early."""
    assert "proxy_buffering off;" in location("= /v1/live")
    assert "proxy_read_timeout 1h;" in location("= /v1/live")


def test_sealed_bytes_are_not_compressed() -> None:
    """gzip is off, and on for published pages only."""
    assert re.search(r"^    gzip off;", text("infra/proxy/nginx.conf"), re.MULTILINE)
    assert [
        name for name in re.findall(r"^location (.+) \{", ROUTES, re.MULTILINE) if "gzip on" in location(name)
    ] == ["/"]


def test_every_route_to_a_backend_has_a_rate_limit() -> None:
    """No way to the replicas or the S3 server without a limit per address."""
    for name in re.findall(r"^location (.+) \{", ROUTES, re.MULTILINE):
        if "proxy_pass" in location(name):
            assert "limit_req zone=" in location(name), name


def test_body_limits_let_through_what_the_wire_allows() -> None:
    """8 MiB for the replicas, more than any request; for signed uploads the size of the largest object."""
    assert re.findall(r"client_max_body_size (\d+)m;", text("infra/proxy/nginx.conf")) == ["8"]
    assert wire.MAX_BODY_BYTES <= 8 * 1024 * 1024
    assert f"client_max_body_size {wire.MAX_OBJECT_BYTES // 1024**2}m;" in location("/atomic-blobs/")
    assert ROUTES.count("client_max_body_size") == 1


def test_errors_of_the_proxy_are_codes_of_the_wire() -> None:
    """Each error document carries a known code with its own status, and the mark of our service."""
    documents = [json.loads(document) for document in re.findall(r"return \d+ '(.+)';", ROUTES)]
    assert {document["code"] for document in documents} == {
        "not_found",
        "too_large",
        "slow_down",
        "unavailable",
    }
    for document in documents:
        assert document["status"] == wire.STATUS[wire.ErrorCode(document["code"])]
        assert set(document) <= set(wire.Problem.__struct_fields__)
    assert ROUTES.count(f"add_header {wire.API_HEADER} {wire.API_VERSION} always;") == len(documents)


def test_bucket_and_port_are_those_of_compose() -> None:
    """The path of signed addresses is the bucket's name, the upstream's port the service's."""
    environment = compose()["services"]["service"]["environment"]
    assert f"location /{environment['ATOMIC_S3_BUCKET']}/ {{" in ROUTES
    assert f"server service:{environment['ATOMIC_PORT']} resolve" in text("infra/proxy/nginx.conf")


def test_only_tls_of_this_decade() -> None:
    """TLS 1.2 and 1.3, and plain http only leads to them."""
    server = text("infra/proxy/server-tls.conf")
    assert "ssl_protocols TLSv1.2 TLSv1.3;" in server
    assert "return 308 https://" in server


class Backend(BaseHTTPRequestHandler):
    """Stands for a replica and for the S3 server: says what reached it."""

    protocol_version = (
        "HTTP/1.0"  # closes after each reply, so that a backend that was shut down is really gone
    )

    def do_GET(self) -> None:
        if self.path == "/v1/live":
            self.live()
            return
        body = json.dumps({"path": self.path, "headers": dict(self.headers), "pad": "x" * 4000}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path.startswith("/s/") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def live(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: first\n\n")
        self.wfile.flush()
        self.server.release.wait(10)  # type: ignore[attr-defined]
        self.wfile.write(b"data: second\n\n")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    do_PUT = do_POST

    def log_message(self, *arguments: object) -> None:
        del arguments


class BackendServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Backend)
        self.release = Event()


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Proxy:
    folder: Path
    port: int
    backend: BackendServer

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(
                method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
            )
            reply = connection.getresponse()
            return Reply(
                reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
            )
        finally:
            connection.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def moved(name: str, folder: Path, ports: dict[str, int]) -> str:
    """One configuration file with the container's names and places replaced by this machine's."""
    content = text(f"infra/proxy/{name}")
    content = content.replace("include /etc/nginx/mime.types;", "types { text/html html; }")
    content = re.sub(r"/etc/nginx/|/tmp/", f"{folder}/", content)
    content = content.replace("/dev/stdout", f"{folder}/access.log").replace(
        "/dev/stderr", f"{folder}/error.log"
    )
    content = re.sub(
        r"server (service|s3):\d+ resolve[^;]*;", f"server 127.0.0.1:{ports['backend']} max_fails=0;", content
    )
    content = content.replace("listen 127.0.0.1:8081;", f"listen 127.0.0.1:{ports['health']};")
    content = content.replace("listen 8080 ", f"listen 127.0.0.1:{ports['http']} ")
    content = content.replace("listen 8443 ", f"listen 127.0.0.1:{ports['https']} ")
    return content.replace("http2 on;", "")  # since nginx 1.25.1; Debian 12 has 1.22


def lay_out(folder: Path, mode: str, backend: int) -> int:
    """Put the configuration into a folder; the port the proxy will listen on."""
    ports = {"backend": backend, "health": free_port(), "http": free_port(), "https": free_port()}
    for source, target in (
        (f"server-{mode}.conf", "server.conf"),
        ("nginx.conf", "nginx.conf"),
        ("routes.conf", "routes.conf"),
    ):
        (folder / target).write_text(moved(source, folder, ports))
    return ports["http"]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """The shipped configuration in a running nginx, in front of a backend that says what reached it."""
    assert NGINX is not None
    backend = BackendServer()
    Thread(target=backend.serve_forever, daemon=True).start()
    port = lay_out(tmp_path, "http", backend.server_port)
    command = [NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off; user root;"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, process.stderr.read() if process.stderr else b""
                assert time.monotonic() < until, "nginx does not listen"
        yield Proxy(tmp_path, port, backend)
    finally:
        backend.release.set()
        process.terminate()
        process.communicate(timeout=10)
        backend.shutdown()
        backend.server_close()


@needs_nginx
def test_nginx_accepts_the_configuration_with_tls(tmp_path: Path) -> None:
    """nginx -t passes with a certificate in place."""
    assert NGINX is not None
    made = run(
        *(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
        ),
        *("-subj", "/CN=localhost", "-keyout", "privkey.pem", "-out", "fullchain.pem"),
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    (tmp_path / "tls").mkdir()
    for name in ("privkey.pem", "fullchain.pem"):
        (tmp_path / name).rename(tmp_path / "tls" / name)
    lay_out(tmp_path, "tls", free_port())
    checked = run(NGINX, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"))
    assert checked.returncode == 0, checked.stderr


@needs_nginx
def test_an_event_arrives_while_the_connection_stays_open(proxy: Proxy) -> None:
    """The first event is here before the second is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    connection.request("GET", "/v1/live")
    reply = connection.getresponse()
    assert reply.readline() == b"data: first\n"
    proxy.backend.release.set()
    assert reply.read() == b"\ndata: second\n\n"
    connection.close()


@needs_nginx
def test_errors_of_the_proxy_are_problems_the_agent_can_read(proxy: Proxy) -> None:
    """Too large, not found and service down answer in the service's own shape."""
    too_large = proxy.ask("POST", "/v1/push", b"x" * (8 * 1024 * 1024 + 1))
    assert (too_large.status, json.loads(too_large.body)["code"]) == (413, "too_large")
    assert too_large.headers["content-type"] == "application/problem+json"
    assert proxy.ask("POST", "/v1/push", b"x" * 8 * 1024 * 1024).status == 200
    assert proxy.ask("GET", "/metrics").status == 404
    assert proxy.ask("GET", "/readyz").status == 404
    proxy.backend.shutdown()
    proxy.backend.server_close()
    down = proxy.ask("GET", "/v1/pull")
    assert (down.status, json.loads(down.body)["code"]) == (503, "unavailable")
    assert down.headers["retry-after"] == "5"


@needs_nginx
def test_too_many_attempts_are_slowed_down(proxy: Proxy) -> None:
    """What guesses at invites or codes soon gets 429, while other requests go on."""
    attempts = (proxy.ask("POST", "/v1/auth/token", b"{}") for _ in range(400))
    refused = next(reply for reply in attempts if reply.status == 429)
    assert json.loads(refused.body)["code"] == "slow_down"
    assert refused.headers["retry-after"] == "2"
    assert proxy.ask("GET", "/v1/pull").status == 200


@needs_nginx
def test_a_client_cannot_choose_its_address(proxy: Proxy) -> None:
    """X-Forwarded-For of a stranger is replaced by where the request came from."""
    seen = json.loads(proxy.ask("GET", "/v1/pull", X_Forwarded_For="203.0.113.9").body)["headers"]
    assert seen["X-Forwarded-For"] == "127.0.0.1"


@needs_nginx
def test_only_published_pages_are_compressed(proxy: Proxy) -> None:
    """The same size of reply is gzip under /s/ and plain under /v1/."""
    assert proxy.ask("GET", "/s/abc", Accept_Encoding="gzip").headers.get("content-encoding") == "gzip"
    assert "content-encoding" not in proxy.ask("GET", "/v1/pull", Accept_Encoding="gzip").headers


@needs_nginx
def test_blobs_need_a_signature(proxy: Proxy) -> None:
    """Unsigned requests and methods nobody signs for end here; a signed one keeps the host it was made for."""
    assert proxy.ask("GET", "/atomic-blobs/up/a").status == 403
    assert proxy.ask("DELETE", "/atomic-blobs/up/a?X-Amz-Signature=0").status == 403
    signed = proxy.ask("PUT", "/atomic-blobs/up/a%20b?X-Amz-Signature=0", b"x", Host="sessions.example.org")
    assert signed.status == 200
    seen = json.loads(signed.body)
    assert seen["headers"]["Host"] == "sessions.example.org"
    assert seen["path"] == "/atomic-blobs/up/a%20b?X-Amz-Signature=0"


@needs_nginx
def test_log_holds_nothing_that_opens_something(proxy: Proxy) -> None:
    """No share id, mailbox, blob name or query is written down."""
    planted = (
        "/s/PLANTED",
        "/v1/shares/PLANTED",
        "/v1/mailbox/PLANTED",
        "/v1/pull?cursor=PLANTED",
        "/atomic-blobs/up/PLANTED?X-Amz-Signature=PLANTED",
    )
    for path in planted:
        proxy.ask("GET", path)
    log = (proxy.folder / "access.log").read_text()
    assert log.count("\n") == 5
    assert "PLANTED" not in log
    assert (ROOT / "infra/proxy/nginx.conf").read_text().count("access_log /dev/stdout requests;") == 1
