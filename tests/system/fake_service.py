"""What may answer at a service's address, and a machine that believes to be in an account there."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
from msgspec import Struct

from atomic_agent.account.device import new_device, public_kem_key, public_sign_key, statement
from atomic_agent.keys import keystore
from atomic_agent.keys.keystore import Membership, Token
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_sessions import ledger, wire
from atomic_sessions.ledger import LedgerEntry
from atomic_sessions.seal import AccountKeys

TOKEN = secrets.token_hex(16)
"""As the service's tokens look; nothing printed may hold it."""
YEAR_MS = 365 * 86_400_000


class Reply(Struct, frozen=True):
    """One answer of the server; without `api` it is not one of ours."""

    status: int = 200
    content: bytes = b""
    kind: str = wire.CONTENT_TYPE
    api: str | None = wire.API_VERSION
    more: dict[str, str] = {}


Answering = Callable[[str, str], Reply]


def problem(code: str, status: int, title: str = "It said no.") -> Reply:
    """A refusal in the service's own words."""
    told = wire.Problem(title, status, code)
    return Reply(status, msgspec.json.encode(told), wire.PROBLEM_TYPE)


def page(status: int = 200, **more: str) -> Reply:
    """What a hotel's network answers."""
    return Reply(status, b"<html>Please log in to the hotel</html>", "text/html", None, more)


class Account:
    """An account of one machine, made without a service. `entries` is its signed list of devices."""

    def __init__(self) -> None:
        self.keys = AccountKeys(secrets.token_bytes(16), 1, secrets.token_bytes(32), secrets.token_bytes(32))
        self.device = new_device("laptop")
        self.entries: list[LedgerEntry] = [
            statement(
                self.keys,
                None,
                role="device",
                device=self.device.id,
                sign_key=public_sign_key(self.device),
                kem_key=public_kem_key(self.device),
                name=self.device.name,
                by=self.device.id,
                signer=self.device.sign_key,
            )
        ]

    def join(self, home: Home, key: LocalKey, url: str, *, token_ends: int = YEAR_MS, known: int = 1) -> None:
        """Make this home a member that has seen so many entries of the list."""
        found = ledger.verify(self.entries, self.keys.account)
        mine = Membership(
            url,
            self.keys.account,
            self.device,
            1,
            self.keys.key,
            self.keys.id_key,
            found.root,
            found.head,
            known,
        )
        kept = Token(TOKEN, time.time_ns() // 1_000_000 + token_ends)
        content = keystore.load(home, key)
        changed = msgspec.structs.replace(content, membership=mine, token=kept, recovery_saved=True)
        keystore.save(home, key, changed)

    def devices(self) -> Reply:
        return Reply(content=msgspec.msgpack.encode(wire.LedgerReply(self.entries)))

    def forged(self) -> Reply:
        """The list with a bit turned."""
        entry = self.entries[0]
        signature = bytes([entry.signature[0] ^ 1]) + entry.signature[1:]
        return Reply(content=msgspec.msgpack.encode(wire.LedgerReply([LedgerEntry(entry.body, signature)])))


@contextmanager
def answering(answer: Answering) -> Iterator[str]:
    """A server on loopback; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = answer(self.command, self.path)
            self.send_response(found.status)
            if found.api is not None:
                self.send_header(wire.API_HEADER, found.api)
            for name, value in found.more.items():
                self.send_header(name, value)
            self.send_header("Content-Type", found.kind)
            self.send_header("Content-Length", str(len(found.content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(found.content)

        do_GET = do_POST = do_PUT = do_DELETE = _reply

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
