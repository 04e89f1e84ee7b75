"""Runs the application under uvicorn. Owns the socket, the logs and the end of the process' life."""

import errno
import logging
import signal
import socket
import sys
from typing import Any

import uvicorn

from atomic_service.app import Application
from atomic_service.settings import Settings
from atomic_sessions.errors import AtomicError

BACKLOG = 2048
GRACE_SECONDS = 15
KEEP_ALIVE_SECONDS = 75  # longer than the proxy keeps its side


class PortInUseError(AtomicError):
    """Something else listens where the service should."""

    exit_code = 8


class Server(uvicorn.Server):
    """uvicorn that ends the open streams first when it is told to stop."""

    def __init__(self, application: Application, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.end_streams()
        await super().shutdown(sockets)


def make_server(application: Application) -> Server:
    """A server for one application; uvloop and httptools where they are installed."""
    config = uvicorn.Config(
        application.asgi,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    # Its access log holds paths, and paths hold ids of mailboxes and links. access_log=False alone can be undone by
    # whatever configures logging later in this process.
    logging.getLogger("uvicorn.access").addFilter(_drop)
    return Server(application, config)


def _drop(_: logging.LogRecord) -> bool:
    return False


def listen(host: str, port: int) -> socket.socket:
    """The listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"Port {port} is in use by another program.",
                "Choose another with --port, or --port 0 for a free one.",
            ) from error
        raise AtomicError(
            f"The service cannot listen on {host}, port {port}.", "Check ATOMIC_HOST and the port."
        ) from error
    return listener


def set_up_logs(level: str) -> None:
    """Lines on stderr: stdout belongs to answers such as `ready` and `invite`."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    options: dict[str, Any] = {"level": level.upper(), "handlers": [handler], "force": True}
    logging.basicConfig(**options)
    for chatty in ("botocore", "boto3", "urllib3", "asyncio", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def run_serve(settings: Settings) -> None:
    """One replica until SIGTERM or SIGINT."""
    listener = listen(settings.host, settings.port)
    server = make_server(Application(settings))

    def ended(*_: object) -> None:
        """uvicorn raises the signal it stopped for once more; by then all is done."""

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)
    server.run([listener])
