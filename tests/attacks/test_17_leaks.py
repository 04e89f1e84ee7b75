"""Attack 17: no key, token, passphrase, recovery word or link's fragment in anything a command lets out."""

import base64
import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from atomic_agent.account.words import to_words
from atomic_agent.demo.provider import DemoProvider
from atomic_agent.keys import keystore
from atomic_agent.keys.keystore import Secrets
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from system.machines import SECONDS, Done, Machine, RunningService, kill, until

WATCH = """
import os, sys
def _hook(event, arguments):
    if event in {"subprocess.Popen", "os.exec", "os.posix_spawn"}:
        environment = arguments[-1] if arguments[-1] is not None else dict(os.environ)
        with open(os.environ["WATCH_LOG"], "a") as out:
            out.write(repr((arguments[:2], environment)) + "\\n")
sys.addaudithook(_hook)
"""
"""Every child that is started, by this process or one below it, with its arguments and environment."""
CRASH = """
import base64, importlib, os, sys
import msgspec
place, how, *words = sys.argv[1:]
module, name = place.split(":")
holder = importlib.import_module(module)
real = getattr(holder, name)
def spilled(value):
    if hasattr(value, "reveal"): value = value.reveal()
    try: return repr(value) + msgspec.json.encode(value).decode()
    except Exception: return repr(value)
def crash(*arguments, **named):
    found = [*arguments, *named.values(), real(*arguments, **named)]
    if how == "abort": os.abort()
    raise RuntimeError(" ".join(map(spilled, found)))
setattr(holder, name, crash)
from atomic_agent.cli.app import main
main(words)
"""
"""The program, with a function that does its work and then fails with all it knows in its error."""
PASSPHRASE, PROVIDER = "correct-horse-canary", "sk-canary-key-for-tests"


class Held:
    """What must not come out, in the spellings it could come out in."""

    def __init__(self, machine: Machine, link: str) -> None:
        self.link = link
        key = base64.b64decode(machine.key_file.read_bytes())
        content: Secrets = keystore.load(Home(machine.home / ".atomic"), LocalKey(key))
        mine = content.membership
        assert mine is not None
        assert content.token is not None
        local = LocalKey(key)
        raw = {
            "local key": key,
            "database key": local.database_key(),
            "keystore key": local.keystore_key(),
            "signing key": mine.device.sign_key,
            "receiving key": mine.device.kem_key,
            "account key": mine.key,
            "id key": mine.id_key,
            "recovery secret": content.recovery,
        }
        words = to_words(content.recovery).split()
        self.spellings = {
            "token": [content.token.text],
            "passphrase": [PASSPHRASE],
            "provider key": [PROVIDER],
        }
        # Three words in a row: single ones are English.
        self.spellings["recovery words"] = [" ".join(words[at : at + 3]) for at in range(0, 24, 3)]
        self.spellings["fragment"] = [link.partition("#v1.")[2]]
        for name, secret in raw.items():
            whole = base64.b64encode(secret).decode()
            self.spellings[name] = [
                secret.hex(),
                whole.rstrip("="),
                whole.rstrip("=").replace("+", "-").replace("/", "_"),
                repr(secret),
                str(list(secret))[1:-1],
            ]

    def check(self, text: str, where: object) -> None:
        """Fails with the secret's kind, never with the text."""
        found = [name for name, forms in self.spellings.items() if any(one and one in text for one in forms)]
        assert found == [], f"{where}: {found}"


@pytest.fixture(scope="module")
def watched(
    service: RunningService, model: DemoProvider, tmp_path_factory: pytest.TempPathFactory
) -> Machine:
    """A machine in an account with a session and a provider's key, and a watch on its children."""
    laptop = Machine(tmp_path_factory.mktemp("watched"), "laptop", model.openai_url)
    laptop.atomic("login", service.url, "--invite", "-", "--name", "laptop", stdin=service.invite())
    site = laptop.home / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WATCH)
    laptop.say("how do we ship it?")
    laptop.atomic("keys", "set", "openai", "-", stdin=PROVIDER)
    laptop.environment |= {
        "PYTHONPATH": str(site),
        "WATCH_LOG": str(laptop.home / "watched"),
        "PYTHONFAULTHANDLER": "1",
        "ATOMIC_DEBUG": "1",
    }
    return laptop


@pytest.fixture(scope="module")
def held(watched: Machine) -> Held:
    session = watched.sessions()[0]["id"]
    return Held(watched, watched.atomic("share", session, "--yes").out.strip())


def _crashed(machine: Machine, place: str, how: str, words: list[str], stdin: str = "") -> Done:
    """The program with a crash, its passphrase on a descriptor."""
    read, write = os.pipe()
    os.write(write, PASSPHRASE.encode())
    os.close(write)
    command = [*machine.command()[:1], "-c", CRASH, place, how, *words]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env={**machine.environment, "ATOMIC_PASSPHRASE_FD": str(read)},
            cwd=machine.folder,
            pass_fds=[read],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        os.close(read)
    return Done(done.returncode, done.stdout, done.stderr)


