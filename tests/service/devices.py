"""A machine as the service sees it: keys, a ledger entry, envelopes of random bytes, HTTP. Seals nothing."""

import hashlib
import secrets
import ssl
from typing import Any, TypeVar

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from atomic_sessions import envelope, wire
from atomic_sessions.ledger import KEM_KEY_SIZE, LedgerBody, LedgerEntry, auth_bytes, entry_hash, signed_bytes

T = TypeVar("T")
NOW = 1_800_000_000_000
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""All is loopback: loading the certificates of the world costs 25 ms a client."""


class Refusal(Exception):
    """The service's problem document."""

    def __init__(self, problem: wire.Problem, headers: httpx.Headers) -> None:
        super().__init__(f"{problem.status} {problem.code} {problem.detail}")
        self.problem = problem
        self.headers = headers


class Writer:
    """One life of a cache in one session: makes records that follow each other."""

    def __init__(self, device: "Device", session: bytes, writer: bytes | None = None) -> None:
        self.device = device
        self.session = session
        self.writer = writer or secrets.token_bytes(16)
        self.n = 0
        self.prev = bytes(32)

    def seal(
        self,
        kind: envelope.Kind = envelope.Kind.RECORD,
        size: int = 64,
        newest_at: int = NOW,
        newest_tag: bytes = b"tag-tag-",
    ) -> bytes:
        """The next envelope of this writer."""
        header = envelope.Header(
            kind, self.device.account, self.session, self.device.id, self.writer, 1, bytes(16), self.n + 1, self.prev,
            newest_at, newest_tag, secrets.token_bytes(12), size,
        )  # fmt: skip
        unsigned = envelope.pack_header(header) + secrets.token_bytes(size)
        raw = unsigned + self.device.key.sign(envelope.signed_bytes(unsigned))
        self.n, self.prev = self.n + 1, hashlib.sha256(raw).digest()
        return raw


