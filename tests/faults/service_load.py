"""Devices that push, pull and upload without pause while a test breaks what the service stands on.

A client sends the same bytes again until they are acknowledged, and writes down what it was told: what it
saw is compared with the log afterwards. An answer no agent could use ends it.
"""

import hashlib
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import httpx

from atomic_sessions import wire
from service.devices import NO_TLS, Device, Refusal
from service.running import wait_for

T = TypeVar("T")
PASSING = {wire.ErrorCode.UNAVAILABLE, wire.ErrorCode.SLOW_DOWN}
"""What an agent waits out."""
LONGEST_SECONDS = 15.0
"""No answer takes longer, whatever is away: 5 s for a connection, 10 s for a lock."""
RECOVERY_SECONDS = 40.0
SIZE = 500


class Load(threading.Thread):
    """One device at work, with a pause between rounds where a proxy counts. `down` are the answers it waited out."""

    def __init__(self, device: Device, *, uploads: bool = False, pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.device = device
        self.acknowledged: dict[bytes, int] = {}
        self.objects: dict[bytes, bytes] = {}
        self.pulled: list[wire.Event] = []
        self.down: Counter[str] = Counter()
        self.longest = 0.0
        self.failure: BaseException | None = None
        self._uploads = uploads
        self._pause = pause
        self._cursor = b""
        self._writer = device.writer()
        self._ending = threading.Event()
        device.http.timeout = httpx.Timeout(LONGEST_SECONDS)

    def run(self) -> None:
        try:
            while not self._ending.wait(self._pause):
                self._push()
                self._pull()
                if self._uploads:
                    self._upload()
        except BaseException as error:  # noqa: BLE001 - `end` raises it in the test's own thread
            self.failure = error

    def end(self) -> None:
        """Let the current round come to its end."""
        self._ending.set()
        self.join(RECOVERY_SECONDS)
        assert not self.is_alive(), "a request hangs"
        if self.failure is not None:
            raise self.failure

    def goes_on(self, pushes: int = 5) -> None:
        """Returns when so many more records were acknowledged."""
        target = len(self.acknowledged) + pushes
        wait_for(lambda: len(self.acknowledged) >= target or self.failure is not None, RECOVERY_SECONDS)
        if self.failure is not None:
            raise self.failure

    def _push(self) -> None:
        events = [self._writer.seal(size=SIZE) for _ in range(1 + secrets.randbelow(3))]
        reply = self.insist(lambda: self.device.push(*events))
        assert [one.id for one in reply.results] == [hashlib.sha256(event).digest() for event in events]
        self.acknowledged.update((one.id, one.seq) for one in reply.results)

    def _pull(self) -> None:
        page = self.insist(lambda: self.device.pull(self._cursor))
        self.pulled += page.events
        self._cursor = page.cursor

    def _upload(self) -> None:
        body = secrets.token_bytes(20_000)
        object_id = self.insist(lambda: self.device.upload(body, "blob", self._writer.session))
        self.objects[object_id] = body

    def fetch(self, object_id: bytes) -> bytes:
        """An object by an address of its own."""
        transfer = self.device.get(f"/v1/uploads/{object_id.hex()}", wire.Transfer)
        with httpx.Client(timeout=LONGEST_SECONDS, trust_env=False, verify=NO_TLS) as client:
            return client.get(transfer.url, headers=transfer.headers).raise_for_status().content

    def insist(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer; only what an agent may wait out is waited out."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            begun = time.monotonic()
            try:
                return ask()
            except Refusal as refusal:
                self._wait_out(refusal)
            except httpx.HTTPStatusError as error:  # the object store's own answer, by a signed address
                self._again_at_the_store(error.response.status_code)
            except (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                self.down["line"] += 1
                self._ending.wait(0.05)
            finally:
                self.longest = max(self.longest, time.monotonic() - begun)
            assert time.monotonic() < deadline, "the service does not come back"

    def _wait_out(self, refusal: Refusal) -> None:
        problem = refusal.problem
        assert problem.code in PASSING, refusal
        assert problem.retry_after is not None, problem
        assert "retry-after" in refusal.headers
        if problem.code == wire.ErrorCode.UNAVAILABLE:
            self.down[problem.code] += 1
        self._ending.wait(0.02 if self._ending.is_set() else min(problem.retry_after, 0.2))

    def _again_at_the_store(self, status: int) -> None:
        assert status in {412, 429, 500, 503}, status
        if status != 429:
            self.down["store"] += 1
        self._ending.wait(0.05)


def check_account(loads: list[Load]) -> int:
    """What one account's clients were told is what the log holds, once each and in place; the log's length."""
    events = loads[0].insist(loads[0].device.pull_all)
    places = {hashlib.sha256(event.raw).digest(): event.seq for event in events}
    assert len(places) == len(events), "a record is there twice"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    told: dict[bytes, int] = {}
    for load in loads:
        told |= load.acknowledged
        assert load.longest < LONGEST_SECONDS
        seen = [event.seq for event in load.pulled]
        assert seen == list(range(1, len(seen) + 1)), "a reader missed or doubled a record"
    assert told == places
    return len(events)


def check_objects(loads: list[Load]) -> None:
    """Every object that was taken is there whole."""
    for load in loads:
        assert load.objects
        for object_id, body in load.objects.items():
            assert load.insist(partial(load.fetch, object_id)) == body
