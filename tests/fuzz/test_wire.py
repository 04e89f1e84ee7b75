"""Damaged answers of a service, as the agent reads them: one of our errors, or a value of the right type."""

import inspect
from collections.abc import Callable, Iterator

import httpx
import msgspec

from atomic_agent.sync.client import Client
from atomic_sessions import wire
from atomic_sessions.errors import AtomicError
from atomic_sessions.ledger import LedgerEntry
from atomic_sessions.unreadable import UNREADABLE
from fuzz.cases import share
from fuzz.mutations import cases

ID = b"i" * 32
HEADERS = {wire.API_HEADER: "1", "content-type": wire.CONTENT_TYPE}
REPLIES: list[object] = [
    wire.Challenge(b"c" * 32),
    wire.Token("text", 1),
    wire.LedgerReply([LedgerEntry(b"body", b"s" * 64)]),
    wire.Wraps([wire.Wrap(b"a" * 16, 1, b"d" * 16, b"b" * 16, b"sealed", b"s" * 64)]),
    wire.Mailbox({"commit": b"x"}, 1),
    wire.PushReply(1, [wire.Pushed(ID, 1, True, 1)]),
    wire.Pull([wire.Event(1, 1, b"raw")], b"c" * 24, False, 1),
    wire.Sessions([]),
    wire.Shares([]),
    wire.Transfer("/v1/blobs/x", "GET", {}),
]


class Answers:
    """A service that says what it is told to."""

    def __init__(self) -> None:
        self.body = b""
        self.status = 200
        self.headers: dict[str, str] = dict(HEADERS)

    def __call__(self, _: httpx.Request) -> httpx.Response:
        return httpx.Response(self.status, headers=self.headers, stream=httpx.ByteStream(self.body))


def calls(client: Client) -> Iterator[Callable[[], object]]:
    """Every question whose answer is read."""
    yield lambda: client.challenge(ID, ID)
    yield client.ledger
    yield client.wraps
    yield lambda: client.mailbox(b"m" * 16)
    yield lambda: client.push([b"x"])
    yield lambda: client.pull(b"")
    yield client.sessions
    yield client.shares
    yield lambda: client.download(ID, 1000)


def told(call: Callable[[], object]) -> str:
    """What a person reads of a call; nothing when it went well."""
    try:
        call()
    except AtomicError as error:
        return str(error)
    return ""


def test_every_reply_type_is_here() -> None:
    """A reply that is added to the wire is fuzzed too."""
    read = {
        kind
        for _, method in inspect.getmembers(Client, inspect.isfunction)
        for kind in [method.__annotations__.get("return")]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    assert read <= {type(reply) for reply in REPLIES} | {wire.Share}


def test_answers() -> None:
    """Whatever bytes come with our header, the agent gets a value it can use or one sentence to say."""
    answers = Answers()
    client = Client("http://127.0.0.1:9", token="t", transport=httpx.MockTransport(answers))
    corpus = [msgspec.msgpack.encode(reply) for reply in REPLIES]
    for name, answers.body in cases(corpus, share(0.8), seed=21):
        for call in calls(client):
            assert "\n" not in told(call), name


def test_refusals() -> None:
    """Damaged problem documents, under any status."""
    answers = Answers()
    client = Client("http://127.0.0.1:9", token="t", transport=httpx.MockTransport(answers))
    whole = wire.Problem("title", 409, "writer_forked", "detail", retry_after=5, session="aa")
    corpus = [msgspec.json.encode(whole)]
    for number, (name, body) in enumerate(cases(corpus, share(4), seed=22)):
        answers.body, answers.status = (
            body,
            (400, 401, 404, 409, 410, 413, 426, 429, 503, 507, 302)[number % 11],
        )
        answers.headers = {**HEADERS, "content-type": wire.PROBLEM_TYPE}
        assert "\n" not in told(lambda: client.pull(b"")), name


def test_values() -> None:
    """Each type of the wire, decoded from damaged bytes, is itself or a decoding error."""
    for reply in REPLIES:
        for _, raw in cases([msgspec.msgpack.encode(reply)], share(1), seed=23):
            try:
                assert isinstance(msgspec.msgpack.decode(raw, type=type(reply)), type(reply))
            except UNREADABLE:
                continue
