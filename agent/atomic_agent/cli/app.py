"""The program `atomic`: lists its commands, runs one, and turns errors into one sentence.

Commands are imported when they are used, so that `--help` stays fast.
"""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from atomic_agent import interrupts
from atomic_sessions.errors import AtomicError, CacheRefusedError

COMMANDS: dict[str, tuple[str, str]] = {
    "sessions": ("sessions", "list, search, rename, delete, fork, clone sessions"),
    "show": ("show", "print a session's conversation"),
    "export": ("export", "write a session to a file: .html, .jsonl or .md"),
    "capture": ("capture", "bring in the sessions of Claude Code, Codex, pi and Atomic"),
    "login": ("login", "join this machine to an account on a service"),
    "logout": ("logout", "leave the account on this machine; sessions stay"),
    "sync": ("sync", "send and fetch what is new; --watch keeps going"),
    "status": ("status", "what is here, what is not synced, and with whom"),
    "doctor": ("doctor", "what is well here, what is not, and the mend"),
    "devices": ("devices", "machines of the account: list, add, approve"),
    "share": ("share", "publish a session under a link"),
    "shares": ("shares", "list links, revoke one"),
    "recovery": ("recovery", "save or use a recovery kit"),
    "trust": ("trust", "let this project's settings say where sessions go"),
    "keys": ("keys", "provider keys, and where this machine keeps its own key"),
}
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; leaves with the exit code of docs/exit-codes.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    interrupts.install()
    try:
        code = run(arguments)
        sys.stdout.flush()
    except AtomicError as error:
        print(f"atomic: {_shown(str(error))}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("atomic: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001  # the edge: whatever was not foreseen must not print what it holds
        code = _unforeseen(error)
    sys.exit(code)


def _shown(message: str) -> str:
    """An error's sentence on one line; it may quote an id or a path that holds escapes."""
    from atomic_agent.cli.terminal import safe

    return safe(message).replace("\n", " ")


def _unforeseen(error: Exception) -> int:
    """One sentence for an error nobody foresaw: where it happened, never what it said."""
    if os.environ.get("ATOMIC_DEBUG") == "1":
        import traceback

        # The frames alone: an exception's own words may quote what it choked on (A6).
        sys.stderr.writelines(traceback.format_tb(error.__traceback__))
    database = sys.modules.get("sqlcipher3.dbapi2")
    if database is not None and isinstance(error, database.OperationalError):
        from atomic_agent.cache.open import disk_error

        told: AtomicError = disk_error(error)
        print(f"atomic: {told}", file=sys.stderr)
        return told.exit_code
    if database is not None and isinstance(error, database.DatabaseError):
        print(
            "atomic: The cache answered as a damaged one does. Run: atomic doctor --repair", file=sys.stderr
        )
        return CacheRefusedError.exit_code
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_globals.get('__name__', '?')}:{frame.tb_lineno}" if frame is not None else "?"
    print(
        f"atomic: an unexpected {type(error).__name__} at {place}. This is a bug; nothing half done was saved."
        " ATOMIC_DEBUG=1 shows the way there.",
        file=sys.stderr,
    )
    return 1


def _import_msgspec() -> None:
    """msgspec looks to typing_extensions for what typing itself has had since 3.11, and finding it there
    takes a tenth of a short command's time."""
    if "typing_extensions" not in sys.modules and "msgspec" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # how Python marks what is not to be found
        importlib.import_module("msgspec")
        del sys.modules["typing_extensions"]


class _Parser(argparse.ArgumentParser):
    """argparse, which repeats what it does not expect: a pasted link's key is left out of that."""

    def error(self, message: str) -> NoReturn:
        super().error(re.sub(r"#\S+", "#…", message))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code, raises AtomicError."""
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        _import_msgspec()
        module = importlib.import_module(f"atomic_agent.cli.{COMMANDS[name][0]}")
        parser = _Parser(prog=f"atomic {name}", description=COMMANDS[name][1])
        module.arguments(parser)
        return int(module.run(parser.parse_intermixed_args(arguments[1:])))
    if name in {"help", "-h", "--help"}:
        print(overview())
        return 0
    if name in {"-V", "--version"}:
        from importlib.metadata import version

        print(f"atomic {version('atomic-sessions')}")
        return 0
    if name and not name.startswith("-"):
        known = "".join(character for character in name[:40] if character.isprintable())
        print(f"atomic: there is no command '{known}'. See: atomic --help", file=sys.stderr)
        return 2
    converse = importlib.import_module("atomic_agent.cli.converse")
    parser = _Parser(prog="atomic", usage="atomic [options]  |  atomic COMMAND …")
    converse.arguments(parser)
    return int(converse.run(parser.parse_args(converse.joined(arguments))))


def overview() -> str:
    """The help text."""
    lines = [
        "atomic: your coding agents' sessions, encrypted here, on all your machines",
        "",
        "  atomic                    a new conversation in this folder",
        '  atomic -c [-p "…"]        go on with the newest session of this project (one turn with -p)',
        "  atomic -r                 choose one of this project's sessions",
        "  atomic --session ID       go on with this session",
        "  atomic --fork ID          go on in a copy",
        "  atomic --import FILE|LINK bring in an export or a shared session",
        "    -p PROMPT, --mode json, --provider P, --model M, --effort LEVEL, --name NAME, --no-session,",
        "    --session-id ID, --resume-interrupted, --drop-interrupted, --take-over,",
        "    --session-dir FOLDER | --session-store FILE [--session-prefix P] | --storage JSON | --storage-file FILE,",
        "    --trust: where sessions are kept; also with sessions, show, export, share and status",
        "    --tools a,b | +a,-b, --no-tools, --no-builtin-tools, --exclude-tools a,b",
        "",
        "Commands:",
        *(f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()),
        "",
        "Each has --help. ATOMIC_HOME moves ~/.atomic; ATOMIC_KEY_FILE names a key file.",
        "Where a secret, a link or a prompt goes, `-` reads it from standard input.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
