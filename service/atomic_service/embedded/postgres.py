"""A Postgres of our own under one folder: for `atomic-service dev` and the tests. Never for production.

It listens on a socket in a private temporary folder and nowhere else. The supervisor starts it again
when it is killed, and stops the orphan that a killed supervisor left behind. Measured facts that
shape this: after kill -9 the dead pid stays visible for a moment and a start fails ("postmaster.pid
already exists"), so starts are retried; a process that runs says nothing, so a real query is asked.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import asyncpg

from atomic_service.embedded.binaries import NOBODY, Binaries, PostgresError, copy_for_nobody, find_binaries

OWNER = "atomic_owner"
RETRY_SECONDS = 15.0
STARTUP_SECONDS = 120.0
STOP_SECONDS = 20.0
MAX_LOG_BYTES = 8 * 1024 * 1024
SOCKET_PREFIX = "atomic-pg-"
SOCKET_PATH_LIMIT = 107 - len("/.s.PGSQL.5432.lock")
# Data only a test will read: no syncs.
FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")


class EmbeddedPostgres:
    """One server over `folder/postgres`. `durable=False` is for tests."""

    def __init__(self, folder: Path, *, durable: bool = True, connections: int = 40) -> None:
        self._folder = folder.resolve()
        self._data = self._folder / "postgres"
        self._log = self._folder / "postgres.log"
        self._durable = durable
        self._connections = connections
        self._sockets = Path()
        self._binaries: Binaries | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """The postmaster's process."""
        assert self._process is not None
        return self._process.pid

    def url(self, role: str, database: str) -> str:
        return f"postgresql://{role}@/{database}?host={self._sockets}"

    def start(self) -> None:
        """Returns when the server answers queries about this very folder."""
        stop_orphan(self._data)
        self._binaries = self._choose_binaries()
        self._sockets = self._make_socket_folder()
        try:
            self._initialise(self._binaries)
            self._launch(self._binaries)
        except BaseException:
            self.stop()
            raise
        self._watcher = threading.Thread(target=self._watch, name="postgres-watch", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop the server and leave nothing but its data."""
        self._stopping.set()
        if self._process is not None:
            _end(self._process)
        if self._watcher is not None:
            self._watcher.join(STOP_SECONDS)
        if self._process is not None:  # the watcher may have been starting another
            _end(self._process)
        if self._sockets.name.startswith(SOCKET_PREFIX):
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _choose_binaries(self) -> Binaries:
        version = self._data / "PG_VERSION"
        found = find_binaries(int(version.read_text()) if version.exists() else None)
        if not found.as_nobody:
            return found
        self._folder.chmod(0o711)
        return copy_for_nobody(found, self._folder / "programs")

    def _make_socket_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=SOCKET_PREFIX))
        if len(str(folder)) > SOCKET_PATH_LIMIT:
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix=SOCKET_PREFIX, dir="/tmp"))
        self._give(folder)
        return folder

    def _give(self, path: Path) -> None:
        if self._binaries is not None and self._binaries.as_nobody:
            os.chown(path, NOBODY, NOBODY)

    def _initialise(self, binaries: Binaries) -> None:
        """A half-made data folder never gets the final name."""
        if (self._data / "PG_VERSION").exists():
            return
        fresh = self._folder / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._give(fresh)
        options = ["-D", str(fresh), "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C"]
        if not self._durable:
            options.append("--no-sync")
        environment = {**os.environ, "LC_ALL": "C"}
        made = subprocess.run(
            binaries.command("initdb", *options),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            cwd="/",
        )
        if made.returncode != 0:
            raise PostgresError(f"Postgres could not make its data folder: {made.stderr.strip()[-500:]}")
        fresh.rename(self._data)

    def _launch(self, binaries: Binaries) -> None:
        """Start and wait until it answers; start again while the last life is still dying."""
        give_up = time.monotonic() + RETRY_SECONDS
        while True:
            self._process = self._spawn(binaries)
            if self._answers(self._process):
                return
            if self._stopping.is_set():
                return
            if time.monotonic() > give_up:
                _end(self._process)
                raise PostgresError(
                    "The embedded Postgres does not start.", f"Its reason stands in {self._log}."
                )
            time.sleep(0.2)

    def _spawn(self, binaries: Binaries) -> subprocess.Popen[bytes]:
        settings = [
            "listen_addresses=",
            f"max_connections={self._connections}",
            "unix_socket_permissions=0700",
            "shared_buffers=64MB",
            "log_parameter_max_length_on_error=0",
            *(() if self._durable else FAST),
        ]
        options = ["-D", str(self._data), "-k", str(self._sockets)]
        for setting in settings:
            options += ["-c", setting]
        if self._log.exists() and self._log.stat().st_size > MAX_LOG_BYTES:
            self._log.unlink()
        # A session of its own: Ctrl-C in the terminal reaches the service, which then stops Postgres in order.
        with self._log.open("ab") as log:
            return subprocess.Popen(
                binaries.command("postgres", *options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "LC_ALL": "C"},
            )

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """True once it answers, False when it ended or was told to stop."""
        deadline = time.monotonic() + STARTUP_SECONDS
        while process.poll() is None and not self._stopping.is_set() and time.monotonic() < deadline:
            if asyncio.run(_data_directory(self.url(OWNER, "postgres"))) == self._data:
                return True
            time.sleep(0.05)
        return False

    def _watch(self) -> None:
        """Start the server again whenever it ends by itself."""
        while self._process is not None and self._binaries is not None:
            self._process.wait()
            if self._stopping.is_set():
                return
            try:
                self._launch(self._binaries)
            except PostgresError:
                time.sleep(1)  # the service answers 503 meanwhile


def socket_folder(data: Path) -> Path | None:
    """Where the server over this data folder listens, if one runs or was killed."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return None
    return Path(lines[4]) if len(lines) > 4 and lines[4] else None


def stop_orphan(data: Path) -> None:
    """End a server that a killed supervisor left running over this folder, and its sockets."""
    sockets = socket_folder(data)
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if not _is_ours(pid, data):
            break
        os.kill(pid, how)
        deadline = time.monotonic() + STOP_SECONDS
        while _is_ours(pid, data) and time.monotonic() < deadline:
            time.sleep(0.05)
    if sockets is not None and sockets.name.startswith(SOCKET_PREFIX):
        shutil.rmtree(sockets, ignore_errors=True)


def _is_ours(pid: int, data: Path) -> bool:
    """A pid may have been given to another program since: ask what it runs."""
    shown = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return f"-D {data}" in shown.stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue


async def _data_directory(url: str) -> Path | None:
    try:
        connection = await asyncpg.connect(url, timeout=5)
    except (
        OSError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        TimeoutError,
    ):
        return None
    try:
        return Path(await connection.fetchval("SHOW data_directory"))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return None
    finally:
        await connection.close(timeout=5)
