"""What people do that no protocol foresees: paste, mistype, log in again, give a repository a remote."""

import subprocess
from collections.abc import Iterator

import pytest

from system.machines import Machine, MakeMachine, RunningService, until


class Terminal:
    """A real terminal (tmux) on a machine."""

    def __init__(self, machine: Machine) -> None:

        self._socket = str(machine.home / "tmux")
        self._environment = {**machine.environment, "TERM": "xterm-256color", "OPENAI_API_KEY": "x"}
        self._tmux("new-session", "-d", "-s", "t", "-x", "100", "-y", "30", "-c", str(machine.folder))

    def _tmux(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=30,
            check=True,
        )
        return done.stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "t", text, "Enter")

    def paste(self, text: str) -> None:
        self._tmux("load-buffer", "-", stdin=text)
        self._tmux("paste-buffer", "-p", "-t", "t")

    def press(self, key: str) -> None:
        self._tmux("send-keys", "-t", "t", key)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "t", "-S", "-200")

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(machine: MakeMachine) -> Iterator[tuple[Machine, Terminal]]:
    """A machine and a terminal on it; needs tmux, which apt-get and brew have."""
    one = machine("laptop")
    found = Terminal(one)
    yield one, found
    found.close()


def test_a_pasted_text_is_one_prompt(terminal: tuple[Machine, Terminal]) -> None:
    """Several pasted lines are one turn, as they were meant."""
    machine, screen = terminal
    command = " ".join(machine.command("--provider", "openai", "--model", "m"))
    screen.type(command)
    until(lambda: "/help" in screen.screen())
    screen.paste("first line\nsecond line\nthird line")
    screen.press("Enter")
    until(lambda: "Answer" in screen.screen())
    screen.type("/quit")
    until(lambda: "Come back with" in screen.screen())
    (session,) = machine.sessions()
    assert session["messages"] == 2
    assert "second line" in machine.shown(session["id"])


def test_an_invite_is_asked_for_at_a_terminal(
    terminal: tuple[Machine, Terminal], service: RunningService
) -> None:
    """`-` at a terminal says what to paste, and Enter is enough."""
    machine, screen = terminal
    screen.type(" ".join(machine.command("login", service.url, "--invite", "-", "--name", "here")))
    until(lambda: "Paste the invite" in screen.screen())
    screen.type(service.invite())
    until(lambda: "Synced" in screen.screen())
    assert machine.status()["service"] == service.url


def test_a_repository_that_gets_a_remote_keeps_its_sessions(machine: MakeMachine) -> None:
    """The first push of a new project changes its key, not what `atomic -c` finds in its folder."""
    laptop = machine("laptop")
    git = ["git", "-C", str(laptop.folder)]
    subprocess.run([*git, "remote", "remove", "origin"], check=True)
    laptop.say("said before there was a remote")
    subprocess.run([*git, "remote", "add", "origin", "https://git.example.com/new/home.git"], check=True)
    assert "before there was a remote" in laptop.atomic("sessions").out
    assert "2 user" in laptop.say("said after")


def test_ids_in_the_list_can_be_used(machine: MakeMachine) -> None:
    """Sessions made within a minute share eight characters; the list prints what is enough."""
    laptop = machine("laptop")
    for text in ("one", "two"):
        laptop.atomic("-p", text, "--provider", "openai", "--model", "m")
    for line in laptop.atomic("sessions").out.splitlines():
        assert laptop.atomic("show", line.split()[0]).out


def test_a_pairing_can_be_offered_again_and_again(laptop: Machine) -> None:
    """A new string replaces the one before; nobody is locked out by trying."""
    strings = {laptop.atomic("devices", "add").out for _ in range(7)}
    assert len(strings) == 7


def test_bytes_that_are_no_text_are_no_bug(machine: MakeMachine) -> None:
    """A prompt or an id that is not UTF-8 is used as far as it can be."""
    laptop = machine("laptop")
    command = laptop.command("-p", b"bad\xe9word", "--provider", "openai", "--model", "m")  # type: ignore[arg-type]
    done = subprocess.run(
        command, cwd=laptop.folder, env=laptop.environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    command = laptop.command("show", b"\xe9")  # type: ignore[arg-type]
    done = subprocess.run(
        command, cwd=laptop.folder, env=laptop.environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 7
    assert b"bug" not in done.stderr


def test_the_kit_without_a_keyring(machine: MakeMachine, service: RunningService) -> None:
    """On a machine without keyring and key, `--key-file` or ATOMIC_KEY_FILE name the place for one."""
    laptop, phoenix = machine("laptop"), machine("phoenix")
    laptop.atomic("login", service.url, "--invite", "-", stdin=service.invite())
    laptop.say("kept")
    kit = laptop.home / "kit.txt"
    laptop.atomic("recovery", "save", str(kit))
    phoenix.key_file.unlink()
    assert "in the account again" in phoenix.atomic("recovery", "restore", str(kit)).out
    assert phoenix.sessions() == laptop.sessions()
    laptop.key_file.unlink()
    assert "recovery restore" in laptop.atomic("sessions", code=3).err
    laptop.atomic("recovery", "restore", str(kit))
    assert laptop.sessions() == phoenix.sessions()
