"""Whatever happens, an answer has the shape of one: problem documents, headers, limits, recovery."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import asyncpg
import msgspec
import pytest

from atomic_service.embedded.databases import prepare
from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_sessions import wire
from service.devices import Device, Refusal, visit
from service.running import RunningService, wait_for


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/push", 405, "bad_request"),
        ("POST", "/healthz", 405, "bad_request"),
        ("GET", "/v1/mailbox/zz", 400, "bad_request"),
    ],
)
def test_framework_errors_are_problem_documents(
    service: RunningService, method: str, path: str, status: int, code: str
) -> None:
    """404 and 405 of the framework look like every other refusal."""
    with pytest.raises(Refusal) as refusal:
        service.stranger().send(method, path)
    problem = refusal.value.problem
    assert (problem.status, problem.code) == (status, code)
    assert ("atomic-api" in refusal.value.headers) == path.startswith("/v1")
    if status == 405:
        assert refusal.value.headers["allow"]


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"{}", b"\x91" * 100_000, b"\x80", b"\x81\xa6events\x01", b"\xa1\xff"]
)
def test_malformed_bodies_are_bad_requests(service: RunningService, body: bytes) -> None:
    """No msgpack, endless nesting, wrong types, missing fields: 400 with our code."""
    device = service.device()
    with pytest.raises(Refusal, match="400 bad_request"):
        device.send("POST", "/v1/push", body)


def test_bodies_have_a_limit_with_and_without_a_length(service: RunningService) -> None:
    """Neither an announced nor a streamed body larger than the limit is read to its end."""
    device = service.device()
    too_much = bytes(wire.MAX_BODY_BYTES + 1)
    with pytest.raises(Refusal, match="413 too_large"):
        device.send("POST", "/v1/push", too_much)
    headers = {"authorization": f"Bearer {device.token}"}
    pieces = (too_much[start : start + 65536] for start in range(0, len(too_much), 65536))
    reply = device.http.post("/v1/push", content=pieces, headers=headers)
    assert reply.status_code == 413
    assert msgspec.json.decode(reply.content, type=wire.Problem).code == "too_large"


def test_api_replies_name_the_api_and_are_never_stored(own_service: RunningService) -> None:
    """Good and bad replies under /v1 carry Atomic-Api and no-store."""
    device = own_service.device()
    for reply in (device.send("GET", "/v1/ledger"), own_service.stranger().http.get("/v1/ledger")):
        assert reply.headers["atomic-api"] == wire.API_VERSION
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
    assert device.send("GET", "/v1/ledger").headers["content-type"] == wire.CONTENT_TYPE


def test_health_metrics_and_schema(own_service: RunningService) -> None:
    """What operators and developers look at is there, and counts routes by their template."""
    device = own_service.device()
    device.push(device.writer().seal())
    with pytest.raises(Refusal):
        device.get(f"/v1/sessions/{'0' * 32}/records", wire.Records)
    http = device.http
    assert http.get("/healthz").text == "ok\n"
    assert http.get("/readyz").text == "ready\n"
    text = http.get("/metrics").text
    assert 'route="/v1/sessions/{session}/records",status="404"' in text
    assert "atomic_events_total 1.0" in text
    assert device.account.hex() not in text
    assert "0" * 32 not in text
    schema = http.get("/schema/openapi.json").json()
    content = schema["paths"]["/v1/push"]["post"]["requestBody"]["content"]
    assert content[wire.CONTENT_TYPE]["schema"]["$ref"].endswith("/Push")


def test_unknown_methods_and_paths_do_not_grow_the_metrics(own_service: RunningService) -> None:
    """A scanner cannot fill the memory with labels."""
    http = own_service.stranger().http
    before = http.get("/metrics").text.count("atomic_requests_total{")
    for number in range(30):
        http.get(f"/scan/{number}")
        http.request(f"X{number}", "/healthz")
    assert http.get("/metrics").text.count("atomic_requests_total{") <= before + 3


def test_logs_hold_no_secret_and_no_path(
    own_service: RunningService, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests are logged by template, with neither tokens, invites, ids nor queries."""
    invite = own_service.invite()
    with caplog.at_level(logging.DEBUG):
        device = own_service.stranger().sign_up(invite)
        device.pull(device.pull().cursor)
        mailbox = "ab" * 16
        device.post(f"/v1/mailbox/{mailbox}", wire.MailboxPost("offer", b"sealed offer"))
        visit(f"{own_service.url}/s/{'Q' * 22}")
    ours = "\n".join(r.getMessage() for r in caplog.records if not r.name.startswith(("httpx", "httpcore")))
    assert '"route":"/v1/mailbox/{mailbox}"' in ours
    for secret in (device.token, invite, mailbox, "Q" * 22, "cursor=", device.account.hex()):
        assert secret not in ours


