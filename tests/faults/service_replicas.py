"""Two replicas as processes behind the shipped proxy configuration, over one database and one bucket."""

import asyncio
import base64
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import msgspec

from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_service.invites import make_invite
from atomic_service.migrate import WEB_ROLE
from atomic_service.settings import S3Settings
from infra.test_proxy import NGINX, free_port, moved
from s3.server import S3Server
from service.devices import Device
from service.running import wait_for

BUCKET = "atomic-blobs"
"""The proxy's configuration knows the bucket by this name."""
UPSTREAM = "server service:8480 resolve max_fails=2 fail_timeout=5s;"
STOP_SECONDS = 20.0


class ReplicaProcess:
    """`atomic-service serve`. Comes back at its address."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"replica-{self.port}.log"
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it is ready."""
        self.launch()
        wait_for(self.is_ready, 60)

    def launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "atomic_service", "serve", "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment},
            )

    def end(self, how: signal.Signals) -> int:
        """Its exit code after a signal, waited for."""
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(STOP_SECONDS)

    def log(self) -> str:
        return self._log.read_text()

    def count(self, *metrics: str) -> float:
        """The sum of all lines of its /metrics that begin with one of these."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(metrics))

    def is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


class Installation:
    """What compose.yaml runs, as processes on loopback."""

    def __init__(self, postgres: EmbeddedPostgres, database: str, s3: S3Server, folder: Path) -> None:
        self._folder = folder
        self._proxy: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._database_url = postgres.url(WEB_ROLE, database)
        inner = msgspec.structs.replace(s3.settings, bucket=BUCKET)
        self._s3 = S3Server(inner).settings
        environment = self._environment(self._s3)
        self.replicas = [ReplicaProcess(folder, environment) for _ in range(2)]

    def start(self) -> None:
        for replica in self.replicas:
            replica.launch()
        for replica in self.replicas:
            wait_for(replica.is_ready, 60)
        self._start_proxy()

    def stop(self) -> None:
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait(STOP_SECONDS)
        for replica in self.replicas:
            replica.end(signal.SIGKILL)

    def device(self) -> Device:
        """A device with an account of its own, logged in through the proxy."""
        return Device(self.url).sign_up(asyncio.run(make_invite(self._database_url)))

    def at(self, device: Device, replica: ReplicaProcess) -> Device:
        """The same device with the same token, talking to one replica past the proxy."""
        same = Device(replica.url, device.account)
        same.id, same.key, same.token = device.id, device.key, device.token
        return same

    def _environment(self, s3: S3Settings) -> dict[str, str]:
        return {
            "ATOMIC_DATABASE_URL": self._database_url,
            "ATOMIC_SERVER_SECRET": base64.b64encode(bytes(range(32))).decode(),
            "ATOMIC_PUBLIC_URL": self.url,
            "ATOMIC_S3_ENDPOINT": s3.endpoint,
            "ATOMIC_S3_PUBLIC_ENDPOINT": self.url,
            "ATOMIC_S3_BUCKET": s3.bucket,
            "ATOMIC_S3_REGION": s3.region,
            "ATOMIC_S3_ACCESS_KEY": s3.access_key,
            "ATOMIC_S3_SECRET_KEY": s3.secret_key,
        }

    def _start_proxy(self) -> None:
        assert NGINX is not None
        ports = {"backend": 9, "health": free_port(), "http": self._port, "https": free_port()}
        names = {"server-http.conf": "server.conf", "nginx.conf": "nginx.conf", "routes.conf": "routes.conf"}
        for source, target in names.items():
            (self._folder / target).write_text(self._pointed(moved(source, self._folder, ports)))
        as_root = " user root;" if os.geteuid() == 0 else ""
        self._proxy = subprocess.Popen(
            [
                NGINX,
                "-p",
                str(self._folder),
                "-c",
                str(self._folder / "nginx.conf"),
                "-g",
                f"daemon off;{as_root}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._listens)

    def _pointed(self, content: str) -> str:
        """The upstreams' addresses: both replicas as the shipped line treats them, and the S3 server."""
        stand_in = "server 127.0.0.1:9 max_fails=0;"
        rest = UPSTREAM.partition(" resolve ")[2]
        replicas = " ".join(f"server 127.0.0.1:{replica.port} {rest}" for replica in self.replicas)
        s3 = self._s3.endpoint.removeprefix("http://")
        return content.replace(stand_in, replicas, 1).replace(stand_in, f"server {s3};", 1)

    def _listens(self) -> bool:
        assert self._proxy is not None
        assert self._proxy.poll() is None, "nginx does not start"
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True
