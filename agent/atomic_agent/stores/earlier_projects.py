"""Which project the folder of an earlier session is in, without asking git twice. Decides no project itself.

A session's folder may be given a remote, or another repository put in its place, at any time. So an answer is kept
with what it was told from, and asked for anew when that is another.
"""

import os
from collections.abc import Callable
from pathlib import Path

from atomic_agent.cache import earlier
from atomic_agent.cache.cache import Cache

NAMED = "git:"
"""Of a repository with a remote its settings alone tell the project; of another one its commits too."""


class FolderProjects:
    """Projects of folders. `project_of` is asked for what is not known; `keeps`: asking is worth remembering."""

    def __init__(self, cache: Cache, project_of: Callable[[str], str], *, keeps: bool) -> None:
        self._cache = cache
        self._project_of = project_of
        self._keeps = keeps
        self._found: dict[str, str] = {}
        self._kept: dict[str, tuple[str, str]] | None = None

    def of(self, cwd: str) -> str:
        """The project of a folder, empty for none."""
        found = self._found.get(cwd)
        if found is None:
            found = self._found[cwd] = self._ask(cwd) if self._keeps else self._project_of(cwd)
        return found

    def _ask(self, cwd: str) -> str:
        if self._kept is None:
            self._kept = earlier.projects(self._cache)
        settings, commits = _marks(cwd)
        mark, project = self._kept.get(cwd, ("", ""))
        if not settings:
            # A working tree that was removed still was the project's; of another folder its path tells, without git.
            return project or self._project_of(cwd)
        if mark == settings + commits or (project.startswith(NAMED) and mark.startswith(settings)):
            return project
        project = self._project_of(cwd)
        earlier.keep_project(self._cache, cwd, settings + commits, project)
        return project


def _marks(cwd: str) -> tuple[str, str]:
    """What changes with a folder's repository and its settings, and what with its commits; empty for a folder that
    is not there."""
    try:
        here = Path(cwd).stat()
        folder = Path(cwd).resolve()
        git = next((up / ".git" for up in (folder, *folder.parents) if os.path.lexists(up / ".git")), None)
        if git is None:
            return f"{here.st_ino}|", ""
        settings = _settings(git).stat()
        commits = git.stat()
    except (OSError, ValueError, RuntimeError):
        return "", ""
    return (
        f"{here.st_ino}|{git}|{settings.st_size}|{settings.st_mtime_ns}|",
        f"{commits.st_mtime_ns}",
    )


def _settings(git: Path) -> Path:
    """The file that names the remotes; that of the main repository for another working tree of it."""
    if git.is_dir():
        return git / "config"
    text = git.read_text(encoding="utf-8", errors="surrogateescape")
    folder = git.parent / text.removeprefix("gitdir:").strip()
    common = folder / "commondir"
    if common.is_file():
        folder = folder / common.read_text(encoding="utf-8", errors="surrogateescape").strip()
    return folder / "config"
