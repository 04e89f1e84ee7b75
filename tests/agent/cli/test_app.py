"""The program's edge: help, start-up, exit codes, and one sentence for every error."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.capture.files import PI_ID, SID, claude, pi, pi_header, text_of
from agent.cli.machine import Machine
from atomic_agent.cli import app
from atomic_sessions import errors
from atomic_sessions.errors import AtomicError

STORE = {"--session-dir", "--session-store", "--session-prefix", "--storage", "--storage-file", "--trust"}
FLAGS: dict[str, set[str]] = {
    "sessions": {
        "--all",
        "--internal",
        "--search",
        "--limit",
        "--at",
        "--messages",
        "--json",
        "--yes",
        *STORE,
    },
    "show": {"--branch", "--json", *STORE},
    "export": {"--as", "--branch", "--redact", "--force", *STORE},
    "capture": {"--from", "--json"},
    "login": {"--invite", "--join", "--name"},
    "logout": {"--yes"},
    "sync": {"--watch", "--json"},
    "status": {"--json", *STORE},
    "doctor": {"--json"},
    "devices": {"--yes", "--json"},
    "share": {"--public", "--expires", "--password", "--views", "--new", "--yes", "--json", *STORE},
    "shares": {"--links", "--json"},
    "recovery": {"--key-file"},
    "keys": {"--json"},
    "trust": {"--json"},
}


def test_the_list_of_commands_is_complete(machine: Machine) -> None:
    """`atomic --help` names every command, and this file knows every one."""
    said = machine.atomic("--help")
    assert said.code == 0
    assert said.err == ""
    assert set(app.COMMANDS) == set(FLAGS)
    for name, (_, about) in app.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(about)}$", said.out, re.MULTILINE)
    assert machine.atomic("help").out == machine.atomic("-h").out == said.out


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_every_command_helps(machine: Machine, name: str) -> None:
    """Its help names its flags and opens nothing."""
    said = machine.atomic(name, "--help")
    assert said.code == 0
    assert set(re.findall(r"--[a-z-]+", said.out)) - {"--help"} >= FLAGS[name]
    assert not machine.cache.exists()


def test_the_conversations_own_flags(machine: Machine) -> None:
    """Without a command the flags of a conversation are shown by its own parser's errors."""
    said = machine.atomic("--no-such-flag")
    assert said.code == 2
    assert "--no-such-flag" in said.err


def test_the_version(machine: Machine) -> None:
    """Both spellings."""
    assert re.fullmatch(r"atomic \d+\.\d+\.\d+\S*\n", machine.atomic("--version").out)
    assert machine.atomic("-V").out == machine.atomic("--version").out


@pytest.mark.parametrize("name", ["sesions", "Sessions", "x" * 500, "\x1b[31mred", "../x"])
def test_unknown_commands(machine: Machine, name: str) -> None:
    """Exit 2, one line that names it and the help, without its escapes."""
    said = machine.atomic(name)
    assert said.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "atomic --help" in said.err
    assert len(said.err) < 200
    assert "\x1b" not in said.err
    assert not machine.cache.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "--nope"),
        ("sessions", "frobnicate"),
        ("sessions", "--limit", "x"),
        ("export",),
        ("recovery", "x", "y"),
        ("keys",),
    ],
)
def test_wrong_flags(machine: Machine, words: tuple[str, ...]) -> None:
    """Exit 2 and how the command is used."""
    said = machine.atomic(*words)
    assert said.code == 2
    assert f"usage: atomic {words[0]}" in said.err
    assert said.out == ""


