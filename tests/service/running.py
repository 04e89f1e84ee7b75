"""A replica in a thread of the test process, on a free port, over a database of its own."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from atomic_service.app import Application
from atomic_service.clock import now_ms
from atomic_service.embedded.postgres import OWNER, EmbeddedPostgres
from atomic_service.invites import make_invite
from atomic_service.migrate import WEB_ROLE
from atomic_service.replica import Replica
from atomic_service.server import listen, make_server
from atomic_service.settings import S3Settings, Settings
from s3.server import bucket_keys
from service.devices import Device

T = TypeVar("T")
DEADLINE = 20.0
SECRET = bytes(range(32))
"""The same for every replica."""


class ShiftedClock:
    """The real clock and what a test adds to it."""

    def __init__(self) -> None:
        self.shift = 0

    def __call__(self) -> int:
        return now_ms() + self.shift

    def forward(self, *, seconds: float) -> None:
        self.shift += int(seconds * 1000)


class RunningService:
    """One replica."""

    def __init__(
        self,
        postgres: EmbeddedPostgres,
        database: str,
        blobs: Path | None = None,
        s3: S3Settings | None = None,
        public_url: str | None = None,
    ) -> None:
        self.postgres = postgres
        self.database = database
        self.clock = ShiftedClock()
        self._listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.settings = Settings(
            database_url=postgres.url(WEB_ROLE, database),
            server_secret=SECRET,
            public_url=public_url or self.url,
            s3=s3,
            blob_dir=None if s3 else blobs,
            pool_size=16,
        )
        self.application = Application(self.settings, self.clock)
        self._server = make_server(self.application)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._devices: list[Device] = []

    def start(self) -> "RunningService":
        self._thread.start()
        wait_for(lambda: self._server.started)
        return self

    def stop(self) -> None:
        for device in self._devices:
            device.close()
        self._server.should_exit = True
        self._thread.join(DEADLINE)
        self._listener.close()
        assert not self._thread.is_alive()

    @property
    def replica(self) -> Replica:
        replica: Replica = self.application.litestar.state.replica
        return replica

    def invite(self, seconds: int = 3600) -> str:
        return asyncio.run(make_invite(self.settings.database_url, seconds))

    def stranger(self, account: bytes | None = None) -> Device:
        """A device nobody knows yet."""
        device = Device(self.url, account)
        self._devices.append(device)
        return device

    def device(self) -> Device:
        """A device with an account of its own, logged in."""
        return self.stranger().sign_up(self.invite())

    def stored(self, account: bytes) -> list[str]:
        """The names of the account's objects in this replica's store, half-written files included."""
        s3, folder = self.settings.s3, self.settings.blob_dir
        if s3 is not None:
            return [key.rsplit("/", 1)[1] for key in bucket_keys(s3) if account.hex() in key]
        assert folder is not None
        return [path.name for path in folder.rglob("*") if path.is_file() and account.hex() in path.parts]

    def owner_url(self) -> str:
        return self.postgres.url(OWNER, self.database)


def wait_for(condition: Callable[[], T], deadline: float = DEADLINE) -> T:
    """Poll until the condition holds; its value."""
    stop = threading.Event()
    for _ in range(int(deadline / 0.02)):
        value = condition()
        if value:
            return value
        stop.wait(0.02)
    raise AssertionError("the deadline passed")
