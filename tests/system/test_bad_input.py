"""Bad input gets one clear sentence with the mend and its own exit code, and loses nothing."""

import http.server
import socketserver
import sqlite3
import threading
from pathlib import Path

import pytest

from system.machines import Done, Machine, MakeMachine, RunningService


def _is_one_sentence(done: Done) -> None:
    lines = [line for line in done.err.splitlines() if line.startswith("atomic: ")]
    assert len(lines) == 1, done.err[-500:]
    assert "Traceback" not in done.err


def test_without_any_key_store(machine: MakeMachine) -> None:
    """No keyring and no key file: exit 3, three ways out, and neither key nor cache is made."""
    laptop = machine("laptop")
    done = laptop.atomic("sessions", ATOMIC_KEY_FILE="", DBUS_SESSION_BUS_ADDRESS="", code=3)
    assert "ATOMIC_KEY_FILE" in done.err
    assert "keys use passphrase" in done.err
    assert not laptop.cache.exists()


def test_a_plaintext_keyring_is_refused(machine: MakeMachine) -> None:
    """A backend that does not protect keys is refused by name."""
    laptop = machine("laptop")
    done = laptop.atomic(
        "sessions", ATOMIC_KEY_FILE="", PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring", code=3
    )
    assert "null.Keyring" in done.err
    assert not laptop.cache.exists()


def test_a_wrong_and_a_missing_key(machine: MakeMachine) -> None:
    """Exit 4; the message names both keys, the cache is unchanged byte for byte."""
    laptop, other = machine("laptop"), machine("other")
    laptop.say("to be kept")
    before = laptop.cache.read_bytes()
    done = laptop.atomic("sessions", ATOMIC_KEY_FILE=str(other.key_file), code=4)
    assert done.err.count("k1:") == 2
    _is_one_sentence(done)
    assert "hmac" not in done.err
    _is_one_sentence(laptop.atomic("sessions", ATOMIC_KEY_FILE="", code=4))
    assert laptop.cache.read_bytes() == before
    assert laptop.sessions()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "not hold a key"), (b"short", "not hold a key"), (b"!" * 44, "not hold a key")],
)
def test_a_key_file_that_is_none(machine: MakeMachine, content: bytes, words: str) -> None:
    """A file without 32 bytes in base64 is refused and named."""
    laptop = machine("laptop")
    laptop.key_file.write_bytes(content)
    done = laptop.atomic("sessions", code=4)
    assert words in done.err
    assert "openssl rand" in done.err


def test_a_key_file_that_others_can_read(machine: MakeMachine) -> None:
    """Its mode must be 0600."""
    laptop = machine("laptop")
    laptop.key_file.chmod(0o644)
    assert "chmod 600" in laptop.atomic("sessions", code=3).err


def test_a_foreign_database_at_the_caches_path(machine: MakeMachine) -> None:
    """Another program's SQLite file is never touched."""
    laptop = machine("laptop")
    laptop.cache.parent.mkdir(parents=True, mode=0o700)
    laptop.cache.parent.parent.chmod(0o700)
    with sqlite3.connect(laptop.cache) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    laptop.cache.chmod(0o600)
    before = laptop.cache.read_bytes()
    done = laptop.atomic("capture", code=5)
    assert "another program" in done.err
    assert "ATOMIC_HOME" in done.err
    assert laptop.cache.read_bytes() == before


def test_a_cache_that_is_a_link_or_open_to_others(machine: MakeMachine) -> None:
    """A symbolic link or a readable file in the cache's place is refused with the command that mends it."""
    laptop = machine("laptop")
    laptop.say("x")
    laptop.cache.chmod(0o644)
    assert "chmod 600" in laptop.atomic("sessions", code=5).err
    laptop.cache.chmod(0o600)
    real = laptop.cache.with_name("real")
    laptop.cache.rename(real)
    laptop.cache.symlink_to(real)
    assert "symbolic link" in laptop.atomic("sessions", code=5).err


def test_a_damaged_cache_is_told_from_a_wrong_key(machine: MakeMachine) -> None:
    """Flipped bytes: exit 5, the key is named as the right one, nothing is deleted."""
    laptop = machine("laptop")
    laptop.say("x")
    content = bytearray(laptop.cache.read_bytes())
    for at in range(0, 4096, 64):
        content[at] ^= 0xFF
    laptop.cache.write_bytes(bytes(content))
    done = laptop.atomic("sessions", code=5)
    assert "damaged" in done.err
    _is_one_sentence(done)
    assert laptop.cache.read_bytes() == bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("empty.jsonl", b"", 6, "empty"),
        ("foreign.jsonl", b'{"hello": 1}\n', 6, "not a session"),
        ("noise.jsonl", bytes(range(256)) * 40, 6, "not a session"),
        ("page.html", b"<!doctype html><p>x", 6, "not a session"),
        (
            "future.jsonl",
            b'{"type":"session","version":99,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n',
            6,
            "format 99",
        ),
        ("other4.jsonl", b'{"kind":"header","version":4,"id":"x"}\n', 6, "another program"),
    ],
)
def test_session_files_that_cannot_be_imported(
    machine: MakeMachine, tmp_path: Path, name: str, content: bytes, code: int, words: str
) -> None:
    """Unreadable, foreign, empty and future files are named; capture skips them with the reason."""
    laptop = machine("laptop")
    folder = tmp_path / "files"
    folder.mkdir()
    path = folder / name
    path.write_bytes(content)
    done = laptop.atomic("--import", str(path), code=code)
    assert words in done.err
    assert name in done.err
    _is_one_sentence(done)
    assert laptop.sessions() == []
    if name.endswith(".jsonl"):
        assert name in laptop.atomic("capture", "--from", str(folder)).out
    assert path.read_bytes() == content


