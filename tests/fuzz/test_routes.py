"""Every route of the OpenAPI document under generated and damaged requests: never a 500, never an answer of another
shape, never a large or late one. With a device's token and without."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.generation.case import Case

from atomic_sessions import wire
from fuzz.cases import share
from fuzz.requests import ANYTHING, Target, damaged, running_target, structure

BODIES: dict[str, Any] = {
    "/v1/accounts": wire.NewAccount,
    "/v1/auth/challenge": wire.ChallengeRequest,
    "/v1/auth/token": wire.TokenRequest,
    "/v1/ledger": wire.LedgerAppend,
    "/v1/mailbox/{mailbox}": wire.MailboxPost,
    "/v1/push": wire.Push,
    "/v1/have": wire.Have,
    "/v1/uploads": wire.UploadRequest,
    "/v1/shares": wire.ShareRequest,
}
TYPES = [
    wire.CONTENT_TYPE,
    "application/json",
    "text/plain",
    "multipart/form-data; boundary=x",
    "",
    "a/b; c",
    "/",
]
callers = pytest.mark.parametrize("caller", [False, True], ids=["stranger", "device"])


@schemathesis.serializer(wire.CONTENT_TYPE)
def packed(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """How schemathesis writes a body of the wire."""
    return msgspec.msgpack.encode(_plain(value))


def cases(percent: float) -> settings:
    """So many of the folder's cases. The service keeps what it was sent, so there is no shrinking over a state."""
    return settings(
        max_examples=share(percent),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        print_blob=True,
    )


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """One service for this worker's share of the cases."""
    with running_target() as found:
        yield found


@pytest.fixture(scope="module")
def document(target: Target) -> dict[str, Any]:
    """The OpenAPI document as the service gives it."""
    found: dict[str, Any] = target.device.http.get("/schema/openapi.json").json()
    return found


def test_document_describes_every_body(document: dict[str, Any]) -> None:
    """Each POST with a body names msgpack and the wire's own struct, field by field."""
    described = {
        path: operation["requestBody"]["content"]
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "requestBody" in operation
    }
    assert set(described) == set(BODIES)
    for path, content in described.items():
        assert list(content) == [wire.CONTENT_TYPE]
        name = content[wire.CONTENT_TYPE]["schema"]["$ref"].rpartition("/")[2]
        fields = msgspec.structs.fields(BODIES[path])
        found = document["components"]["schemas"][name]
        assert set(found["properties"]) == {field.encode_name for field in fields}
        assert set(found["required"]) == {field.encode_name for field in fields if field.required}


@callers
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_requests_made_from_the_document(
    target: Target, document: dict[str, Any], mode: GenerationMode, *, caller: bool
) -> None:
    """What the document allows, and what it does not, is answered by rule."""
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == sum(len(methods) for methods in document["paths"].values())
    made = [operation.as_strategy(mode) for operation in operations]

    @cases(0.15)
    @given(st.one_of(made))
    def run(case: Case[Any]) -> None:
        body = msgspec.msgpack.encode(_plain(case.body)) if case.media_type else None
        target.ask(
            case.method.upper(),
            case.formatted_path.replace("#", "%23").replace("?", "%3F"),
            body=body,
            caller=caller,
            params=_query(case.query),
            headers=_headers(case.headers, case.media_type),
        )

    run()


def _plain(value: object) -> object:
    """What the document calls binary is bytes on the wire; what cannot be there is null."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return float(value) if abs(value) < 1 << 1000 else None
    if isinstance(value, str):
        data = getattr(value, "data", value)
        return data if isinstance(data, bytes) else value.encode("utf-8", "replace").decode()
    return value if isinstance(value, int | float | None) else None


def _query(query: Any) -> dict[str, str]:
    return {
        str(name): str(value).encode("utf-8", "replace").decode() for name, value in (query or {}).items()
    }


def _headers(headers: Any, media_type: str | None) -> dict[str, str]:
    """Those a client can send at all."""
    sent = {
        name: str(value)
        for name, value in (headers or {}).items()
        if name.isascii() and str(value).isascii() and str(value).isprintable() and name.lower() != "host"
    }
    return {**sent, "content-type": media_type} if media_type else sent


@callers
@pytest.mark.parametrize("path", list(BODIES))
def test_damaged_bodies(target: Target, path: str, *, caller: bool) -> None:
    """Bodies of the wire's types, whole and damaged, of the right media type and of others."""
    whole = structure(inspect.type_info(BODIES[path]), target.known)
    address = path.format(mailbox="ab" * 16)

    @cases(1.0 / (2 * len(BODIES)))
    @given(damaged(whole), st.sampled_from([wire.CONTENT_TYPE] * 8 + TYPES))
    def run(body: bytes, content_type: str) -> None:
        target.ask("POST", address, body=body, caller=caller, headers={"content-type": content_type})

    run()


@callers
def test_damaged_addresses(target: Target, document: dict[str, Any], *, caller: bool) -> None:
    """Paths, queries, methods and headers from nowhere, on every route."""
    known = st.sampled_from([one.hex() for one in target.known if len(one) <= 64])
    piece = st.text(max_size=40) | known | st.sampled_from(["..", "%00", "/", "é" * 22, "A" * 22, "0" * 5000])
    names = ["cursor", "after", "size", "until", "sig", "bytes", "x"]

    @cases(0.2)
    @given(
        st.sampled_from(
            [(path, method) for path, methods in document["paths"].items() for method in methods]
        ),
        st.sampled_from([""] * 15 + ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "PROPFIND"]),
        st.lists(piece, min_size=1, max_size=1),
        st.dictionaries(st.sampled_from(names), piece | st.integers().map(str), max_size=4),
        st.fixed_dictionaries(
            {},
            optional={
                "accept": st.sampled_from(["", "*/*", "text/html", "a;q=x", ","]),
                "authorization": st.sampled_from(["Bearer", "Bearer x", "bearer x", "Basic eA=="]),
                "content-type": st.sampled_from(TYPES),
                "range": st.sampled_from(["bytes=0-", "bytes=9-1", "x"]),
                "cookie": st.sampled_from(["a=b", ";", "="]),
            },
        ),
        st.none() | ANYTHING.map(msgspec.msgpack.encode),
    )
    def run(
        route: tuple[str, str],
        other: str,
        pieces: list[str],
        query: dict[str, str],
        headers: dict[str, str],
        body: bytes | None,
    ) -> None:
        path, method = route[0], other or route[1].upper()
        for part in pieces:
            head, brace, rest = path.partition("{")
            if brace:
                path = head + quote(part, safe="/", errors="replace") + rest.partition("}")[2]
        values = {name: value.encode("utf-8", "replace").decode() for name, value in query.items()}
        target.ask(method, path, body=body, caller=caller, params=values, headers=headers)

    run()