def _commands(session: str, url: str, home: Path) -> list[tuple[list[str], str]]:
    """Every command, with what it reads."""
    plain = [
        "status", "status --json", "doctor", "doctor --json", "sessions --all --json", f"show {session}", "capture",
        f"export {session} - --as jsonl", "sync", "devices", "devices --json", "devices approve --yes a b c d",
        "shares", "shares --json", "keys list", "keys list --json", f"recovery save {home}/kit", "recovery verify",
        f"recovery restore {home}/kit", f"login {url} --invite -", "keys remove openai", "sync --no-such-flag",
    ]  # fmt: skip
    return [([*line.split()], "x") for line in plain]


def test_every_command(watched: Machine, held: Held, service: RunningService) -> None:
    """Attack 17: with all that makes a program talkative, and `-vv`: nothing in stdout, stderr or any child."""
    session = watched.sessions()[0]["id"]
    for words, stdin in _commands(session, service.url, watched.home):
        for more in ([], ["-vv"]) if words[0] in {"sync", "status", "login"} else ([],):
            done = watched.atomic(*words, *more, stdin=stdin, code=None)
            held.check(done.out + done.err, [*words[:1], *more])
    done = watched.atomic("-p", "hello", "--provider", "openai", "--model", "m")
    held.check(done.out + done.err, "a turn")
    held.check(watched.atomic("shares", "revoke", "-", stdin=held.link).err, "revoke")
    children = (watched.home / "watched").read_text()
    assert "git" in children
    held.check(children, "children")
    held.check(service.data.with_suffix(".log").read_text(), "the service's log")


COMMANDS = (
    "show",
    "export",
    "share",
    "sessions delete",
    "--session",
    "--fork",
    "login",
    "",
    "devices",
    "sync",
)


@pytest.mark.parametrize(
    "words",
    COMMANDS,
)
def test_a_link_in_the_wrong_place(watched: Machine, held: Held, words: str) -> None:
    """Attack 17: a link pasted where an id belongs is not said again with its fragment."""
    done = watched.atomic(*words.split(), held.link, stdin="x", code=None)
    assert done.code
    held.check(done.out + done.err, words)


PLACES = [
    ("atomic_agent.keys.sources:find", ["status"]),
    ("atomic_agent.keys.keystore:load", ["status"]),
    ("atomic_agent.keys.keystore:save", ["keys", "set", "openai", "-"]),
    ("atomic_agent.keys.sources:ask_passphrase", ["keys", "use", "passphrase"]),
    ("atomic_agent.keys.passphrase_file:wrap", ["keys", "use", "passphrase"]),
    ("atomic_agent.cache.open:_pragma_key", ["sessions"]),
    ("atomic_agent.sync.identity:membership", ["devices", "add"]),
    ("atomic_agent.sync.run:membership", ["sync"]),
    ("atomic_agent.account.recovery:to_words", ["recovery", "save", "kit2"]),
    ("atomic_agent.publish.shares:parse_link", ["shares", "revoke", "-"]),
    ("atomic_agent.publish.shares:seal_share", ["share", "SESSION", "--yes", "--new"]),
]


@pytest.mark.parametrize(("place", "words"), PLACES, ids=[place for place, _ in PLACES])
def test_a_crash_that_knows_everything(watched: Machine, held: Held, place: str, words: list[str]) -> None:
    """Attack 17: an error full of secrets, and an abort under PYTHONFAULTHANDLER: frames are shown, no value."""
    session = watched.sessions()[0]["id"]
    words = [session if word == "SESSION" else word for word in words]
    stdin = held.link if "revoke" in words else PROVIDER
    done = _crashed(watched, place, "raise", words, stdin)
    assert done.code == 1, done.code
    assert "unexpected RuntimeError" in done.err
    held.check(done.out + done.err, place)
    done = _crashed(watched, place, "abort", words, stdin)
    assert done.code == -6
    assert "Fatal Python error: Aborted" in done.err
    held.check(done.out + done.err, place)
    held.check((watched.home / "watched").read_text(), "children")


def test_a_process_list(watched: Machine, held: Held) -> None:
    """Attack 17: neither argv of a turn nor argv and environment of its children hold a secret or the prompt."""
    canary = "xylophone-canary-text"
    process = watched.start("-p", "-", "--provider", "openai", "--model", "m", stdin=f"{canary} [[hang]]")
    seen: list[str] = []

    def look() -> bool:
        for pid in _family(process.pid):
            seen.append(_read(Path(f"/proc/{pid}/cmdline")))
            if pid != process.pid:
                seen.append(_read(Path(f"/proc/{pid}/environ")))
        return len(seen) >= 20

    until(look)
    kill(process)
    everything = "".join(seen)
    assert "atomic_agent" in everything
    assert canary not in everything
    held.check(everything, "ps")


def _family(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [pid, *(int(word) for word in found.stdout.split())]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\x00", b" ").decode("latin-1")
    except OSError:
        return ""


def test_secrets_do_not_show_themselves(watched: Machine, held: Held) -> None:
    """Attack 17: whatever a debugger or a log prints of the objects that hold secrets, by any of their names."""
    key = LocalKey(base64.b64decode(watched.key_file.read_bytes()))
    content = keystore.load(Home(watched.home / ".atomic"), key)
    for one in (
        key,
        content,
        content.membership,
        content.membership and content.membership.device,
        content.token,
    ):
        held.check(f"{one!r} {one} {[one]} { ({'a': one}) }", type(one).__name__)
    assert json.loads(msgspec.json.encode({"a": 1})) == {"a": 1}