HEAVY = (
    "httpx",
    "openai",
    "anthropic",
    "keyring",
    "textual",
    "asyncio",
    "sqlcipher3",
    "cryptography",
    "msgspec",
)


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (("--help",), HEAVY),
        (("--version",), HEAVY[:6]),
        (("nonsense",), HEAVY),
        (("sessions", "--all"), HEAVY[:5]),
        (("sessions", "--help"), HEAVY[:5]),
        (("status",), ("openai", "anthropic", "keyring", "textual")),
        (("capture", "--help"), HEAVY[:5]),
        (("export", "--help"), ("openai", "anthropic", "keyring", "textual")),
    ],
)
def test_start_up_stays_light(machine: Machine, words: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    """What a command does not need is not imported: the same process tells which modules it loaded."""
    code = (
        "import sys\nfrom atomic_agent.cli import app\n"
        "try: app.main(sys.argv[2:])\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.argv[1].split(',') if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, ",".join(heavy), *words],
        env=machine.env,
        cwd=machine.project,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == ""


def _tree() -> dict[str, int]:
    """Names and codes of the tree drawn in errors.py."""
    found: dict[str, int] = {}
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]  # it has one
        if match := re.search(r"(\w+Error)\s+(?:exit )?(\d+)(?:\s|$)", line):
            found[match.group(1)] = int(match.group(2))
    return found


def test_the_table_of_exit_codes() -> None:
    """Every error class stands in the tree with its code; a code belongs to one branch of the tree."""
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, AtomicError)
    }
    assert {name: kind.exit_code for name, kind in classes.items()} == _tree()
    for name, kind in classes.items():
        for other in classes.values():
            if kind.exit_code == other.exit_code:
                assert (
                    issubclass(kind, other) or issubclass(other, kind) or kind.__base__ is other.__base__
                ), name
    assert app.INTERRUPTED not in _tree().values()
    assert 0 not in _tree().values()


@pytest.mark.parametrize("name", sorted(_tree()))
def test_an_error_is_one_sentence_and_its_code(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever is raised becomes `atomic: message mend` on stderr, with escapes taken out."""

    def fail(_: list[str]) -> int:
        raise getattr(errors, name)("It \x1b[31mfailed.", "Do \u202ethis.")

    monkeypatch.setattr(app, "run", fail)
    said = machine.atomic("sessions")
    assert said.code == _tree()[name]
    assert said.err == "atomic: It failed. Do this.\n"
    assert said.out == ""


def test_an_interruption(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is no error with a traceback: one line and 130."""

    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run", interrupt)
    assert machine.atomic("sessions").code == 130


def _fill(machine: Machine, count: int) -> None:
    for number in range(count):
        sid = f"{number:08d}-0000-4000-8000-000000000000"
        (machine.files / f"{sid}.jsonl").write_bytes(text_of([claude(0, f"question {number}", sid=sid)]))
    assert machine.atomic("capture", "--from", str(machine.files)).code == 0


@pytest.mark.parametrize(
    "words",
    [("sessions", "--all"), ("sessions", "--json"), ("sessions", "--search", "question"), ("--help",)],
)
def test_a_reader_that_leaves(machine: Machine, words: tuple[str, ...]) -> None:
    """`atomic … | head -1`: exit 0 and not a word on stderr."""
    _fill(machine, 3)
    reading, writing = os.pipe()
    os.close(reading)
    done = machine.process(*words, stdout=writing)
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 0


def test_a_damaged_cache_is_one_sentence(machine: Machine) -> None:
    """Damage that shows only while reading is told like any other error."""
    _fill(machine, 60)
    size = machine.cache.stat().st_size
    assert size > 8 * 4096
    for at in range(4096, size, 4096):
        content = bytearray(machine.cache.read_bytes())
        content[at + 100 : at + 200] = bytes(100)
        machine.cache.write_bytes(bytes(content))
    said = machine.atomic("sessions", "--all")
    assert said.code == 5
    assert said.err.count("\n") == 1
    assert "damaged" in said.err


KEYS = {
    "id",
    "name",
    "first_message",
    "summary",
    "agent",
    "cwd",
    "project",
    "messages",
    "created_at",
    "newest_at",
    "machines",
}


def test_sessions_as_json(machine: Machine) -> None:
    """One object a line with at least the promised members, of the promised types."""
    (machine.files / f"{SID}.jsonl").write_bytes(text_of([claude(0, "ask\u2028me"), claude(1, "say")]))
    (machine.files / "2026.jsonl").write_bytes(
        text_of(
            [pi_header(), pi(0, "q"), {"type": "session_info", "id": "n", "parentId": None, "name": "Named"}]
        )
    )
    machine.atomic("capture", "--from", str(machine.files))
    found = {one["id"]: one for one in machine.atomic("sessions", "--json").json()}
    assert set(found) == {SID, PI_ID}
    for one in found.values():
        assert set(one) >= KEYS
        assert isinstance(one["messages"], int)
        assert isinstance(one["machines"], list)
        for member in ("created_at", "newest_at"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one[member])
    assert found[SID]["first_message"] == "ask me"
    assert (found[PI_ID]["name"], found[PI_ID]["agent"]) == ("Named", "pi")
    assert found[SID]["machines"] == ["this machine"]


def test_searching_as_json(machine: Machine) -> None:
    """Hits have the entry and the text around it; nothing found is no line and exit 0."""
    _fill(machine, 3)
    (hit,) = machine.atomic("sessions", "--search", "question 2", "--json").json()
    assert "question 2" in hit["snippet"]
    assert hit["entry"]
    nothing = machine.atomic("sessions", "--search", "walrus", "--json")
    assert (nothing.code, nothing.out) == (0, "")
    assert "No session matches" in machine.atomic("sessions", "--search", "walrus").out


def test_capture_as_json(machine: Machine) -> None:
    """Counts, agents and skipped files with their reasons."""
    (machine.files / "bad.jsonl").write_bytes(b"nonsense\n")
    (machine.files / f"{SID}.jsonl").write_bytes(text_of([claude(0, "q")]))
    (found,) = machine.atomic("capture", "--from", str(machine.files), "--json").json()
    assert set(found) >= {
        "new",
        "updated",
        "unchanged",
        "deleted",
        "entries",
        "bytes",
        "damaged",
        "held_back",
        "rewritten",
        "skipped",
        "agents",
    }
    assert found["skipped"] == [{"path": str(machine.files / "bad.jsonl"), "why": "not a session"}]
    assert found["agents"] == {"claude-code": 1}


def test_status_as_json(machine: Machine) -> None:
    """Stable members, no secret, null where there is no account."""
    (found,) = machine.atomic("status", "--json").json()
    assert set(found) >= {
        "cache",
        "cache_bytes",
        "key",
        "key_store",
        "recovery_kit_saved",
        "sessions",
        "internal_sessions",
        "entries",
        "service",
        "machine",
        "unsynced_entries",
        "unsynced_records",
        "last_sync",
        "refused_records",
    }
    assert found["key_store"] == "given"
    assert found["service"] is None
    assert bytes(range(32)).hex() not in json.dumps(found)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sync",), 9),
        (("devices",), 9),
        (("shares",), 9),
        (("logout", "--yes"), 9),
        (("show", "ffffffff"), 7),
        (("export", "ffffffff", "x.html"), 7),
        (("sessions", "delete", "ffffffff", "--yes"), 7),
        (("sessions", "delete"), 2),
        (("login", "http://127.0.0.1:9"), 2),
        (("capture", "emacs"), 2),
        (("capture", "--from", "/no/such"), 2),
        (("share", "x", "--expires", "3 fortnights"), 2),
        (("share", "x", "--views", "0"), 2),
        (("keys", "use", "paper"), 2),
    ],
)
def test_what_cannot_be_done(machine: Machine, words: tuple[str, ...], code: int) -> None:
    """One line with the mend, nothing on stdout, and its own code."""
    said = machine.atomic(*words)
    assert said.code == code
    assert said.out == ""
    assert "Traceback" not in said.err
    assert len([line for line in said.err.splitlines() if line.startswith(("atomic: ", "Name the"))]) == 1


