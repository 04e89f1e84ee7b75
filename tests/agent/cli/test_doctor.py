"""`atomic doctor`: it names what is wrong and its mend, on machines where little works, and changes nothing."""

import base64
import hashlib
import os
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.capture.files import SID, claude, text_of
from agent.cli.machine import Machine, Ran
from atomic_agent.account.device import new_device, public_kem_key, public_sign_key, statement
from atomic_agent.cache import outbox
from atomic_agent.capture import sources
from atomic_agent.cli import doctor, repair
from atomic_agent.keys.keystore import Device, Membership, Token
from atomic_agent.locations import home
from atomic_agent.stores import health
from atomic_agent.stores.health import Check, disk
from atomic_agent.stores.journal import open_journal
from atomic_agent.stores.repair import Repaired
from atomic_agent.stores.salvage import Salvaged
from atomic_agent.sync.run import LAST_SYNC
from atomic_sessions import ledger, wire
from atomic_sessions.seal import AccountKeys

TEXT = "zq-a-sentence-nobody-may-see"
TOKEN = "zq-token-that-nobody-may-see"
Found = dict[str, Any]  # a check, as it was printed

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


class Double(ThreadingHTTPServer):
    """What answers at a service's address: ours or not, with a clock of its own."""

    daemon_threads = True

    def __init__(self, *, api: str | None = wire.API_VERSION, ahead: int = 0, status: int = 401) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.api, self.ahead, self.status = api, ahead, status
        self.entries: list[ledger.LedgerEntry] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    """The device list for whoever brings the token, a refusal or a login page for the rest."""

    server: Double

    def do_GET(self) -> None:
        at = self.server
        content, kind, status = (
            b'{"code": "unauthorized", "title": "No token."}',
            wire.PROBLEM_TYPE,
            at.status,
        )
        if at.api is None:
            content, kind = b"<html>Welcome to the hotel</html>", "text/html"
        elif at.entries and self.headers.get("Authorization") == f"Bearer {TOKEN}":
            content, kind = msgspec.msgpack.encode(wire.LedgerReply(at.entries)), wire.CONTENT_TYPE
            status = 200
        self.send_response_only(status)
        self.send_header("Date", formatdate(time.time() + at.ahead, usegmt=True))
        if at.api is not None:
            self.send_header(wire.API_HEADER, at.api)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def answering(double: Double) -> Iterator[Double]:
    thread = threading.Thread(target=double.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield double
    finally:
        double.shutdown()
        double.server_close()
        thread.join()


class Joined:
    """A machine made a member of an account that no service knows, and the list that says so."""

    def __init__(self, url: str) -> None:
        self.keys = AccountKeys(secrets.token_bytes(16), 1, secrets.token_bytes(32), secrets.token_bytes(32))
        self.device = new_device("laptop")
        self.entries = [self._added(None, self.device)]
        self.head = ledger.verify(self.entries, self.keys.account)
        keys, head = self.keys, self.head
        mine = Membership(
            url,
            keys.account,
            self.device,
            1,
            keys.key,
            keys.id_key,
            head.root,
            head.head,
            head.size,
        )
        with open_journal(home()) as journal:
            journal.change(
                membership=mine, recovery_saved=True, token=Token(TOKEN, time.time_ns() // 1_000_000 + 10**9)
            )
            outbox.forget_log(journal.cache)
            journal.cache.put(LAST_SYNC, (time.time_ns() // 1_000_000).to_bytes(8, "big"))

    def _added(self, head: ledger.Ledger | None, device: Device) -> ledger.LedgerEntry:
        return statement(
            self.keys,
            head,
            role="device",
            device=device.id,
            sign_key=public_sign_key(device),
            kem_key=public_kem_key(device),
            name=device.name,
            by=self.device.id,
            signer=self.device.sign_key,
        )

    def removed(self) -> list[ledger.LedgerEntry]:
        """The list after a second machine came and took this one out."""
        other = new_device("desktop")
        entries = [*self.entries, self._added(self.head, other)]
        head = ledger.verify(entries, self.keys.account).head
        mine = self.device
        body = msgspec.msgpack.encode(
            ledger.LedgerBody(
                1,
                self.keys.account,
                3,
                head,
                "remove",
                "device",
                mine.id,
                public_sign_key(mine),
                b"",
                b"",
                other.id,
                0,
            )
        )
        key = Ed25519PrivateKey.from_private_bytes(other.sign_key)
        return [*entries, ledger.LedgerEntry(body, key.sign(ledger.signed_bytes(body)))]


def examined(machine: Machine, code: int) -> dict[str, list[Found]]:
    """The checks of `--json` by name, after what holds for every answer."""
    return by_name(machine.atomic("doctor", "--json"), code)


def by_name(said: Ran, code: int) -> dict[str, list[Found]]:
    assert said.code == code, said
    assert said.err == ""
    (one,) = said.json()
    assert set(one) == {"checks", "problems"}
    assert one["problems"] == sum(check["state"] == "problem" for check in one["checks"])
    assert (one["problems"] > 0) == (code == 1)
    found: dict[str, list[Found]] = {}
    for check in one["checks"]:
        assert set(check) == {"name", "state", "said", "mend"}
        assert check["state"] in {"ok", "warning", "problem"}
        assert bool(check["mend"]) == (check["state"] != "ok"), check
        assert "\n" not in check["said"]
        found.setdefault(check["name"], []).append(check)
    return found


def states(found: dict[str, list[Found]]) -> dict[str, str]:
    return {name: checks[0]["state"] for name, checks in found.items()}


def problems(found: dict[str, list[Found]]) -> list[str]:
    return [check["name"] for checks in found.values() for check in checks if check["state"] == "problem"]


def fingerprints(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file and folder with its mode and content; the side files of an open database come and go."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in folder.rglob("*")
        if not path.name.endswith(("-wal", "-shm"))
    }


@pytest.fixture
def used(machine: Machine) -> Machine:
    """A machine with one captured session and a saved kit."""
    folder = machine.home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    (folder / f"{SID}.jsonl").write_bytes(text_of([claude(1, TEXT, parent=None), claude(2, TEXT)]))
    assert machine.atomic("capture").code == 0
    with open_journal(home()) as journal:
        journal.change(recovery_saved=True, provider_keys={"openai": TOKEN})
    return machine


def test_a_healthy_home(used: Machine) -> None:
    """Everything is ok, nothing is changed, and the person's form says the same."""
    before = fingerprints(used.home)
    found = examined(used, 0)
    assert set(states(found).values()) == {"ok"}
    assert list(found) == [
        "versions",
        "git",
        "home",
        "files",
        "disk",
        "key",
        "key-fits",
        "cache",
        "recovery",
        "account",
        *sources.AGENTS,
    ]
    assert "quick check passed" in found["cache"][0]["said"]
    assert "1 files" in found["claude-code"][0]["said"]
    assert "all captured" in found["claude-code"][0]["said"]
    shown = used.atomic("doctor")
    assert shown.code == 0
    assert shown.err == "No problem found.\n"
    assert [line.split()[:2] for line in shown.out.splitlines()] == [["ok", name] for name in found]
    assert fingerprints(used.home) == before


def test_an_empty_home_stays_empty(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made, with a key file and without one."""
    assert set(states(examined(machine, 0)).values()) == {"ok"}
    monkeypatch.delenv("ATOMIC_KEY_FILE")
    found = examined(machine, 0)
    assert "None yet" in found["key"][0]["said"]
    assert list(machine.home.iterdir()) == []


def test_what_is_not_captured_is_counted(used: Machine) -> None:
    """A session file that is new or has grown counts."""
    folder = used.home / ".claude" / "projects" / "p"
    (folder / f"{SID}.jsonl").write_bytes(text_of([claude(n, TEXT) for n in (1, 2, 3)]))
    (folder / "00000000-0000-4000-8000-000000000001.jsonl").write_bytes(text_of([claude(1, TEXT)]))
    assert "2 not captured yet: atomic capture" in examined(used, 0)["claude-code"][0]["said"]


def test_no_kit_is_a_warning(machine: Machine) -> None:
    """It costs nothing today, so the exit code stays 0."""
    assert machine.atomic("sessions").code == 0
    found = examined(machine, 0)
    assert found["recovery"][0]["state"] == "warning"
    assert "atomic recovery save" in found["recovery"][0]["mend"]


def test_a_key_that_is_gone(used: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is the one problem; what needs it is not looked into."""
    monkeypatch.delenv("ATOMIC_KEY_FILE")
    found = examined(used, 1)
    assert problems(found) == ["key"]
    assert "atomic recovery restore" in found["key"][0]["mend"]
    assert found["cache"][0]["state"] == "warning"
    monkeypatch.setenv("ATOMIC_KEY_FILE", str(used.files / "none"))
    assert problems(examined(used, 1)) == ["key"]


def test_a_wrong_key(used: Machine) -> None:
    """It is told from a damaged cache, once."""
    key = Path(used.env["ATOMIC_KEY_FILE"])
    key.write_bytes(base64.b64encode(bytes(32)))
    before = fingerprints(used.home)
    found = examined(used, 1)
    assert problems(found) == ["key-fits"]
    assert "Wrong key" in found["key-fits"][0]["said"]
    assert "'key-fits'" in found["cache"][0]["said"]
    assert fingerprints(used.home) == before


def test_a_key_that_is_no_key(used: Machine) -> None:
    """Its bytes are not repeated."""
    Path(used.env["ATOMIC_KEY_FILE"]).write_text("zq-not-base64-zq")
    said = used.atomic("doctor", "--json")
    assert problems(by_name(said, 1)) == ["key"]
    assert "zq-not" not in said.out


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ('{"store": "keyring", "backend": "none.Such", "item": "local-key-1"}', "keyring"),
        ('{"store": "passphrase"}', "passphrase"),
        ("{", "does not say where the key is"),
    ],
)
def test_a_key_store_that_cannot_be_asked(
    used: Machine, monkeypatch: pytest.MonkeyPatch, choice: str, said: str
) -> None:
    """The store that was chosen is named, with what to do; no other is tried."""
    monkeypatch.delenv("ATOMIC_KEY_FILE")
    path = home().key_choice
    path.touch(0o600)
    path.write_text(choice)
    found = examined(used, 1)
    assert problems(found) == ["key"]
    assert said in found["key"][0]["said"]


def test_another_programs_cache(machine: Machine) -> None:
    """It is named and not touched."""
    machine.cache.parent.mkdir(parents=True, mode=0o700)
    machine.cache.touch(0o600)
    with sqlite3.connect(machine.cache) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = fingerprints(machine.home)
    found = examined(machine, 1)
    assert problems(found) == ["cache"]
    assert "another program's database" in found["cache"][0]["said"]
    assert fingerprints(machine.home) == before


@pytest.mark.parametrize("where", [0.0, 0.5])
def test_a_damaged_cache(used: Machine, where: float) -> None:
    """Whether SQLite notices when it opens the file or only in the quick check."""
    with used.cache.open("r+b") as stream:
        stream.seek(int(used.cache.stat().st_size * where))
        stream.write(secrets.token_bytes(4096 if not where else 20_000))
    found = examined(used, 1)
    assert problems(found) == ["cache"]
    assert "damage" in found["cache"][0]["said"]
    assert found["cache"][0]["mend"] == "Run: atomic doctor --repair"


def test_a_check_that_takes_too_long_is_cut(used: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cache is looked into for some seconds, and that it was no longer is said; it is no problem."""
    monkeypatch.setattr(health, "CHECK_STEPS", 1)
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.0)
    found = examined(used, 0)
    assert found["cache"][0]["state"] == "ok"
    assert "quick check cut after 0 s" in found["cache"][0]["said"]
    assert "MB, schema 1" in found["cache"][0]["said"]


def test_a_repair_of_a_sound_cache(used: Machine) -> None:
    """It says so, to a person and to a program, and changes nothing."""
    before = fingerprints(used.home)
    said = used.atomic("doctor", "--repair")
    assert (said.code, said.out, said.err) == (0, "The cache is sound; nothing was changed.\n", "")
    (one,) = used.atomic("doctor", "--repair", "--json").json()
    assert (one["healthy"], one["kept_aside"], one["next"]) == (True, "", [])
    assert fingerprints(used.home) == before


def test_a_repair(used: Machine) -> None:
    """The damaged file is kept, the new cache is well, and the next commands are named."""
    with used.cache.open("r+b") as stream:
        stream.seek(used.cache.stat().st_size * 3 // 4)
        stream.write(secrets.token_bytes(20_000))
    said = used.atomic("doctor", "--repair")
    assert said.code == 0
    assert said.out.startswith("Repaired: 1 sessions, ")
    assert said.err.splitlines()[-1] == "Now run: atomic capture, then atomic sync"
    assert TEXT not in said.out + said.err
    assert problems(examined(used, 0)) == []


def test_a_repair_of_what_cannot_be_read(used: Machine) -> None:
    """Nothing is set aside without a yes; `--json` tells what was done."""
    with used.cache.open("r+b") as stream:
        stream.write(bytes(4096))
    before = used.cache.read_bytes()
    said = used.atomic("doctor", "--repair")
    assert said.code == 13
    assert "first pages are broken" in said.err
    assert used.cache.read_bytes() == before
    (one,) = used.atomic("doctor", "--repair", "--yes", "--json").json()
    assert (one["healthy"], one["readable"]) == (False, False)
    assert Path(one["kept_aside"]).read_bytes() == before


def test_a_repair_without_a_cache(machine: Machine) -> None:
    """There is nothing to mend, and nothing is made."""
    said = machine.atomic("doctor", "--repair")
    assert said.code == 5
    assert "There is no cache" in said.err
    assert list(machine.home.iterdir()) == []


def test_what_a_repair_tells() -> None:
    """Each count a person may need is said, and only then."""
    found = Salvaged(sessions=2, sessions_lost=1, entries=9, entries_lost=None, turns=1, certain=False)
    done = Repaired(healthy=False, kept_aside="/x", salvaged=found)
    assert repair.told(done) == [
        "Repaired: 2 sessions, 9 entries kept, how many were lost cannot be counted.",
        "Of 1 sessions nothing but a name was left.",
        "1 unfinished turns are kept and offered at the next open.",
        "The next sync reads the account's log from its start and sends what it lacks.",
    ]
    sound = Repaired(healthy=False, kept_aside="/x", salvaged=Salvaged(sessions=2, entries=9))
    assert repair.told(sound) == ["Repaired: 2 sessions, 9 entries kept, 0 lost."]


@posix
@pytest.mark.parametrize("name", ["workflows/journal.sqlite", "workflows/journal.keyinfo", "keys/keystore"])
def test_a_file_others_can_read(used: Machine, name: str) -> None:
    """Mode 0644 is a problem with its chmod, told once."""
    path = used.home / ".atomic" / name
    path.chmod(0o644)
    found = examined(used, 1)
    assert problems(found) == ["files"]
    assert found["files"][0]["mend"] == f"Run: chmod 600 '{path}'"
    assert path.stat().st_mode & 0o777 == 0o644


@posix
def test_links_and_open_folders(used: Machine) -> None:
    """A cache that is a link and a folder that others can change: two problems, both told."""
    moved = used.files / "moved"
    used.cache.rename(moved)
    used.cache.symlink_to(moved)
    used.cache.parent.chmod(0o777)
    found = examined(used, 1)
    assert problems(found) == ["home", "files"]
    assert "symbolic link" in found["files"][0]["said"]
    assert "chmod go-w" in found["home"][0]["mend"]


@posix
def test_a_home_that_is_a_file(machine: Machine) -> None:
    """Nothing below can be looked at, and every line still comes."""
    (machine.home / ".atomic").write_text("")
    found = examined(machine, 1)
    assert problems(found)[0] == "home"
    assert "pi" in found


def test_a_service_that_answers(used: Machine) -> None:
    """Reached, ours, agreeing clocks, a member; the list of devices is verified and not kept."""
    with answering(Double()) as double:
        joined = Joined(double.url)
        double.entries = joined.entries
        before = fingerprints(used.home)
        found = examined(used, 0)
        assert fingerprints(used.home) == before
    assert states(found)["service"] == states(found)["clock"] == states(found)["device"] == "ok"
    assert "one of 1" in found["device"][0]["said"]
    assert found["sync"][0]["state"] == "ok"
    assert "wait" in found["sync"][0]["said"]


def test_a_machine_that_was_removed(used: Machine) -> None:
    """The signed list says so."""
    with answering(Double()) as double:
        double.entries = Joined(double.url).removed()
        found = examined(used, 1)
    assert problems(found) == ["device"]
    assert "--join" in found["device"][0]["mend"]


def test_another_list_of_devices(used: Machine) -> None:
    """A service that shows another account's list is not believed."""
    with answering(Double()) as double:
        double.entries = Joined(double.url).entries
        Joined(double.url)
        found = examined(used, 1)
    assert problems(found) == ["device"]
    assert "operator" in found["device"][0]["mend"]


def test_a_service_that_is_down(used: Machine) -> None:
    """A closed port is one problem; clock and device are not guessed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Joined(f"http://127.0.0.1:{port}")
    found = examined(used, 1)
    assert problems(found) == ["service"]
    assert "cannot be reached" in found["service"][0]["said"]
    assert "clock" not in found
    assert "device" not in found
    assert found["sync"][0]["state"] == "ok"


@pytest.mark.parametrize("status", [200, 302, 511])
def test_a_captive_portal(used: Machine, status: int) -> None:
    """What answers is not ours; nothing of it is believed, its clock neither."""
    with answering(Double(api=None, ahead=3600, status=status)) as double:
        Joined(double.url)
        found = examined(used, 1)
    assert problems(found) == ["service"]
    assert "not an Atomic service" in found["service"][0]["said"]
    assert "login page" in found["service"][0]["mend"]
    assert "clock" not in found


@pytest.mark.parametrize(
    ("ahead", "state", "said"),
    [
        (3600, "problem", "60 minutes behind"),
        (-3600, "problem", "60 minutes ahead of"),
        (200, "warning", "3 minutes behind"),
    ],
)
def test_a_clock_that_is_off(used: Machine, ahead: int, state: str, said: str) -> None:
    """Told from the Date header, and how far."""
    with answering(Double(ahead=ahead)) as double:
        double.entries = Joined(double.url).entries
        found = examined(used, 1 if state == "problem" else 0)
    assert found["clock"][0]["state"] == state
    assert said in found["clock"][0]["said"]


def test_a_newer_service(used: Machine) -> None:
    """Another protocol version is a warning that says which side is to be updated."""
    with answering(Double(api="2")) as double:
        double.entries = Joined(double.url).entries
        found = examined(used, 0)
    assert found["service"][0]["state"] == "warning"
    assert "Update" in found["service"][0]["mend"]


def test_refused_records_are_counted_by_reason(used: Machine) -> None:
    """One line for each reason."""
    with answering(Double()) as double:
        double.entries = Joined(double.url).entries
        with open_journal(home()) as journal:
            for number, why in enumerate(["torn", "torn", "forged"]):
                outbox.quarantine(journal.cache, bytes([number]) * 32, None, why, 0)
        found = examined(used, 0)
    assert [check["said"] for check in found["refused"]] == [
        "1 records were refused: forged",
        "2 records were refused: torn",
    ]


@pytest.mark.parametrize(
    ("decided", "state"),
    [
        (lambda: doctor.clock(None), "warning"),
        (lambda: doctor.clock(120), "ok"),
        (lambda: doctor.clock(-121), "warning"),
        (lambda: doctor.clock(-301), "problem"),
        (lambda: doctor.waiting(0, 0, None, 0), "ok"),
        (lambda: doctor.waiting(1, 0, None, 0), "warning"),
        (lambda: doctor.waiting(1, 0, 0, 86_399_999), "ok"),
        (lambda: doctor.waiting(0, 1, 0, 86_400_000), "warning"),
        (lambda: doctor.service("u", doctor.Answer(503, "", "1", None)), "problem"),
        (lambda: disk(199_000_000), "warning"),
        (lambda: disk(200_000_000), "ok"),
    ],
)
def test_where_a_warning_begins(decided: Callable[[], Check], state: str) -> None:
    """The limits, decided without a machine."""
    assert decided().state == state


def test_no_secret_and_no_text_is_printed(used: Machine) -> None:
    """Neither form shows a key, a token, an account's key or a sentence of a session."""
    with answering(Double()) as double:
        joined = Joined(double.url)
        double.entries = joined.entries
        with open_journal(home()) as journal:
            recovery = journal.secrets.recovery
        said = [used.atomic("doctor"), used.atomic("doctor", "--json")]
        Path(used.env["ATOMIC_KEY_FILE"]).write_bytes(base64.b64encode(bytes(range(1, 33))))
        said += [used.atomic("doctor"), used.atomic("doctor", "--json")]
    out = "".join(one.out + one.err for one in said)
    hidden = [bytes(range(32)), bytes(range(1, 33)), recovery, joined.keys.key, joined.keys.id_key]
    for secret in [*hidden, joined.device.sign_key, joined.device.kem_key]:
        assert len(secret) >= 32
        assert secret.hex() not in out
        assert base64.b64encode(secret).decode()[:20] not in out
    assert TOKEN not in out
    assert TEXT not in out


def test_git_that_is_missing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning: everything but projects works without it."""
    monkeypatch.setenv("PATH", str(machine.files))
    assert examined(machine, 0)["git"][0]["state"] == "warning"
