"""The Atom file on the disk: three states, private, replaced whole, and nothing that was there is ever lost."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_agent.stores.atom_file import AtomFile, Saved
from atomic_sessions import compose
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Text, Usage
from atomic_sessions.errors import CacheRefusedError, StoreWriteError
from atomic_sessions.formats import atom
from atomic_sessions.formats.atom import Corrupt, Loaded, Missing
from atomic_sessions.formats.atom_history import entries

SECRET = "sk-a-secret-somebody-pasted"
PICKS = Settings("zen", "big-pickle", "high")


def _turn(text: str) -> Entry:
    return Entry(text, None, 0, 1, compose.message(text, None, 1, compose.user(1, (Text(text),))))


def _save(file: AtomFile, *texts: str, at: int = 5) -> Saved:
    return file.save_turn([_turn(text) for text in texts], PICKS, Usage(1, 2), "normal", at)


def _said(path: Path) -> list[str]:
    return [message["content"] for message in json.loads(path.read_bytes())["history"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".atom" / "session.json"


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


def _names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_missing_is_silent(path: Path) -> None:
    """No file: nothing to say, and looking makes none."""
    file = AtomFile(path)
    assert (file.state, file.notice, file.document) == (Missing(), "", None)
    assert not path.parent.exists()
    assert AtomFile(Path("/dev/null/x")).state == Missing()


def test_corrupt_is_one_line(path: Path) -> None:
    """A malformed file: one line that names it and repeats nothing of it, and a fresh start."""
    _put(path, b'{"version":1,"history":["' + SECRET.encode())
    file = AtomFile(path)
    assert isinstance(file.state, Corrupt)
    assert str(path) in file.notice
    assert "\n" not in file.notice
    assert SECRET not in file.notice + repr(file) + repr(file.state)
    assert file.document is None


@given(st.binary(max_size=100))
def test_loading_never_raises(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Whatever the file holds."""
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(raw)
    assert isinstance(AtomFile(path).state, Corrupt)