def test_deleting_asks(machine: Machine) -> None:
    """Without a terminal and --yes nothing is deleted (exit 13); with it the session is gone for good."""
    _fill(machine, 1)
    (row,) = machine.atomic("sessions", "--json").json()
    assert machine.atomic("sessions", "delete", row["id"][:8]).code == 13
    assert machine.atomic("sessions", "--json").json() == [row]
    said = machine.atomic("sessions", "delete", row["id"][:8], "--yes")
    assert (said.code, said.out) == (0, f"Deleted {row['id']}.\n")
    assert machine.atomic("sessions", "--json").json() == []
    again = machine.atomic("capture", "--from", str(machine.files))
    assert "they stay deleted" in again.out
    assert machine.atomic("sessions", "--json").json() == []


def test_deleting_some_of_several_ids(machine: Machine) -> None:
    """Ids before an unknown one are deleted and named; the unknown one is the error."""
    _fill(machine, 2)
    rows = machine.atomic("sessions", "--json").json()
    said = machine.atomic("sessions", "delete", rows[0]["id"], "ffffffff", rows[1]["id"], "--yes")
    assert said.code == 7
    assert [r["id"] for r in machine.atomic("sessions", "--json").json()] == [rows[1]["id"]]


def test_an_unreadable_home(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, or a folder that others can write to, in the home's place is named with its mend."""
    place = tmp_path / "elsewhere"
    place.touch()
    monkeypatch.setenv("ATOMIC_HOME", str(place))
    assert machine.atomic("sessions").code == 5
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    said = machine.atomic("sessions")
    assert said.code == 5
    assert "chmod go-w" in said.err
    assert list(place.iterdir()) == []