def test_unauthenticated_requests_have_a_cap(own_service: RunningService) -> None:
    """One process answers so many a second, and says when to come back."""
    own_service.replica.open_requests._rate = 0.001
    own_service.replica.open_requests._level = 2
    device = own_service.stranger()

    def ask() -> None:
        device.post("/v1/auth/challenge", wire.ChallengeRequest(device.account, device.id), wire.Challenge)

    ask()
    ask()
    with pytest.raises(Refusal, match="429 slow_down") as refusal:
        ask()
    assert int(refusal.value.headers["retry-after"]) >= 1


def test_postgres_away_is_503_and_back_is_back(tmp_path: Path) -> None:
    """I24: kill -9 of Postgres answers 503 to everything that needs it; the same replica then goes on."""
    server = EmbeddedPostgres(tmp_path / "pg", durable=False)
    (tmp_path / "pg").mkdir()
    server.start()
    asyncio.run(prepare(server, "atomic"))
    service = RunningService(server, "atomic", tmp_path / "blobs").start()
    try:
        device = service.device()
        writer = device.writer()
        device.push(writer.seal())
        server.stop()
        for attempt in (device.pull, device.ledger, lambda: device.send("GET", "/readyz")):
            with pytest.raises(Refusal, match="503 unavailable"):
                attempt()
        assert device.http.get("/healthz").status_code == 200
        again = EmbeddedPostgres(tmp_path / "pg", durable=False)
        again._make_socket_folder = lambda: _same_folder(server)  # type: ignore[method-assign] # the address stays
        again.start()
        wait_for(lambda: device.http.get("/readyz").status_code == 200)
        assert len(device.pull_all()) == 1
        again.stop()
    finally:
        service.stop()
        server.stop()


def _same_folder(server: EmbeddedPostgres) -> Path:
    server._sockets.mkdir(mode=0o700)
    return server._sockets


def test_busy_replica_refuses_pushes_early(own_service: RunningService) -> None:
    """With as many pushes under way as are allowed the next is told at once to come later."""
    device = own_service.device()
    gate = own_service.replica.pushes
    for _ in range(4):
        gate.add(device.account)
    with pytest.raises(Refusal, match="429 slow_down"):
        device.push(device.writer().seal())
    for _ in range(4):
        gate.remove(device.account)
    device.push(device.writer().seal())


def test_second_replica_serves_the_same_accounts(start_service: Callable[[], RunningService]) -> None:
    """A token of one replica is good at another, and so are challenges."""
    here, there = start_service(), start_service()
    device = here.device()
    device.push(device.writer().seal())
    elsewhere = Device(there.url, device.account)
    elsewhere.token = device.token
    assert len(elsewhere.pull_all()) == 1
    challenge = elsewhere.post(
        "/v1/auth/challenge", wire.ChallengeRequest(device.account, device.id), wire.Challenge
    )
    assert device.post("/v1/auth/token", device.answer(challenge.challenge), wire.Token).token
    elsewhere.close()


def test_replica_is_not_ready_before_its_migrations(own_service: RunningService) -> None:
    """A replica of a newer version waits for the schema it needs."""
    http = own_service.stranger().http
    assert http.get("/readyz").status_code == 200
    asyncio.run(_forget_migrations(own_service.owner_url()))
    assert http.get("/readyz").status_code == 503
    assert http.get("/healthz").status_code == 200


async def _forget_migrations(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("DELETE FROM migration")
    await connection.close()