def test_what_is_no_file_is_corrupt(tmp_path: Path) -> None:
    """A folder, a pipe, a socket's place, a link to itself: at once, without waiting."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/zero")):
        assert AtomFile(path).state == Corrupt("it is not a file")
    assert isinstance(AtomFile(tmp_path / "loop").state, Corrupt)


def test_a_huge_file_is_bounded(path: Path) -> None:
    """A file of 100 MB is corrupt without being parsed, and kept aside like any other."""
    _put(path, b"")
    with path.open("r+b") as stream:
        stream.truncate(100_000_000)
    file = AtomFile(path)
    assert file.state == Corrupt("it is larger than 64 MiB")
    _save(file, "a")
    assert path.with_name("session.json.corrupt").stat().st_size == 100_000_000


def test_a_save_is_private(path: Path) -> None:
    """0600 in a 0700 folder, whatever the umask; no other file is left."""
    before = os.umask(0)
    try:
        assert _save(AtomFile(path), "hello") == Saved()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert _names(path) == ["session.json"]


def test_a_wide_file_is_narrowed_and_said(path: Path) -> None:
    """A file others could read becomes private with the next save, which says so once."""
    file = AtomFile(path)
    _save(file, "a")
    path.chmod(0o644)
    (notice,) = file.save_picks(PICKS, 6).notices
    assert "Others could read" in notice
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert _save(file, "a", "b").notices == ()


def test_a_link_is_not_written_through(path: Path, tmp_path: Path) -> None:
    """Behind a link, also one that leads nowhere, nothing is written; it may be read."""
    target = tmp_path / "target.json"
    _save(AtomFile(target), "theirs")
    path.parent.mkdir(mode=0o700)
    for leads_to in (target, tmp_path / "nowhere"):
        path.unlink(missing_ok=True)
        path.symlink_to(leads_to)
        file = AtomFile(path)
        with pytest.raises(StoreWriteError, match="symbolic link"):
            _save(file, "mine")
        with pytest.raises(StoreWriteError, match="symbolic link"):
            file.save_picks(PICKS, 6)
    assert _said(target) == ["theirs"]
    assert not (tmp_path / "nowhere").exists()
    assert _names(path) == ["session.json"]


def test_a_corrupt_file_is_kept_before_the_first_save(path: Path) -> None:
    """Opening moves nothing; the first save keeps the bad file under a free name, private, and names it."""
    _put(path, b"first")
    _put(path.with_name("session.json.corrupt"), b"older")
    path.with_name("session.json.corrupt-2").symlink_to("nowhere")
    path.chmod(0o644)
    file = AtomFile(path)
    assert path.read_bytes() == b"first"
    notices = file.save_picks(PICKS, 6).notices
    assert "kept as session.json.corrupt-3" in notices[0]
    kept = path.with_name("session.json.corrupt-3")
    assert kept.read_bytes() == b"first"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert path.with_name("session.json.corrupt").read_bytes() == b"older"
    assert _save(file, "a").notices == ()
    assert _said(path) == ["a"]


def test_a_folder_in_its_place_is_kept(path: Path) -> None:
    """What cannot get a second name is renamed."""
    path.mkdir(parents=True)
    (path / "inside").write_text("x")
    _save(AtomFile(path), "a")
    assert (path.with_name("session.json.corrupt") / "inside").read_text() == "x"
    assert _said(path) == ["a"]


def test_a_save_that_fails_changes_nothing(path: Path, tmp_path: Path) -> None:
    """On a disk that takes no more the file stays as it was, the error reaches the caller, and a corrupt file is
    kept only once however often the save is tried."""
    _put(path, b"corrupt")
    script = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.path.insert(0, sys.argv[2])
from atomic_agent.stores.atom_file import AtomFile
from atomic_sessions.context import Settings
from atomic_sessions.errors import StoreWriteError
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
file = AtomFile(Path(sys.argv[1]))
for _ in range(3):
    try:
        file.save_picks(Settings("zen", "m"), 5)
    except StoreWriteError as error:
        print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert Path(sys.argv[1]).read_bytes() == b"corrupt"
file.save_picks(Settings("zen", "m"), 5)
"""
    done = _python(script, path)
    assert done.stdout.count("cannot be written") == 3
    assert _names(path) == ["session.json", "session.json.corrupt"]
    assert isinstance(AtomFile(path).state, Loaded)


def _python(script: str, path: Path) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-c", script, str(path), roots.split(os.pathsep)[0]],
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A file in the folder's place, and a folder others can write to, are typed errors."""
    (tmp_path / "file").touch()
    with pytest.raises(CacheRefusedError):
        _save(AtomFile(tmp_path / "file" / "session.json"), "a")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CacheRefusedError):
        _save(AtomFile(tmp_path / "open" / "session.json"), "a")


def test_turns_and_exits(path: Path) -> None:
    """Each completed turn saves; an exit saves the picks and leaves the conversation; a turn that fails calls
    nothing, so the file keeps its bytes."""
    file = AtomFile(path)
    _save(file, "one")
    _save(file, "one", "two", at=6)
    before = path.read_bytes()
    again = AtomFile(path)
    assert again.document is not None
    assert [json.loads(raw)["content"] for raw in again.document.history] == ["one", "two"]
    assert path.read_bytes() == before
    again.save_picks(Settings("openai", "m2", "low"), 7)
    value: dict[str, Any] = json.loads(path.read_bytes())
    assert (value["provider"], value["model"], value["effort"]) == ("openai", "m2", "low")
    assert value["usageTotals"]["input"] == 1
    assert _said(path) == ["one", "two"]


def test_an_exit_without_a_turn(path: Path) -> None:
    """The picks alone make a file, with nothing said in it."""
    AtomFile(path).save_picks(PICKS, 6)
    file = AtomFile(path)
    assert file.document is not None
    assert (file.document.picks, file.document.history) == (PICKS, ())


