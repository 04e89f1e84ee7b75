"""Which project a folder belongs to: the same on every machine, whatever git is or is not there."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from atomic_agent import projects
from atomic_agent.projects import display, project_of, relative


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings of this machine's git, and no memory of other tests."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    project_of.cache_clear()
    yield
    project_of.cache_clear()


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    _git(folder, "init", "-q")
    return folder


def test_origin_comes_first(repository: Path) -> None:
    """`origin` names the project, else the first remote by name; order of adding does not matter."""
    _git(repository, "remote", "add", "zeta", "git@host.example:z/z.git")
    _git(repository, "remote", "add", "alpha", "https://user:secret@Host.example:8443/a/a.git")
    assert project_of(str(repository)) == "git:host.example/a/a"
    project_of.cache_clear()
    _git(repository, "remote", "add", "origin", "ssh://git@host.example/o/o")
    assert project_of(str(repository)) == "git:host.example/o/o"


def test_a_local_origin_is_no_name(repository: Path) -> None:
    """A path means nothing on another machine: the next remote does."""
    _git(repository, "remote", "add", "origin", "/srv/git/x.git")
    _git(repository, "remote", "add", "up", "git@host:x/y.git")
    assert project_of(str(repository)) == "git:host/x/y"


def test_rewriting_of_urls_is_not_applied(repository: Path, tmp_path: Path) -> None:
    """`insteadOf` is one machine's own affair."""
    (tmp_path / "gitconfig").write_text('[url "git@mirror:"]\n\tinsteadOf = https://github.com/\n')
    _git(repository, "remote", "add", "origin", "https://github.com/a/b.git")
    assert project_of(str(repository)) == "git:github.com/a/b"


def test_subfolders_and_worktrees_are_the_same_project(repository: Path, tmp_path: Path) -> None:
    """With a remote or without one."""
    (repository / "deep" / "er").mkdir(parents=True)
    (repository / "f").touch()
    _git(repository, "add", ".")
    _git(repository, "commit", "-qm", "x")
    root = _git(repository, "rev-list", "--max-parents=0", "HEAD")
    _git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    places = [repository, repository / "deep" / "er", tmp_path / "tree"]
    assert {project_of(str(place)) for place in places} == {f"root:{root}"}
    project_of.cache_clear()
    _git(repository, "remote", "add", "origin", "git@host:x/y.git")
    assert {project_of(str(place)) for place in places} == {"git:host/x/y"}


def test_without_a_commit(repository: Path) -> None:
    """A repository of nothing yet is named by its place."""
    assert project_of(str(repository)) == f"path:{relative(str(repository))}"


def test_a_clone_of_a_clone_has_the_same_root(repository: Path, tmp_path: Path) -> None:
    """Without a usable remote, the first commit tells that two folders are one project."""
    _git(repository, "commit", "-qm", "x", "--allow-empty")
    _git(tmp_path, "clone", "-q", str(repository), str(tmp_path / "clone"))
    assert project_of(str(tmp_path / "clone")) == project_of(str(repository))
    assert project_of(str(repository)).startswith("root:")


def test_no_repository_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by the path, below ~ where it lies in the home; an unknown folder is no project."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "plain").mkdir()
    assert project_of(str(tmp_path / "plain")) == "path:~/plain"
    assert project_of(str(tmp_path)) == "path:~"
    assert project_of(str(tmp_path / "gone")) == "path:~/gone"
    assert project_of("/no/such") == "path:/no/such"
    assert project_of("") == ""
    assert relative(str(tmp_path) + "x") == str(tmp_path) + "x"


def test_a_machine_without_git(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a repository is a folder like any other."""
    _git(repository, "remote", "add", "origin", "git@host:x/y.git")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert shutil.which("git") is None
    assert project_of(str(repository)).startswith("path:")


def test_a_git_that_hangs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not waited for."""
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(projects, "GIT_SECONDS", 0.2)
    assert project_of(str(repository)).startswith("path:")


def test_run_from_a_git_hook(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's own variables, set in its hooks, do not make every folder that repository."""
    other = tmp_path / "other"
    other.mkdir()
    _git(other, "init", "-q")
    _git(other, "remote", "add", "origin", "git@host:other/other.git")
    _git(repository, "remote", "add", "origin", "git@host:x/y.git")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert project_of(str(repository)) == "git:host/x/y"


def test_urls_that_are_no_text(repository: Path) -> None:
    """A remote in another encoding names a project, or none, and breaks nothing."""
    with (repository / ".git" / "config").open("ab") as stream:
        stream.write(b'[remote "origin"]\n\turl = https://h/caf\xe9.git\n')
    assert project_of(str(repository)).startswith("git:h/caf")


@pytest.mark.parametrize("folder", ["/p\x00q", "/p\ud83d", "/" + "x" * 5000])
def test_folders_that_cannot_be(folder: str) -> None:
    """Recorded folders that no file system takes are only names."""
    assert project_of(folder) == f"path:{folder}"


def test_how_projects_are_shown() -> None:
    """Without the kind; a commit short."""
    assert display("git:host/x/y") == "host/x/y"
    assert display("root:" + "a" * 40) == "a" * 12
    assert display("path:~/x") == "~/x"
    assert display("") == ""
