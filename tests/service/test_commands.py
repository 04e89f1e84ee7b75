"""serve, migrate and invite with settings from the environment: sentences, exit codes, secrets from files."""

import base64
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from atomic_service import settings
from atomic_service.__main__ import main, parse_time
from atomic_service.embedded.postgres import OWNER, EmbeddedPostgres
from atomic_service.migrate import WEB_ROLE
from atomic_sessions.errors import UsageError
from service.running import wait_for

SECRET = base64.b64encode(b"\x01" * 32).decode()
GOOD = {
    "ATOMIC_DATABASE_URL": "postgresql://atomic_web:pass-word@db/atomic",
    "ATOMIC_SERVER_SECRET": SECRET,
    "ATOMIC_PUBLIC_URL": "https://Sync.example/",
    "ATOMIC_S3_ENDPOINT": "http://s3:8333",
    "ATOMIC_S3_BUCKET": "atomic",
    "ATOMIC_S3_ACCESS_KEY": "access-key",
    "ATOMIC_S3_SECRET_KEY": "secret-key",
}


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ATOMIC_")}
    return subprocess.run(
        [sys.executable, "-m", "atomic_service", *arguments],
        capture_output=True, text=True, timeout=60, env={**clean, **env}, check=False,
    )  # fmt: skip


def test_settings_are_read_and_show_no_secret() -> None:
    """Addresses are normalised, and a repr holds neither password nor key."""
    chosen = settings.read(GOOD)
    assert chosen.public_url == "https://sync.example"
    assert chosen.s3 is not None
    assert chosen.s3.public_endpoint == "http://s3:8333"
    shown = repr(chosen) + str(chosen) + repr(chosen.s3)
    for secret in ("pass-word", "secret-key", "access-key", SECRET, repr(chosen.server_secret)):
        assert secret not in shown


def test_secrets_come_from_files_too(tmp_path: Path) -> None:
    """NAME_FILE names a file with the value; both at once is a mistake, as is a file that cannot be read."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    env = {name: value for name, value in GOOD.items() if name != "ATOMIC_SERVER_SECRET"}
    chosen = settings.read({**env, "ATOMIC_SERVER_SECRET_FILE": str(tmp_path / "secret")})
    assert chosen.server_secret == b"\x01" * 32
    for wrong in (
        {"ATOMIC_SERVER_SECRET_FILE": str(tmp_path / "no")},
        {**GOOD, "ATOMIC_SERVER_SECRET_FILE": "x"},
    ):
        with pytest.raises(UsageError, match="ATOMIC_SERVER_SECRET_FILE"):
            settings.read({**env, **wrong})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ATOMIC_DATABASE_URL": ""}, "ATOMIC_DATABASE_URL"),
        ({"ATOMIC_SERVER_SECRET": ""}, "ATOMIC_SERVER_SECRET"),
        ({"ATOMIC_SERVER_SECRET": "c2hvcnQ="}, "ATOMIC_SERVER_SECRET"),
        ({"ATOMIC_SERVER_SECRET": "not base64!"}, "ATOMIC_SERVER_SECRET"),
        ({"ATOMIC_PUBLIC_URL": "sync.example"}, "ATOMIC_PUBLIC_URL"),
        ({"ATOMIC_PUBLIC_URL": "https://sync.example/path"}, "ATOMIC_PUBLIC_URL"),
        ({"ATOMIC_S3_BUCKET": ""}, "ATOMIC_S3_BUCKET"),
        ({"ATOMIC_S3_ENDPOINT": ""}, "ATOMIC_BLOB_DIR"),
        ({"ATOMIC_BLOB_DIR": "/blobs"}, "ATOMIC_BLOB_DIR"),
        ({"ATOMIC_PORT": "eighty"}, "ATOMIC_PORT"),
        ({"ATOMIC_PORT": "70000"}, "ATOMIC_PORT"),
    ],
)
def test_wrong_settings_are_named_with_their_mend(changes: dict[str, str], named: str) -> None:
    """One sentence that names the variable, one that says what to write; never the value of a secret."""
    with pytest.raises(UsageError, match=named) as refusal:
        settings.read({**GOOD, **changes})
    assert refusal.value.mend
    assert "c2hvcnQ" not in str(refusal.value)


@pytest.mark.parametrize("arguments", [["serve"], ["migrate"], ["invite", "--data", "/nonexistent"]])
def test_commands_without_settings_end_with_a_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, the sentence on stderr, nothing on stdout."""
    for name in [name for name in os.environ if name.startswith("ATOMIC_")]:
        monkeypatch.delenv(name)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("atomic-service: ")


def test_unreachable_database_ends_with_a_sentence() -> None:
    """migrate and invite say that the database is away, without a traceback or a password."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"postgresql://atomic_owner:pass-word@127.0.0.1:{port}/atomic"
    for command, name in (("migrate", "ATOMIC_OWNER_DATABASE_URL"), ("invite", "ATOMIC_DATABASE_URL")):
        said = run(command, **{name: url})
        assert said.returncode == 8
        assert "The database cannot be reached" in said.stderr
        assert "pass-word" not in said.stderr
        assert "Traceback" not in said.stderr


def test_serve_runs_until_it_is_told_to_stop(
    postgres: EmbeddedPostgres, database: str, tmp_path: Path
) -> None:
    """migrate finds nothing to do, invite prints a code, serve answers and ends with 0 at SIGTERM."""
    migrated = run("migrate", ATOMIC_OWNER_DATABASE_URL=postgres.url(OWNER, database))
    assert (migrated.returncode, migrated.stdout) == (0, "the schema is up to date\n")
    web = postgres.url(WEB_ROLE, database)
    invited = run("invite", ATOMIC_DATABASE_URL=web)
    assert invited.stdout.startswith("invite ")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "atomic_service", "serve", "--port", str(port)],
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            "ATOMIC_DATABASE_URL": web,
            "ATOMIC_SERVER_SECRET": SECRET,
            "ATOMIC_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "ATOMIC_BLOB_DIR": str(tmp_path / "blobs"),
        },
    )
    wait_for(lambda: _ready(port), 60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def test_times_are_read() -> None:
    """Minutes, hours and days; anything else is a sentence."""
    assert [parse_time(text) for text in ("30m", "12h", "7d")] == [1800, 43_200, 604_800]
    for text in ("", "7", "d", "-1d", "0d", "1w", "7d "):
        with pytest.raises(UsageError):
            parse_time(text)