def test_a_conversation_goes_on(path: Path) -> None:
    """A session that was loaded and continued keeps every member another program wrote."""
    theirs = {
        "version": 1,
        "history": [{"role": "user", "content": "theirs", "name": "bob", "n": 1.0}],
        "turns": [{"shown": True}],
        "theme": "dark",
    }
    _put(path, json.dumps(theirs, indent=2).encode())
    file = AtomFile(path)
    assert file.document is not None
    file.save_turn([*entries(file.document), _turn("mine")], PICKS, Usage(), "normal", 5)
    value = json.loads(path.read_bytes())
    assert value["history"] == [*theirs["history"], {"role": "user", "content": "mine"}]  # type: ignore[misc]  # a list
    assert value["turns"] == [{"shown": True}, {"role": "user", "text": "mine"}]
    assert value["theme"] == "dark"


def test_a_new_conversation_takes_the_place(path: Path) -> None:
    """One session a file: a fresh conversation replaces what was loaded at the start, and keeps no copy."""
    _save(AtomFile(path), "old")
    file = AtomFile(path)
    assert _save(file, "new").notices == ()
    assert _said(path) == ["new"]
    assert _names(path) == ["session.json"]


def test_what_another_program_wrote_meanwhile_is_kept(path: Path) -> None:
    """Its session is kept beside the file and named; one that ours goes on from is not."""
    file = AtomFile(path)
    _save(file, "a")
    _save(AtomFile(path), "theirs")
    (notice,) = _save(file, "a", "b").notices
    assert "kept as session.json.other" in notice
    assert _said(path) == ["a", "b"]
    assert _said(path.with_name("session.json.other")) == ["theirs"]
    AtomFile(path).save_picks(Settings("x", "y"), 9)
    assert _save(file, "a", "b", "c").notices == ()


def test_many_savers(path: Path) -> None:
    """Programs that save at once leave a whole file, and every session is there or beside it."""
    files = [AtomFile(path) for _ in range(6)]
    threads = [
        threading.Thread(target=_save, args=(file, f"session {number}")) for number, file in enumerate(files)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(AtomFile(path).state, Loaded)
    assert all(name.startswith("session.json") for name in _names(path))


def test_a_kill_at_any_moment_leaves_a_whole_file(path: Path) -> None:
    """A process killed while it saves again and again leaves the last complete save, with as many turns as it had
    reported."""
    script = """
import sys
from pathlib import Path
from atomic_agent.stores.atom_file import AtomFile
from atomic_sessions import compose
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Text, Usage
file = AtomFile(Path(sys.argv[1]))
said = []
for number in range(100000):
    name = f"{number:06d}"
    said.append(Entry(name, None, 0, 1, compose.message(name, None, 1, compose.user(1, (Text(name * 50),)))))
    file.save_turn(said, Settings("zen", "m"), Usage(), "normal", 5)
    print(number, flush=True)
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    for wait in (0.0, 0.011, 0.023, 0.037):
        path.unlink(missing_ok=True)
        running = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], env=environ, stdout=subprocess.PIPE, text=True
        )
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(wait)  # the moment of the kill, not a wait for something
        running.send_signal(signal.SIGKILL)
        reported = running.stdout.read().count("\n") + 1
        running.wait()
        running.stdout.close()
        file = AtomFile(path)
        assert file.document is not None
        assert len(file.document.history) >= reported
        assert "session.json.corrupt" not in _names(path)


def test_too_large_to_be_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the next load would refuse is not written; the file keeps what it has."""
    file = AtomFile(path)
    _save(file, "a")
    monkeypatch.setattr(atom, "MAX_BYTES", 2000)
    with pytest.raises(StoreWriteError, match="larger than"):
        _save(file, "x" * 2000)
    assert _said(path) == ["a"]
