"""Which project a folder belongs to, the same on every machine (design.md section 6)."""

import os
import subprocess
from functools import lru_cache
from pathlib import Path

from atomic_sessions.ids import remote_key

GIT_SECONDS = 5
HOOK_VARIABLES = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
}
"""What git sets in its hooks, which would make every folder that one repository."""


@lru_cache(maxsize=4096)
def project_of(folder: str) -> str:
    """The project key of a folder: `git:HOST/PATH` by its remote (`origin`, else the first by name),
    `root:COMMIT` for a repository without one, else `path:` and the path relative to home, of the whole repository
    where there is one."""
    path = Path(folder)
    if folder and _is_folder(path):
        remotes = _git(path, "config", "--get-regexp", r"^remote\..*\.url$")
        if remotes is not None:
            if (key := _best_remote(remotes)) is not None:
                return f"git:{key}"
            if root := _git(path, "rev-list", "--max-parents=0", "HEAD"):
                return f"root:{min(root.split())}"
            if top := _git(path, "rev-parse", "--show-toplevel"):
                return f"path:{relative(top.rstrip(chr(10)))}"
    return f"path:{relative(folder)}" if folder else ""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # a recorded folder may be longer than this file system's names


def relative(folder: str) -> str:
    """A path as text, below `~` when it lies in this person's home."""
    home = str(Path.home())
    if folder == home or folder.startswith(home.rstrip("/") + "/"):
        return "~" + folder[len(home.rstrip("/")) :]
    return folder


def display(project: str, folder: str = "") -> str:
    """A project key as people read it; one known by its root commit goes by its folder's name."""
    kind, _, rest = project.partition(":")
    return (folder or rest[:12]) if kind == "root" else rest


def _best_remote(listing: str) -> str | None:
    found: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, url = line.partition(" ")
        key = remote_key(url)
        if key is not None:
            found.setdefault(name.removeprefix("remote.").removesuffix(".url"), key)
    if "origin" in found:
        return found["origin"]
    return found[min(found)] if found else None


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None when the folder is in no repository or git is not there."""
    try:
        done = subprocess.run(  # fixed program, no shell
            ["git", "-C", str(folder), *arguments],  # the person's own git
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=GIT_SECONDS,
            env={name: value for name, value in os.environ.items() if name not in HOOK_VARIABLES},
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return done.stdout
    # `git config` answers 1 without a word when nothing matches, and 128 outside a repository.
    inside = arguments[0] == "config" and done.returncode == 1 and _git(folder, "rev-parse", "--git-dir")
    return "" if inside else None
