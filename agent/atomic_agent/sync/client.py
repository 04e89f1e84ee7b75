"""HTTP to the service: typed calls, one error for each thing that can go wrong. Decides nothing.

Tells our service from whatever else may answer (a proxy, a captive portal) by the `Atomic-Api`
header; follows no redirect; speaks plain http to loopback only.
"""

import ipaddress
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from atomic_sessions import wire
from atomic_sessions.errors import NotLoggedInError, ServiceRefusedError, ServiceUnreachableError, UsageError
from atomic_sessions.ledger import LedgerEntry
from atomic_sessions.unreadable import UNREADABLE

T = TypeVar("T")

CONNECT_SECONDS = 5.0
MAX_REPLY_BYTES = wire.MAX_PULL_BYTES + wire.MAX_EVENT_BYTES + 1024 * 1024
READ_SECONDS = 30.0
PLAIN = {"Accept-Encoding": "identity"}
MENDS: dict[str, str] = {
    wire.ErrorCode.BAD_INVITE: "Ask for a new invite: atomic-service invite",
    wire.ErrorCode.UNAUTHORIZED: "Log in again: atomic login URL",
    wire.ErrorCode.DEVICE_REMOVED: "Pair this machine again: atomic login URL --join -",
    wire.ErrorCode.OVER_QUOTA: "Delete sessions, or ask the operator for more space.",
    wire.ErrorCode.UPGRADE: "Update atomic-sessions on this machine.",
    wire.ErrorCode.SLOW_DOWN: "Try again in a moment.",
    wire.ErrorCode.UNAVAILABLE: "Nothing is lost; it is sent when the service is back.",
}

UNKNOWN = "If it stays: update atomic-sessions on this machine, or ask the service's operator."


