"""Which files changed, asked without reading them: nothing is missed, and a look costs little."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.capture.files import SID
from atomic_agent.capture import lookout, sources
from atomic_agent.capture.lookout import EVERYTHING_SECONDS, Lookout, Place
from atomic_agent.capture.notices import Told, notices

ROLLOUT = f"rollout-2026-11-30T13-47-27-{SID}"
TREE = {
    "claude-code": (
        "-p/a.jsonl",
        "-p/b.jsonl",
        "-p/note.txt",
        "-p/b/tool-results/one.txt",
        "-p/b/subagents/agent-1.jsonl",
        "-p/b/subagents/agent-1.meta.json",
        "-p/b/subagents/workflows/w/agent-2.jsonl",
        "-p/b/other/x.jsonl",
        "-q/c.jsonl.zst",
        "top.jsonl",
    ),
    "codex": (
        f"2026/11/30/{ROLLOUT}.jsonl",
        f"2026/11/30/{ROLLOUT}.jsonl.zst",
        "2026/11/29/rollout-x.jsonl.zst",
        "rollout-flat.jsonl",
        "rollout-old.json",
        "2026/other.jsonl",
    ),
    "pi": ("--p--/a.jsonl", "--p--/deeper/b.jsonl", "--p--/c.txt", "top.jsonl"),
}


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")


def _settled() -> int:
    """A wall clock for which nothing changed just now."""
    return 1 << 62


def _paths(found: list[sources.Source]) -> list[Path]:
    return [source.path for source in found]


@pytest.mark.parametrize("agent", [*TREE, ""])
def test_it_sees_what_a_single_capture_finds(tmp_path: Path, agent: str) -> None:
    """The same files with the same owners and side files, in each agent's folders and in any."""
    for name in [agent] if agent else TREE:
        _make(tmp_path, *TREE[name])
    found = sources.find(agent, tmp_path) if agent else sources.find_any(tmp_path)
    key = lambda source: str(source.path)  # noqa: E731  # said twice below
    assert sorted(Lookout([Place(agent, tmp_path)]).look(), key=key) == sorted(found, key=key)


def test_a_single_file(tmp_path: Path) -> None:
    """`--from FILE` is a place too."""
    _make(tmp_path, "x.jsonl", "y.jsonl")
    watched = Lookout([Place("", tmp_path / "x.jsonl")], wall=_settled)
    assert _paths(watched.look()) == [tmp_path / "x.jsonl"]
    assert watched.look() == []
    (tmp_path / "x.jsonl").write_bytes(b"{}\n{}\n")
    assert _paths(watched.look()) == [tmp_path / "x.jsonl"]


@pytest.mark.parametrize("told", [False, True])
def test_every_kind_of_change(tmp_path: Path, *, told: bool) -> None:
    """Grown, rewritten in its size, new, in a new folder, replaced, gone and back; with the system's help and
    without."""
    heard = notices() if told else None
    if told and heard is None:
        pytest.skip("this system tells nothing")
    root = tmp_path / "projects"
    watched = Lookout([Place("claude-code", root)], heard)
    assert watched.look() == []
    _make(root, "-p/a.jsonl")
    a = root / "-p" / "a.jsonl"

    def seen() -> list[Path]:
        return _paths(watched.look())

    assert seen() == [a]
    a.write_bytes(b"{}\n{}\n")
    assert seen() == [a]
    a.write_bytes(b"[]\n{}\n")
    assert seen() == [a]
    _make(root, "-p/b.jsonl", "-q/c.jsonl")
    assert seen() == [root / "-p" / "b.jsonl", root / "-q" / "c.jsonl"]
    _make(root, "-p/a/tool-results/x.txt")
    assert seen() == [a]
    _make(root, "-p/fresh")
    (root / "-p" / "fresh").replace(a)
    assert seen() == [a]
    a.unlink()
    assert seen() == []
    _make(root, "-p/a.jsonl")
    assert seen() == [a]
    a.chmod(0o400)
    assert seen() == [a]
    assert seen() == []
    if heard is not None:
        heard.close()


@pytest.mark.skipif(notices() is None, reason="this system tells nothing")
def test_an_old_session_that_goes_on(tmp_path: Path) -> None:
    """Where the system tells of changes, also what has not changed for long is seen at once."""
    _make(tmp_path, *(f"-p{n}/{n}.jsonl" for n in range(300)))
    heard = notices()
    assert heard is not None
    watched = Lookout([Place("claude-code", tmp_path)], heard, wall=_settled)
    assert len(watched.look()) == 300
    watched.look()
    for n in (0, 150, 299):
        path = tmp_path / f"-p{n}" / f"{n}.jsonl"
        path.write_bytes(b"{}\n{}\n")
        assert heard.wait(10.0)
        assert _paths(watched.look()) == [path]
    heard.close()


