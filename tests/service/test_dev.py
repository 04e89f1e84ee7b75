"""`atomic-service dev` as a real process: one folder, clean ends, and no acknowledged record lost by a kill."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from atomic_service.embedded.postgres import socket_folder, stop_orphan
from service.devices import Device, Refusal, Writer, client
from service.running import wait_for


class Dev:
    """One life of the command over a folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atomic_service", "dev", "--data", str(folder), "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def word_after(self, name: str) -> str:
        """What the command printed after a word, as soon as it has."""

        def found() -> str | None:
            assert self.process.poll() is None or self.lines, self.process.communicate()
            return next((line.split()[1] for line in self.lines if line.startswith(f"{name} ")), None)

        value = wait_for(found, 60)
        assert value is not None
        return value

    @property
    def url(self) -> str:
        return self.word_after("ready")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60)
        self._reader.join(20)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def postgres_pid(self) -> int:
        return int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder; whatever a failed test left running over it is stopped."""
    yield tmp_path / "data"
    stop_orphan(tmp_path / "data" / "postgres")


def running(pid: int) -> bool:
    shown = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(shown.strip()) and not shown.strip().startswith("Z")


def test_dev_starts_stops_and_comes_back_with_its_data(folder: Path) -> None:
    """Ready and an invite on stdout; SIGTERM ends everything with 0; the next life has the records and asks
    for no account."""
    dev = Dev(folder)
    device = Device(dev.url).sign_up(dev.word_after("invite"))
    raw = device.writer().seal()
    device.push(raw)
    device.upload(b"body", "blob", b"s" * 16)
    sockets = socket_folder(folder / "postgres")
    pid = dev.postgres_pid()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "server-secret").stat().st_mode) == 0o600
    assert dev.end() == 0
    assert not running(pid)
    assert sockets is not None
    assert not sockets.exists()
    with pytest.raises(httpx.ConnectError):
        device.pull()
    device.close()

    again = Dev(folder)
    device.url = again.url
    device.http = client(again.url)
    assert [event.raw for event in device.log_in().pull_all()] == [raw]
    assert [line for line in again.lines if line.startswith("invite")] == []
    device.close()
    assert again.end(signal.SIGINT) == 0


def test_one_process_for_each_folder_and_port(folder: Path, tmp_path: Path) -> None:
    """A second one over the same folder, and one on a taken port, end with a sentence that says what to do."""
    dev = Dev(folder)
    assert dev.url
    second = subprocess.run(
        [sys.executable, "-m", "atomic_service", "dev", "--data", str(folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 14
    assert "Another atomic-service dev is running" in second.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        third = subprocess.run(
            [sys.executable, "-m", "atomic_service", "dev", "--data", str(tmp_path / "other"), "--port", port],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert third.returncode == 8
    assert f"Port {port} is in use" in third.stderr
    assert "--port" in third.stderr
    invite = subprocess.run(
        [sys.executable, "-m", "atomic_service", "invite", "--data", str(folder), "--expires", "1h"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    Device(dev.url).sign_up(invite.stdout.split()[1]).close()
    assert dev.end() == 0


class Pusher:
    """Pushes one record after another in a thread, as an agent does: retried until acknowledged."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.acknowledged: list[bytes] = []
        self.waiting: bytes | None = None
        self._writer: Writer = device.writer()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.waiting = self.waiting or self._writer.seal(size=2000)
            try:
                self.device.push(self.waiting)
            except (httpx.HTTPError, Refusal):
                self._stop.wait(0.02)
                continue
            self.acknowledged.append(self.waiting)
            self.waiting = None

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_kill_of_service_and_postgres_in_mid_push_loses_and_doubles_nothing(folder: Path) -> None:
    """kill -9 of Postgres: the supervisor brings it back under the same service. kill -9 of the service: the
    next one takes the orphan over. What was acknowledged is there once, in order, and the pusher goes on."""
    dev = Dev(folder)
    device = Device(dev.url).sign_up(dev.word_after("invite"))
    pusher = Pusher(device)
    wait_for(lambda: len(pusher.acknowledged) > 5)
    killed = dev.postgres_pid()
    os.kill(killed, signal.SIGKILL)
    count = len(pusher.acknowledged)
    wait_for(lambda: len(pusher.acknowledged) > count + 5, 60)
    assert dev.postgres_pid() != killed

    assert dev.end(signal.SIGKILL) == -signal.SIGKILL
    orphan = dev.postgres_pid()
    assert running(orphan)
    pusher.stop()
    again = Dev(folder)
    device.http.close()
    device.url = again.url
    device.http = client(again.url)
    assert not running(orphan)
    device.log_in()
    if pusher.waiting is not None:
        device.push(pusher.waiting)
        pusher.acknowledged.append(pusher.waiting)
    events = device.pull_all()
    assert [event.raw for event in events] == pusher.acknowledged
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    device.close()
    assert again.end() == 0


def test_help_names_the_commands() -> None:
    """`atomic-service --help` says what there is; every command explains itself."""
    said = subprocess.run(
        [sys.executable, "-m", "atomic_service", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("dev", "serve", "migrate", "invite"):
        assert command in said.stdout
