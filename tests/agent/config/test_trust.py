"""Project trust: one answer a project, kept safely, never lent to what lies below another repository."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from atomic_agent.config import trust
from atomic_agent.locations import Home
from atomic_sessions.errors import CacheRefusedError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".atomic")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "part" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def test_a_project_is_its_repository(tmp_path: Path, repository: Path) -> None:
    """A folder inside a repository belongs to its root, by a link too; a folder of no repository is itself; a
    work tree or submodule, whose `.git` is a file, is a root of its own."""
    link = tmp_path / "link"
    link.symlink_to(repository / "part")
    for folder in (repository, repository / "part" / "deep", link, repository / "part" / ".." / "gone"):
        assert trust.project_root(folder) == repository
    assert trust.project_root(tmp_path) == tmp_path
    inner = repository / "vendor"
    inner.mkdir()
    (inner / ".git").write_text("gitdir: elsewhere")
    assert trust.project_root(inner) == inner


def test_an_answer_is_remembered(home: Home, repository: Path) -> None:
    """Yes and no are kept, the last one holds, and nobody was asked before."""
    assert trust.answer(home, repository) is None
    for trusted in (True, False, True):
        said = trust.remember(home, repository, trusted=trusted, now=7)
        assert trust.answer(home, repository) == said == trust.Answer(str(repository), trusted, 7)
    assert trust.answers(home) == [trust.Answer(str(repository), True, 7)]


def test_a_parent_says_nothing_about_a_child(home: Home, tmp_path: Path, repository: Path) -> None:
    """Trust in a folder is none in a repository below it, nor in another folder without one."""
    trust.remember(home, tmp_path, trusted=True, now=1)
    assert trust.answer(home, trust.project_root(repository)) is None
    (tmp_path / "plain").mkdir()
    assert trust.answer(home, trust.project_root(tmp_path / "plain")) is None


def test_answers_are_private(home: Home, repository: Path) -> None:
    """0600 files in 0700 folders, whatever the umask."""
    before = os.umask(0)
    try:
        trust.remember(home, repository, trusted=True, now=1)
    finally:
        os.umask(before)
    (file,) = (home.root / "trust").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == stat.S_IMODE(home.root.stat().st_mode) == 0o700


def test_an_answer_others_could_have_written_is_refused(home: Home, repository: Path, tmp_path: Path) -> None:
    """Open to others, or a link: an error that names the file, never trust."""
    trust.remember(home, repository, trusted=True, now=1)
    (file,) = (home.root / "trust").iterdir()
    file.chmod(0o620)
    with pytest.raises(CacheRefusedError, match=str(file)):
        trust.answer(home, repository)
    file.chmod(0o600)
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.raises(CacheRefusedError, match="symbolic link"):
        trust.answer(home, repository)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"folder":"/x","trusted":"yes","at":1}', b"\xff", b"[" * 9999]
)
def test_a_broken_answer_is_none(home: Home, repository: Path, content: bytes) -> None:
    """What cannot be read trusts nobody; the person is asked again."""
    trust.remember(home, repository, trusted=True, now=1)
    (file,) = (home.root / "trust").iterdir()
    file.write_bytes(content)
    assert trust.answer(home, repository) is None
    assert trust.answers(home) == []


def test_an_answer_is_for_its_folder_alone(home: Home, repository: Path, tmp_path: Path) -> None:
    """An answer copied under another project's name does not count, nor one of a later layout."""
    trust.remember(home, repository, trusted=True, now=1)
    (file,) = (home.root / "trust").iterdir()
    kept = file.read_bytes()
    trust.remember(home, tmp_path, trusted=False, now=1)
    other = next(found for found in (home.root / "trust").iterdir() if found != file)
    other.write_bytes(kept)
    assert trust.answer(home, tmp_path) is None
    file.write_bytes(kept.replace(b'"version":1', b'"version":2'))
    assert trust.answer(home, repository) is None


def test_a_folder_of_any_name(home: Home, tmp_path: Path) -> None:
    """A name that is no UTF-8 has an answer of its own."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    spelled = Path(f"{tmp_path}/\\xff")
    trust.remember(home, odd, trusted=True, now=1)
    assert trust.answer(home, odd) is not None
    assert trust.answer(home, spelled) is None


def test_many_at_once(home: Home, tmp_path: Path) -> None:
    """Answers given at the same time are all kept."""
    folders = [tmp_path / str(number) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda folder: trust.remember(home, folder, trusted=True, now=1), folders))
    assert len(trust.answers(home)) == len(folders)