def test_a_look_costs_the_same_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without help of the system each look asks for a bounded number of files, and all have had their turn soon."""
    _make(tmp_path, *(f"-p{n % 40}/{n}.jsonl" for n in range(1000)))
    watched = Lookout([Place("claude-code", tmp_path)], wall=_settled)
    watched.look()
    asked: list[str] = []
    real = lookout._sign

    def counting(path: str) -> lookout.Sign | None:
        asked.append(path)
        return real(path)

    monkeypatch.setattr(lookout, "_sign", counting)
    looks = 0
    while len(set(asked)) < 1041:
        before = len(asked)
        assert watched.look() == []
        assert len(asked) - before <= 1 + lookout.NEAR_FOLDERS + lookout.NEAR_FILES + lookout.FAR
        looks += 1
        assert looks < 15
    old = tmp_path / "-p7" / "7.jsonl"
    old.write_bytes(b"{}\n{}\n")
    found: list[Path] = []
    for _ in range(15):
        found.extend(_paths(watched.look()))
    assert found == [old]


def test_a_folder_that_changes_twice_within_one_step_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that changed just now is listed again, whatever its time says."""
    _make(tmp_path, "-p/a.jsonl")
    monkeypatch.setattr(lookout, "_sign", lambda _: (1, 5_000_000_000, 1, 1))
    wall = [5_500_000_000]
    watched = Lookout([Place("claude-code", tmp_path)], wall=lambda: wall[0])
    assert len(watched.look()) == 1
    _make(tmp_path, "-p/b.jsonl")
    assert _paths(watched.look()) == [tmp_path / "-p" / "b.jsonl"]
    wall[0] += 60_000_000_000
    watched.look()
    _make(tmp_path, "-p/c.jsonl")
    assert watched.look() == []


class Deaf:
    """A system that tells nothing, or that it has lost some."""

    def __init__(self) -> None:
        self.lost = False

    def ask(self, folder: str) -> None:
        pass

    def told(self) -> Told:
        return Told((), self.lost)

    def wait(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        pass


def test_what_the_system_did_not_tell(tmp_path: Path) -> None:
    """Is seen when everything is looked at: once a minute, and when some of it was lost."""
    _make(tmp_path, *(f"-p{n}/{n}.jsonl" for n in range(200)))
    deaf, clock = Deaf(), Clock()
    watched = Lookout([Place("claude-code", tmp_path)], deaf, clock, _settled)
    watched.look()
    for path in tmp_path.rglob("*.jsonl"):
        os.utime(path, ns=(1, 1))
    count = len(watched.look())
    assert count <= lookout.NEAR_FILES
    deaf.lost = True
    assert len(watched.look()) == 200 - count
    deaf.lost = False
    for path in tmp_path.rglob("*.jsonl"):
        os.utime(path, ns=(2, 2))
    count = len(watched.look())
    assert count <= lookout.NEAR_FILES
    clock.now += EVERYTHING_SECONDS
    assert len(watched.look()) == 200 - count


def test_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    """Folders are not followed through links below the first level."""
    _make(tmp_path, "-p/a.jsonl", "-p/a/x")
    (tmp_path / "-p" / "a" / "round").symlink_to(tmp_path)
    (tmp_path / "-linked").symlink_to(tmp_path / "-p")
    found = _paths(Lookout([Place("claude-code", tmp_path)]).look())
    assert found == [tmp_path / "-linked" / "a.jsonl", tmp_path / "-p" / "a.jsonl"]


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is named for as long as it cannot, and read when it can."""
    _make(tmp_path, "-p/a.jsonl", "-q/b.jsonl")
    real, clock = os.scandir, Clock()
    closed = str(tmp_path / "-p")

    def refusing(path: str) -> object:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    watched = Lookout([Place("claude-code", tmp_path)], None, clock, _settled)
    assert _paths(watched.look()) == [tmp_path / "-q" / "b.jsonl"]
    assert watched.unreadable == {closed: "Permission denied"}
    monkeypatch.setattr(os, "scandir", real)
    clock.now += EVERYTHING_SECONDS
    assert _paths(watched.look()) == [tmp_path / "-p" / "a.jsonl"]
    assert watched.unreadable == {}


def test_a_link_to_itself_is_passed_over(tmp_path: Path) -> None:
    """Directly below a root, where links are followed: named, all else is seen; read when it leads somewhere."""
    _make(tmp_path, "root/-p/a.jsonl", "elsewhere/b.jsonl")
    root, clock = tmp_path / "root", Clock()
    loop = root / "-loop"
    loop.symlink_to(loop.name)
    watched = Lookout([Place("claude-code", root)], None, clock, _settled)
    assert _paths(watched.look()) == [root / "-p" / "a.jsonl"]
    assert list(watched.unreadable) == [str(loop)]
    assert _paths(list(sources.find("claude-code", root))) == [root / "-p" / "a.jsonl"]
    loop.unlink()
    loop.symlink_to(tmp_path / "elsewhere")
    clock.now += EVERYTHING_SECONDS
    assert _paths(watched.look()) == [loop / "b.jsonl"]
    assert watched.unreadable == {}


def test_a_side_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps no session from being seen."""
    _make(tmp_path, "-p/a.jsonl", "-p/a/tool-results/one.txt")
    real = Path.iterdir

    def refusing(self: Path) -> Iterator[Path]:
        if self.name == "tool-results":
            raise PermissionError(13, "Permission denied")
        return real(self)

    monkeypatch.setattr(Path, "iterdir", refusing)
    watched = Lookout([Place("claude-code", tmp_path)])
    assert _paths(watched.look()) == [tmp_path / "-p" / "a.jsonl"]
