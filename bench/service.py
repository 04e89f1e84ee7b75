"""Records a second pushed through a real local service, beside bare asyncpg doing the same statements.

The bare run replays what the service's own store sends to Postgres, tables, batches and accounts the same, with
no HTTP, signature or decision in between. Clients are processes of their own with everything built beforehand.

    python -m bench.service http|bare FILE     one client; prints seconds
"""

import asyncio
import hashlib
import pickle
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import asyncpg
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from atomic_service.accounts.rules import Caller, token_hash
from atomic_service.clock import now_ms
from atomic_service.embedded.databases import running_database_url
from atomic_service.log.rules import CHAIN_SIZE, Plan, Progress, SessionState, check_events
from atomic_service.log.store import append
from atomic_sessions import envelope, wire
from bench.stage import Figure, Service, figure

if TYPE_CHECKING:
    from atomic_service.db import Connection

ACCOUNTS, BATCHES, RECORDS, BYTES = 8, 20, 100, 2048
QUOTA = 1 << 40
Statement = tuple[str, str, tuple[Any, ...]]
"""What to call on a connection, and with what."""


def service_push_ratio(root: Path, runs: int) -> Iterator[Figure]:
    """Through HTTP against bare, interleaved, on one durable Postgres; at least half is wanted."""
    service = Service(root / "service-push")
    try:
        through, bare = [], []
        for _ in range(runs):
            pushers = [Pusher() for _ in range(ACCOUNTS)]
            asyncio.run(_sign_up(running_database_url(service.data), pushers))
            count = ACCOUNTS * BATCHES * RECORDS
            through.append(count / _client(root, "http", (service.url, [one.requests() for one in pushers])))
            twins = [Pusher() for _ in range(ACCOUNTS)]
            url = running_database_url(service.data)
            asyncio.run(_sign_up(url, twins))
            bare.append(count / _client(root, "bare", (url, [one.transactions() for one in twins])))
        rate, limit = statistics.median(through), statistics.median(bare)
        yield figure("service_push", rate, "rec/s", limit)
        yield figure("service_push_ratio", rate / limit, "ratio")
    finally:
        service.stop()


