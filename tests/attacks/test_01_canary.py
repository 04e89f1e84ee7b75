"""Attack 1: a canary title, text and path in any file of the machine, before and after a checkpoint."""

import tempfile
from pathlib import Path

from attacks.stage import opened
from system.machines import Machine, MakeMachine, claude_lines

TITLE, TEXT, FOLDER = "Canary Title Zeppelin", "xylophone-canary-text", "heron-canary-folder"
SESSION = "0e000000-0000-4000-8000-000000000001"
SECRET = "canary-provider-key-5511"


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def _is_silent(machine: Machine) -> None:
    """No file of ours holds a canary in any spelling, or begins as a plain database does."""
    found = _files(machine.home / ".atomic")
    assert {"journal.sqlite", "keystore"} <= {path.name for path in found}
    for path in found:
        content = path.read_bytes()
        for canary in (TITLE, TEXT, FOLDER, SECRET, SESSION):
            for form in (canary.encode(), canary.encode("utf-16-le"), canary.encode().hex().encode()):
                assert form not in content, f"{canary[:6]} stands in {path.name}"
        assert b"CREATE TABLE" not in content
        assert content[:16] != b"SQLite format 3\x00"


def test_no_canary_on_the_disk(machine: MakeMachine) -> None:
    """Attack 1: not in the cache, its -wal and -shm, the keystore, nor a temporary file, at any moment."""
    laptop = machine("laptop")
    temp = laptop.home / "temp"
    temp.mkdir()
    laptop.environment["TMPDIR"] = str(temp)
    lines = claude_lines(SESSION, f"/src/{FOLDER}", [TEXT, f"{TEXT} again"])
    lines.append({"type": "summary", "summary": TITLE, "leafUuid": lines[-1]["uuid"]})
    laptop.claude_file(SESSION, lines)
    laptop.atomic("keys", "set", "openai", "-", stdin=SECRET)
    laptop.atomic("capture")
    _is_silent(laptop)
    laptop.say(f"{TEXT} once more", "--name", TITLE)
    assert TEXT in laptop.shown(SESSION)
    assert TITLE in laptop.atomic("sessions", "--all").out
    with opened(laptop) as cache:
        cache.put("canary", TEXT.encode() * 100_000)
        # While it is open: the newest pages lie in the -wal file, then, after a checkpoint, in the database.
        assert (laptop.cache.parent / "journal.sqlite-wal").stat().st_size > 100_000
        _is_silent(laptop)
        cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _is_silent(laptop)
    assert _files(temp) == []
    assert Path(tempfile.gettempdir()) != temp


def test_no_canary_left_by_a_kill(machine: MakeMachine) -> None:
    """Attack 1: nor in what a killed command leaves behind."""
    laptop = machine("laptop")
    process = laptop.start("-p", "-", "--provider", "openai", "--model", "m", stdin=f"{TEXT} [[hang]]")
    try:
        from system.machines import until

        until(
            lambda: laptop.cache.exists() and laptop.cache.stat().st_size > 0 and _keystore(laptop).exists()
        )
        _is_silent(laptop)
    finally:
        from system.machines import kill

        kill(process)
    _is_silent(laptop)


def _keystore(machine: Machine) -> Path:
    return machine.home / ".atomic" / "keys" / "keystore"