class Device:
    """A device with a key; `account` is its own until it joins another's."""

    def __init__(self, url: str, account: bytes | None = None) -> None:
        self.url = url
        self.http = client(url)
        self.account = account or secrets.token_bytes(16)
        self.id = secrets.token_bytes(16)
        self.key = Ed25519PrivateKey.generate()
        self.token = ""
        self._mates: list[Device] = []

    @property
    def sign_key(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def close(self) -> None:
        self.http.close()
        for mate in self._mates:
            mate.close()

    # --- ledger

    def statement(self, body: LedgerBody) -> LedgerEntry:
        raw = msgspec.msgpack.encode(body)
        return LedgerEntry(raw, self.key.sign(signed_bytes(raw)))

    def genesis(self) -> LedgerEntry:
        """The first entry of this account's ledger."""
        return self.statement(self._adding(self, 1, bytes(32)))

    def adding(self, other: "Device", role: str = "device") -> LedgerEntry:
        """The next entry: `other` joins."""
        entries = self.ledger()
        return self.statement(self._adding(other, len(entries) + 1, entry_hash(entries[-1]), role))

    def removing(self, other: "Device") -> LedgerEntry:
        entries = self.ledger()
        body = LedgerBody(
            1, self.account, len(entries) + 1, entry_hash(entries[-1]), "remove", "device", other.id, other.sign_key,
            b"", b"", self.id, NOW,
        )  # fmt: skip
        return self.statement(body)

    def _adding(self, other: "Device", n: int, prev: bytes, role: str = "device") -> LedgerBody:
        kem = secrets.token_bytes(KEM_KEY_SIZE) if role == "device" else b""
        fields: dict[str, Any] = {"role": role}  # a Literal in the struct
        return LedgerBody(
            version=1, account=self.account, n=n, prev=prev, action="add", device=other.id, sign_key=other.sign_key,
            kem_key=kem, name=b"sealed", by=self.id, at=NOW, **fields,
        )  # fmt: skip

    def ledger(self) -> list[LedgerEntry]:
        return self.get("/v1/ledger", wire.LedgerReply).entries

    def wrap_for(self, other: "Device", generation: int = 1) -> wire.Wrap:
        return wire.Wrap(self.account, generation, other.id, self.id, secrets.token_bytes(48), bytes(64))

    # --- coming in

    def sign_up(self, invite: str) -> "Device":
        """Make the account and log in."""
        self.post("/v1/accounts", wire.NewAccount(invite, self.account, [self.genesis()], []))
        return self.log_in()

    def log_in(self, origin: str | None = None) -> "Device":
        challenge = self.post(
            "/v1/auth/challenge", wire.ChallengeRequest(self.account, self.id), wire.Challenge
        )
        self.token = self.post("/v1/auth/token", self.answer(challenge.challenge, origin), wire.Token).token
        return self

    def answer(self, challenge: bytes, origin: str | None = None) -> wire.TokenRequest:
        origin = origin or self.url
        signature = self.key.sign(auth_bytes(origin, self.account, self.id, challenge))
        return wire.TokenRequest(self.account, self.id, origin, challenge, signature)

    def new_mate(self) -> "Device":
        """Another device of the same account, in the ledger and logged in."""
        mate = Device(self.url, self.account)
        self._mates.append(mate)
        self.post("/v1/ledger", wire.LedgerAppend(self.adding(mate), [self.wrap_for(mate)]))
        return mate.log_in()

    # --- sync

    def writer(self, session: bytes | None = None) -> Writer:
        return Writer(self, session or secrets.token_bytes(16))

    def push(self, *events: bytes) -> wire.PushReply:
        return self.post("/v1/push", wire.Push(list(events)), wire.PushReply)

    def pull(self, cursor: bytes = b"") -> wire.Pull:
        return self.get(f"/v1/pull?cursor={cursor.hex()}", wire.Pull)

    def pull_all(self, cursor: bytes = b"") -> list[wire.Event]:
        """Every event after the cursor, over as many pages as there are."""
        events: list[wire.Event] = []
        while True:
            page = self.pull(cursor)
            events += page.events
            cursor = page.cursor
            if not page.more:
                return events

    def sessions(self) -> dict[bytes, wire.SessionRow]:
        return {row.session: row for row in self.get("/v1/sessions", wire.Sessions).sessions}

    def upload(self, body: bytes, purpose: str, session: bytes = b"") -> bytes:
        """Announce and put an object; its id."""
        object_id = hashlib.sha256(body).digest()
        fields: dict[str, Any] = {"purpose": purpose}  # a Literal in the struct
        request = wire.UploadRequest(id=object_id, size=len(body), session=session, **fields)
        transfer = self.post("/v1/uploads", request, wire.Transfer)
        if not transfer.exists:
            visit(transfer.url, "PUT", content=body, headers=transfer.headers).raise_for_status()
        return object_id

    # --- HTTP

    def get(self, path: str, kind: type[T]) -> T:
        return msgspec.msgpack.decode(self.send("GET", path).content, type=kind)

    def post(self, path: str, body: msgspec.Struct, kind: type[T] | None = None) -> T:
        """A struct out, a struct in; without `kind` the reply must be empty."""
        reply = self.send("POST", path, msgspec.msgpack.encode(body))
        if kind is None:
            assert reply.status_code == 204
            return None  # type: ignore[return-value] # callers without a kind use no reply
        return msgspec.msgpack.decode(reply.content, type=kind)

    def send(self, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        """A request with this device's token; Refusal for every problem document."""
        headers = {"content-type": wire.CONTENT_TYPE}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        return checked(self.http.request(method, path, content=content, headers=headers))


def client(url: str) -> httpx.Client:
    """A client of one service, which keeps its connection."""
    return httpx.Client(base_url=url, timeout=30, trust_env=False, verify=NO_TLS)


def visit(url: str, method: str = "GET", **arguments: Any) -> httpx.Response:
    """One request without any right; `arguments` are httpx's own."""
    return httpx.request(method, url, timeout=30, trust_env=False, verify=NO_TLS, **arguments)


def checked(reply: httpx.Response) -> httpx.Response:
    if reply.status_code >= 400:
        assert reply.headers["content-type"].startswith(wire.PROBLEM_TYPE), reply.text
        raise Refusal(msgspec.json.decode(reply.content, type=wire.Problem), reply.headers)
    return reply