def normal_url(url: str) -> str:
    """The service's address as it is kept; UsageError for one that cannot be used."""
    text = url.strip().rstrip("/")
    try:
        bare = urlsplit(f"//{text}").hostname if "//" not in text else None
        scheme = "http" if bare is not None and is_loopback(bare) else "https"
        parts = urlsplit(text if "//" in text else f"{scheme}://{text}")
        number = parts.port
    except ValueError:
        raise UsageError(
            f"'{text[:80]}' is not a service's address.", "Give it as https://host[:port]"
        ) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"'{text[:80]}' is not a service's address.", "Give it as https://host[:port]")
    if parts.username or parts.password:
        raise UsageError("A service's address carries no user or password.", "Give it as https://host[:port]")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise UsageError(f"http:// is for this machine only, not for {parts.hostname}.", "Use https://")
    port = f":{number}" if number else ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> str:
    """scheme://host[:port] of an address, as it is signed at login."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class _OversizedError(ServiceUnreachableError):
    """More came than was asked for."""


class Client:
    """One service. `sign_in` gets a new token when one is needed."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        sign_in: "Callable[[Client], wire.Token] | None" = None,
        transport: httpx.BaseTransport | None = None,
        timeout: float = READ_SECONDS,
    ) -> None:
        self.url = normal_url(url)
        self._token = token
        self._sign_in = sign_in
        self._http = httpx.Client(
            transport=transport,
            timeout=httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
            follow_redirects=False,
            trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- calls ---------------------------------------------------------------------------

    def new_account(self, request: wire.NewAccount) -> None:
        self._call("POST", "/v1/accounts", request)

    def challenge(self, account: bytes, device: bytes) -> wire.Challenge:
        return self._ask("POST", "/v1/auth/challenge", wire.ChallengeRequest(account, device), wire.Challenge)

    def token(self, request: wire.TokenRequest) -> wire.Token:
        return self._ask("POST", "/v1/auth/token", request, wire.Token)

    def ledger(self) -> list[LedgerEntry]:
        return self._ask("GET", "/v1/ledger", None, wire.LedgerReply, auth=True).entries

    def append_ledger(self, entry: LedgerEntry, wraps: list[wire.Wrap]) -> None:
        self._call("POST", "/v1/ledger", wire.LedgerAppend(entry, wraps), auth=True)

    def wraps(self) -> list[wire.Wrap]:
        return self._ask("GET", "/v1/wraps", None, wire.Wraps, auth=True).wraps

    def mailbox_post(self, mailbox: bytes, post: wire.MailboxPost, *, auth: bool = False) -> None:
        self._call("POST", f"/v1/mailbox/{mailbox.hex()}", post, auth=auth)

    def end_mailbox(self, mailbox: bytes) -> None:
        self._call("DELETE", f"/v1/mailbox/{mailbox.hex()}", None, auth=True)

    def mailbox(self, mailbox: bytes) -> wire.Mailbox:
        return self._ask("GET", f"/v1/mailbox/{mailbox.hex()}", None, wire.Mailbox)

    def push(self, events: list[bytes]) -> wire.PushReply:
        return self._ask("POST", "/v1/push", wire.Push(events), wire.PushReply, auth=True)

    def pull(self, cursor: bytes) -> wire.Pull:
        return self._ask("GET", f"/v1/pull?cursor={cursor.hex()}", None, wire.Pull, auth=True)

    def sessions(self) -> list[wire.SessionRow]:
        return self._ask("GET", "/v1/sessions", None, wire.Sessions, auth=True).sessions

    def share(self, request: wire.ShareRequest) -> wire.Share:
        return self._ask("POST", "/v1/shares", request, wire.Share, auth=True)

    def shares(self) -> list[wire.Share]:
        return self._ask("GET", "/v1/shares", None, wire.Shares, auth=True).shares

    def revoke(self, share: bytes) -> None:
        self._call("DELETE", f"/v1/shares/{share.hex()}", None, auth=True)

    def upload(self, request: wire.UploadRequest, content: bytes) -> None:
        """Bring an object to where the service says it goes; nothing is sent when it is there."""
        transfer = self._ask("POST", "/v1/uploads", request, wire.Transfer, auth=True)
        if not transfer.exists:
            self._object("PUT", transfer, content)

    def download(self, object_id: bytes, size: int) -> bytes:
        """The bytes of an object that is said to have `size`; none when there are more, which are not read."""
        transfer = self._ask("GET", f"/v1/uploads/{object_id.hex()}", None, wire.Transfer, auth=True)
        try:
            return self._object("GET", transfer, None, limit=size)
        except _OversizedError:
            return b""

    def public(self, path: str) -> bytes:
        """A published thing, without a token: `/s/…`."""
        reply = self._send("GET", self.url + path, limit=wire.MAX_OBJECT_BYTES, headers=PLAIN)
        if reply.status_code != 200:
            raise self._problem(reply)
        return reply.content

    def claim(self, path: str) -> bytes:
        """One of a limited number of views of a share."""
        reply = self._send("POST", self.url + path, limit=wire.MAX_OBJECT_BYTES, headers=PLAIN)
        if reply.status_code != 200:
            raise self._problem(reply)
        return reply.content

    def live(self, stop: Callable[[], bool]) -> Iterator[int]:
        """Heads of the log as the service pokes, the present one first; ends when the line breaks."""
        timeout = httpx.Timeout(45.0, connect=CONNECT_SECONDS)
        headers = self._headers(auth=True)
        try:
            with self._http.stream("GET", f"{self.url}/v1/live", headers=headers, timeout=timeout) as reply:
                if reply.status_code != 200:
                    reply.read()
                    raise self._problem(reply)
                for line in reply.iter_lines():
                    if stop():
                        return
                    if line.startswith("data:"):
                        yield msgspec.json.decode(line[5:], type=wire.Poke).head
        except (httpx.HTTPError, *UNREADABLE):
            return

    # --- one request ---------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: object, kind: type[T], *, auth: bool = False) -> T:
        reply = self._call(method, path, body, auth=auth)
        try:
            return msgspec.msgpack.decode(reply.content, type=kind)
        except UNREADABLE:
            raise ServiceUnreachableError(
                f"The answer of {self.url} was cut or is of another version.",
                "Try again, or update atomic-sessions.",
            ) from None

    def _call(self, method: str, path: str, body: object, *, auth: bool = False) -> httpx.Response:
        content = b"" if body is None else msgspec.msgpack.encode(body)
        reply = self._send(method, self.url + path, content=content, headers=self._headers(auth=auth))
        if reply.status_code == 401 and auth and self._sign_in is not None:
            self._token = self._sign_in(self).token
            reply = self._send(method, self.url + path, content=content, headers=self._headers(auth=True))
        if wire.API_HEADER not in reply.headers:
            raise self._foreign(reply)
        if reply.status_code >= 300:
            raise self._problem(reply)
        return reply

    def _headers(self, *, auth: bool) -> dict[str, str]:
        headers = {
            "Accept": wire.CONTENT_TYPE,
            "Accept-Encoding": "identity",
            "Content-Type": wire.CONTENT_TYPE,
        }
        if auth:
            if not self._token and self._sign_in is not None:
                self._token = self._sign_in(self).token
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _send(
        self,
        method: str,
        url: str,
        *,
        limit: int = MAX_REPLY_BYTES,
        **arguments: Any,  # httpx's own arguments
    ) -> httpx.Response:
        """One request; the reply is read up to `limit` bytes and no further."""
        try:
            with self._http.stream(method, url, **arguments) as reply:
                content = bytearray()
                for piece in reply.iter_raw():
                    content += piece
                    if len(content) > limit:
                        raise _OversizedError(
                            f"What answers at {self.url} sends more than was asked for.", "Check the address."
                        )
            # What is packed is not unpacked: nothing of ours is, and it could be a bomb.
            headers = [pair for pair in reply.headers.multi_items() if pair[0].lower() != "content-encoding"]
            return httpx.Response(reply.status_code, headers=headers, content=bytes(content))
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise UsageError(
                f"'{self.url}' is not a service's address.", "Give it as https://host[:port]"
            ) from None
        except httpx.TimeoutException:
            raise ServiceUnreachableError(
                f"{self.url} did not answer in time.", "Nothing is lost; try again later."
            ) from None
        except httpx.HTTPError as error:
            raise ServiceUnreachableError(
                f"{self.url} cannot be reached ({type(error).__name__}).",
                "Check the address and the network; what is not synced is kept.",
            ) from None

    def _object(
        self, method: str, transfer: wire.Transfer, content: bytes | None, *, limit: int = MAX_REPLY_BYTES
    ) -> bytes:
        url = transfer.url if "://" in transfer.url else self.url + transfer.url
        parts = urlsplit(url)
        local = is_loopback(parts.hostname or "") and is_loopback(urlsplit(self.url).hostname or "")
        if parts.scheme != "https" and not local:
            raise ServiceUnreachableError(
                "The service names a place for a large object that is not safe to reach.",
                "Ask its operator: the object store needs https.",
            )
        reply = self._send(method, url, limit=limit, content=content, headers=transfer.headers)
        if reply.status_code == 412 and method == "PUT":
            return b""
        if reply.status_code >= 300:
            raise ServiceUnreachableError(
                f"The object store answered {reply.status_code}.", "Nothing is lost; try again later."
            )
        return reply.content

    def _foreign(self, reply: httpx.Response) -> ServiceUnreachableError:
        kind = reply.headers.get("content-type", "").split(";")[0] or "no content type"
        return ServiceUnreachableError(
            f"What answers at {self.url} is not an Atomic service (status {reply.status_code}, {kind}).",
            "Check the address; a proxy or a login page may stand in between.",
        )

    def _problem(self, reply: httpx.Response) -> ServiceRefusedError | ServiceUnreachableError:
        kind = reply.headers.get("content-type", "")
        if not kind.startswith(wire.PROBLEM_TYPE):
            return self._foreign(reply)
        try:
            problem = msgspec.json.decode(reply.content, type=wire.Problem)
        except UNREADABLE:
            return ServiceUnreachableError(f"The answer of {self.url} was cut.", "Try again.")
        refused = (
            NotLoggedInError if problem.code in {"unauthorized", "device_removed"} else ServiceRefusedError
        )
        mend = MENDS.get(problem.code, UNKNOWN)
        told = problem.detail or problem.title
        return refused(
            f"The service says: {problem.title if mend and told in mend else told}",
            mend,
            code=problem.code,
            retry_after=problem.retry_after,
            session=problem.session or "",
        )


def backoff(attempt: int, random: Callable[[], float]) -> float:
    """Full-jitter waiting time in seconds before attempt n (0, 1, …): up to 1 s, doubling, 5 min."""
    return random() * min(300.0, 2.0**attempt)
