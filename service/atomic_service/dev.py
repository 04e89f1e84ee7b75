"""`atomic-service dev`: Postgres, blobs and one replica on one machine, all state under one folder. No Docker.

Survives kill -9 of itself and of its Postgres: the next start takes over what is left.
"""

import asyncio
import fcntl
import os
import secrets
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atomic_service.app import Application
from atomic_service.embedded.databases import DATABASE, prepare
from atomic_service.embedded.postgres import EmbeddedPostgres
from atomic_service.invites import make_invite, no_account_yet
from atomic_service.migrate import WEB_ROLE
from atomic_service.server import Server, listen, make_server
from atomic_service.settings import MIN_SECRET_BYTES, Settings
from atomic_sessions.errors import AtomicError, BusyError, UsageError

HOST = "127.0.0.1"
READY_SECONDS = 60.0


class Stopped(BaseException):
    """The process was told to end; raised wherever the main thread happens to be."""


def run_dev(folder: Path, port: int, log_level: str) -> None:
    """Run until told to stop. Prints `ready URL`, and an invite while there is no account."""
    with _stoppable(), _locked(folder):
        listener = listen(HOST, port)
        postgres = EmbeddedPostgres(folder)
        try:
            postgres.start()
            asyncio.run(prepare(postgres, DATABASE))
            url = f"http://{HOST}:{listener.getsockname()[1]}"
            settings = Settings(
                database_url=postgres.url(WEB_ROLE, DATABASE),
                server_secret=_server_secret(folder / "server-secret"),
                public_url=url,
                blob_dir=folder / "blobs",
                log_level=log_level,
                dev=True,
            )
            server = make_server(Application(settings))
            with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                runner.run(_serve(server, listener, settings, url))
        finally:
            listener.close()
            postgres.stop()


async def _serve(server: Server, listener: socket.socket, settings: Settings, url: str) -> None:
    serving = asyncio.create_task(server.serve([listener]))
    announcing = asyncio.create_task(_announce(url, settings))
    await asyncio.wait({serving, announcing}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        announcing.cancel()
        raise AtomicError("The service could not start.", "Its reason stands above.")
    await announcing
    await serving


async def _announce(url: str, settings: Settings) -> None:
    """Say that the service is ready once it really answers."""
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    while not await asyncio.to_thread(_answers, url):
        if asyncio.get_running_loop().time() > deadline:
            raise AtomicError("The service started and does not answer.", "Its reason stands above.")
        await asyncio.sleep(0.05)
    print(f"ready {url}", flush=True)
    if await no_account_yet(settings.database_url):
        print(f"invite {await make_invite(settings.database_url)}", flush=True)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as reply:  # noqa: S310 - our own address
            return bool(reply.status == 200)
    except OSError:
        return False


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM and SIGINT unwind the block, whatever it does. uvicorn takes them over while it serves and
    raises them again when it has finished."""

    def stop(*_: object) -> None:
        raise Stopped

    def hang_up(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: hang_up}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
        del handlers[signal.SIGHUP]
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    except Stopped:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process for each folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise UsageError(
            f"The folder {folder} cannot be used.", "Choose one of your own with --data."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"Another atomic-service dev is running over {folder}.",
                "Use that one, or choose another --data.",
            ) from error
        yield


def _server_secret(path: Path) -> bytes:
    """Made once; readable by its owner only."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        fresh = secrets.token_bytes(MIN_SECRET_BYTES)
        partial = path.with_suffix(".new")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(fresh)
            os.fsync(file.fileno())
        partial.replace(path)
        return fresh
