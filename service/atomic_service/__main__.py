"""The command `atomic-service`: reads arguments, calls one function each, turns errors into exit codes."""

import argparse
import asyncio
import os
import re
import sys
from pathlib import Path

import asyncpg

from atomic_service import settings
from atomic_sessions.errors import AtomicError, ServiceUnreachableError, UsageError

UNITS = {"m": 60, "h": 3600, "d": 24 * 3600}
DEFAULT_PORT = 8480


def main(argv: list[str] | None = None) -> int:
    """Run one command; the process' exit code."""
    arguments = _parser().parse_args(argv)
    try:
        run = {"dev": _dev, "serve": _serve, "migrate": _migrate, "invite": _invite}[arguments.command]
        run(arguments)
    except AtomicError as error:
        print(f"atomic-service: {error}", file=sys.stderr)
        return error.exit_code
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        sentence = ServiceUnreachableError(
            f"The database cannot be reached ({type(error).__name__}).",
            "Check that Postgres runs and its URL is right.",
        )
        print(f"atomic-service: {sentence}", file=sys.stderr)
        return sentence.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="atomic-service",
        description="The service of Atomic Sessions: orders sealed records, holds shares, has no keys.",
        epilog="`dev` needs nothing configured. The others read ATOMIC_* variables: see docs/self-hosting.md.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    dev = commands.add_parser(
        "dev",
        help="everything on this machine: Postgres, blobs and the service, under one folder",
        description="Start Postgres, a blob folder and the service on this machine. Prints `ready URL`, and"
        " `invite CODE` while there is no account. Ctrl-C stops everything; the data stays.",
    )
    dev.add_argument(
        "--data",
        type=Path,
        default=_default_data(),
        metavar="DIR",
        help="where all state lives (%(default)s)",
    )
    dev.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help="port; 0 takes a free one (%(default)s)"
    )
    serve = commands.add_parser(
        "serve",
        help="one replica, configured by ATOMIC_* variables",
        description="Run one replica. Needs ATOMIC_DATABASE_URL, ATOMIC_SERVER_SECRET, ATOMIC_PUBLIC_URL, and "
        "ATOMIC_S3_ENDPOINT, _BUCKET, _ACCESS_KEY and _SECRET_KEY, or ATOMIC_BLOB_DIR. Secrets may come from files: "
        "ATOMIC_SERVER_SECRET_FILE and so on.",
    )
    serve.add_argument("--host", help="address to listen on (ATOMIC_HOST, 127.0.0.1)")
    serve.add_argument("--port", type=int, metavar="N", help="port (ATOMIC_PORT, 8480)")
    commands.add_parser(
        "migrate",
        help="bring the database's schema up to date",
        description="Apply new migrations as ATOMIC_OWNER_DATABASE_URL. Safe to run at any time and more than once.",
    )
    invite = commands.add_parser(
        "invite",
        help="print an invite for one new account",
        description="Print an invite. It works once. It is shown now and stored only as a hash.",
    )
    invite.add_argument(
        "--expires", default="7d", metavar="TIME", help="how long it works: 30m, 12h, 7d (%(default)s)"
    )
    invite.add_argument(
        "--data", type=Path, metavar="DIR", help="of a running `atomic-service dev`, not ATOMIC_DATABASE_URL"
    )
    return parser


def _default_data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "atomic-service"


def _dev(arguments: argparse.Namespace) -> None:
    from atomic_service.dev import run_dev
    from atomic_service.server import set_up_logs

    # A person watches this terminal: requests are shown when asked for.
    level = settings.log_level({"ATOMIC_LOG_LEVEL": "warning", **os.environ})
    set_up_logs(level)
    run_dev(arguments.data, arguments.port, level)


def _serve(arguments: argparse.Namespace) -> None:
    from msgspec.structs import replace

    from atomic_service.server import run_serve, set_up_logs

    chosen = settings.read(os.environ)
    chosen = replace(
        chosen,
        host=arguments.host or chosen.host,
        port=chosen.port if arguments.port is None else arguments.port,
    )
    set_up_logs(chosen.log_level)
    run_serve(chosen)


def _migrate(_: argparse.Namespace) -> None:
    from atomic_service.migrate import migrate

    applied = asyncio.run(migrate(settings.owner_database_url(os.environ)))
    for name in applied:
        print(f"applied {name}")
    print("the schema is up to date")


def _invite(arguments: argparse.Namespace) -> None:
    from atomic_service.embedded.databases import running_database_url
    from atomic_service.invites import make_invite

    seconds = parse_time(arguments.expires)
    if arguments.data is not None:
        url = running_database_url(arguments.data)
    elif settings.optional(os.environ, "ATOMIC_DATABASE_URL") is None:
        url = running_database_url(_default_data())
    else:
        url = settings.database_url(os.environ)
    print(f"invite {asyncio.run(make_invite(url, seconds))}")


def parse_time(text: str) -> int:
    """Seconds of `30m`, `12h` or `7d`."""
    match = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if match is None:
        raise UsageError(f"{text!r} is not a time.", "Write it as 30m, 12h or 7d.")
    return int(match.group(1)) * UNITS[match.group(2)]


if __name__ == "__main__":
    sys.exit(main())