def test_an_import_never_replaces(machine: MakeMachine, tmp_path: Path) -> None:
    """A second import of one id is refused; the session is as it was."""
    laptop = machine("laptop")
    laptop.say("the original")
    (session,) = laptop.sessions()
    path = tmp_path / "copy.jsonl"
    path.write_text(laptop.tree(session["id"]))
    assert "here already" in laptop.atomic("--import", str(path), code=12).err
    assert laptop.sessions() == [session]


def test_a_service_that_is_not_there_or_not_ours(machine: MakeMachine, tmp_path: Path) -> None:
    """Nothing listens, a proxy's page answers, an address is none: exit 8 or 2, and what to check."""
    laptop = machine("laptop")
    assert (
        "cannot be reached"
        in laptop.atomic("login", "http://127.0.0.1:9", "--invite", "-", stdin="x", code=8).err
    )
    assert "https://" in laptop.atomic("login", "http://example.com", "--invite", "-", stdin="x", code=2).err
    assert "address" in laptop.atomic("login", "ftp://x", "--invite", "-", stdin="x", code=2).err
    with socketserver.TCPServer(("127.0.0.1", 0), _Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = laptop.atomic("login", url, "--invite", "-", stdin="x", code=8)
        server.shutdown()
    assert "not an Atomic service" in done.err
    assert "login page" in done.err


class _Portal(http.server.BaseHTTPRequestHandler):
    """A captive portal: 200 and HTML to everything."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>Please log in to the hotel</html>")

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


def test_a_wrong_or_used_invite(machine: MakeMachine, service: RunningService) -> None:
    """Exit 9 and how to get another; this machine is in no account then."""
    laptop, other = machine("laptop"), machine("other")
    invite = service.invite()
    laptop.atomic("login", service.url, "--invite", "-", stdin=invite)
    for code in (invite, "NOSUCH-INVITE0-AAAAAA-BBBBBB"):
        done = other.atomic("login", service.url, "--invite", "-", stdin=code, code=9)
        assert "atomic-service invite" in done.err
        assert code not in done.err
    assert "none" in other.atomic("status").out


def test_syncing_without_an_account(machine: MakeMachine) -> None:
    """Says how to log in."""
    assert "atomic login" in machine("laptop").atomic("sync", code=9).err


def test_ids_that_fit_nothing_or_too_much(machine: MakeMachine) -> None:
    """Unknown ids, prefixes that fit two sessions, and paths are told apart."""
    laptop = machine("laptop")
    for tail in ("000000000001", "000000000002"):
        session = f"abcdef01-0000-4000-8000-{tail}"
        from system.machines import claude_lines

        laptop.claude_file(session, claude_lines(session, str(laptop.folder), ["q", "a"]))
    laptop.atomic("capture")
    assert "There is no session" in laptop.atomic("show", "ffffffff", code=7).err
    both = laptop.atomic("show", "abcdef01", code=7).err
    assert "000000000001" in both
    assert "000000000002" in both
    assert "--import" in laptop.atomic("show", "./a.jsonl", code=7).err
    assert "whole id" in laptop.atomic("show", "abcdef0", code=7).err


def test_wrong_pairing_strings_and_words(
    laptop: Machine, machine: MakeMachine, service: RunningService
) -> None:
    """A mistyped string, a string without a mailbox, words nobody shows."""
    other = machine("other")
    assert (
        "pairing string" in other.atomic("login", service.url, "--join", "-", stdin="atomic1-x", code=2).err
    )
    unknown = "atomic1-" + "a" * 26
    assert "No pairing waits" in other.atomic("login", service.url, "--join", "-", stdin=unknown, code=7).err
    assert "devices add" in laptop.atomic("devices", "approve", "--yes", "a", "b", "c", "d", code=7).err
    string = laptop.atomic("devices", "add").out
    waiting = other.start("login", service.url, "--join", "-", stdin=string)
    assert waiting.stdout is not None
    next(line for line in waiting.stdout if line.startswith("Words: "))
    wrong = laptop.atomic("devices", "approve", "--yes", "zoo", "zoo", "zoo", "zoo", code=2)
    assert "called off" in wrong.err
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 7
    assert "called the pairing off" in err
    assert "desktop" not in laptop.atomic("devices").out