class Pusher:
    """A device of an account of its own, and all it will ever push."""

    def __init__(self) -> None:
        self.account, self.device = secrets.token_bytes(16), secrets.token_bytes(16)
        self.token = secrets.token_hex(32)
        self.key = Ed25519PrivateKey.generate()
        self.sign_key = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._session, self._writer = secrets.token_bytes(16), secrets.token_bytes(16)
        self._n, self._prev = 0, bytes(32)

    def _seal(self) -> bytes:
        self._n += 1
        header = envelope.Header(
            envelope.Kind.RECORD, self.account, self._session, self.device, self._writer, 1, bytes(16), self._n,
            self._prev, now_ms(), secrets.token_bytes(8), secrets.token_bytes(12), BYTES,
        )  # fmt: skip
        unsigned = envelope.pack_header(header) + secrets.token_bytes(BYTES)
        raw = unsigned + self.key.sign(envelope.signed_bytes(unsigned))
        self._prev = hashlib.sha256(raw).digest()
        return raw

    def _batches(self) -> Iterator[list[bytes]]:
        for _ in range(BATCHES):
            yield [self._seal() for _ in range(RECORDS)]

    def requests(self) -> list[bytes]:
        """Whole HTTP requests, one a batch."""
        made = []
        for batch in self._batches():
            body = msgspec.msgpack.encode(wire.Push(batch))
            head = (
                f"POST /v1/push HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {self.token}\r\n"
                f"content-type: {wire.CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            made.append(head.encode() + body)
        return made

    def transactions(self) -> list[list[Statement]]:
        """What the store sends for each batch, taken down while it runs over a log in memory."""
        caller = Caller(self.account, self.device, "device", self.sign_key, 0)
        tape = Tape()

        async def push_all() -> list[list[Statement]]:
            made = []
            for batch in self._batches():
                now = now_ms()
                events = check_events(batch, self.account, self.device, self.sign_key)
                tape.statements = []
                connection = cast("Connection", tape)
                tape.follow(await append(connection, caller, events, now))
                made.append(tape.statements)
            return made

        return asyncio.run(push_all())


class Tape:
    """Stands for a connection: answers as the log in memory would, and remembers what it was asked."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._sessions: dict[bytes, SessionState] = {}
        self._progress: dict[bytes, Progress] = {}
        self._writers: dict[bytes, bytes] = {}
        self._account = {
            "head": 0, "chain": bytes(CHAIN_SIZE), "bytes": 0, "quota": QUOTA, "allowance": 300.0, "allowed_at": 0,
        }  # fmt: skip

    def follow(self, plan: Plan) -> None:
        self._account |= {"head": plan.head, "chain": plan.chain, "bytes": plan.used}
        self._sessions |= {state.session: state for state in plan.sessions}
        self._progress |= {place.writer: place for place in plan.progress}
        self._writers |= plan.writers

    async def fetchrow(self, sql: str, *values: object) -> dict[str, Any]:
        self.statements.append(("fetchrow", sql, values))
        return self._account

    async def fetchval(self, sql: str, *values: object) -> None:
        self.statements.append(("fetchval", sql, values))

    async def execute(self, sql: str, *values: object) -> None:
        self.statements.append(("execute", sql, values))

    async def fetch(self, sql: str, *values: object) -> list[Any]:
        self.statements.append(("fetch", sql, values))
        if "FROM session" in sql:
            return [msgspec.structs.asdict(state) for state in self._sessions.values()]
        if "FROM progress" in sql:
            return [msgspec.structs.asdict(place) for place in self._progress.values()]
        if "FROM writer" in sql:
            return [{"writer": writer, "device": device} for writer, device in self._writers.items()]
        return []  # no event of the push is known


async def _sign_up(url: str, pushers: list[Pusher]) -> None:
    """Accounts, devices and tokens straight into the tables."""
    connection = await asyncpg.connect(url)
    try:
        for one in pushers:
            await connection.execute(
                "INSERT INTO account (account, quota, allowance, allowed_at, created_at) VALUES ($1, $2, 0, 0, 0)",
                *(one.account, QUOTA),
            )
            await connection.execute(
                "INSERT INTO device (account, device, role, sign_key, added) VALUES ($1, $2, 'device', $3, 1)",
                *(one.account, one.device, one.sign_key),
            )
            await connection.execute(
                "INSERT INTO token (sha256, account, device, expires_at) VALUES ($1, $2, $3, $4)",
                *(token_hash(one.token), one.account, one.device, now_ms() + 3_600_000),
            )
    finally:
        await connection.close()


def _client(root: Path, how: str, work: object) -> float:
    """Seconds a client process needs for its work."""
    path = root / f"{how}.work"
    path.write_bytes(pickle.dumps(work))
    done = subprocess.run(
        [sys.executable, "-m", "bench.service", how, str(path)], capture_output=True, text=True, check=False
    )
    path.unlink()
    if done.returncode:
        raise RuntimeError(done.stderr[-400:])
    return float(done.stdout)


async def _push_http(work: tuple[str, list[list[bytes]]]) -> float:
    url, accounts = work
    host, _, port = url.removeprefix("http://").rpartition(":")
    lines = [await asyncio.open_connection(host, int(port)) for _ in accounts]

    async def push(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[bytes]) -> None:
        for request in requests:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(push(*line, requests) for line, requests in zip(lines, accounts, strict=True)))
    return time.perf_counter() - begun


async def _push_bare(work: tuple[str, list[list[list[Statement]]]]) -> float:
    url, accounts = work
    connections = [await asyncpg.connect(url) for _ in accounts]

    async def push(connection: Any, transactions: list[list[Statement]]) -> None:  # its three methods by name
        for statements in transactions:
            async with connection.transaction():
                for method, sql, values in statements:
                    await getattr(connection, method)(sql, *values)

    begun = time.perf_counter()
    await asyncio.gather(*(push(one, rest) for one, rest in zip(connections, accounts, strict=True)))
    seconds = time.perf_counter() - begun
    for connection in connections:
        await connection.close()
    return seconds


def main(how: str, path: str) -> None:
    """One client process."""
    work = pickle.loads(Path(path).read_bytes())  # noqa: S301 - written by the process that started this one
    print(asyncio.run({"http": _push_http, "bare": _push_bare}[how](work)))


if __name__ == "__main__":
    main(*sys.argv[1:])
