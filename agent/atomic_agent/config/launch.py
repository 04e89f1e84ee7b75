"""What one launch makes of flags, variables and settings: where its sessions and runs go (B5, B11).

Until a project is trusted its settings choose nothing, which is said in one line. Asks nobody itself.
"""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from atomic_agent.config import settings, trust
from atomic_agent.config.errors import SelectionError, SettingsError
from atomic_agent.config.paths import Folders, resolve
from atomic_agent.config.precedence import Flags, Placement, Sources, StorageFile, check, place
from atomic_agent.config.settings import SettingsFile
from atomic_agent.locations import Home

Agrees = Callable[[Path, Path, tuple[str, ...]], bool | None]
"""Asks whether the project at a root is trusted, whose settings file chooses these members; None: no answer."""


def folders_of(home: Home, working: Path) -> Folders:
    """What paths count from."""
    return Folders(str(home.root), str(working), str(Path.home()))


def earlier_sessions(home: Home, environ: Mapping[str, str], working: Path) -> Path:
    """The folder in which earlier versions kept sessions (B3)."""
    return settings.global_path(home, environ, folders_of(home, working)).parent / "sessions"


def placement(
    home: Home,
    folders: Folders,
    flags: Flags,
    environ: Mapping[str, str],
    *,
    now: int,
    approve: bool = False,
    agrees: Agrees | None = None,
    tell: Callable[[str], None] = lambda _: None,
    sdk: object = None,
) -> Placement:
    """Where this launch keeps sessions and runs. `approve` trusts the project from now on; `agrees` may ask a person.
    Raises SelectionError, SettingsError."""
    check(flags)
    everywhere = settings.read(settings.global_path(home, environ, folders))
    project = _project(home, Path(folders.working), now, approve=approve, agrees=agrees, tell=tell)
    for file in (everywhere, project):
        note = settings.removed(file, folders) if file is not None else None
        if note is not None:
            tell(note)
    return place(Sources(folders, flags, environ, project, everywhere, sdk))


def read_storage_file(named: str, folders: Folders) -> StorageFile:
    """What --storage-file names. A pipe is read too: that is how a secret gets here without a file."""
    path = Path(resolve(named, folders.working, folders, "--storage-file"))
    try:
        with path.open("rb") as stream:
            lasting = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            raw = stream.read(settings.MAX_BYTES + 1)
    except OSError as error:
        raise SelectionError(
            f"The --storage-file {path} cannot be read: {error.strerror}.", "Name a file that holds JSON."
        ) from None
    if len(raw) > settings.MAX_BYTES:
        raise SelectionError(f"The --storage-file {path} is too large.", "Name a file that holds JSON.")
    try:
        return StorageFile(str(path), raw.decode("utf-8-sig"), lasting)
    except UnicodeDecodeError:
        raise SelectionError(f"The --storage-file {path} is not UTF-8 text.", "Save it as UTF-8.") from None


def _project(
    home: Home,
    cwd: Path,
    now: int,
    *,
    approve: bool,
    agrees: Agrees | None,
    tell: Callable[[str], None],
) -> SettingsFile | None:
    """The project's settings when they hold; otherwise None, and one line when they would choose something."""
    root = trust.project_root(cwd)
    path = settings.project_path(root, home)
    if approve:
        trust.remember(home, root, trusted=True, now=now)
    if path is None:
        return None
    said = trust.answer(home, root)
    if said is not None and said.trusted:
        return settings.read(path)
    try:
        file = settings.read(path)
    except SettingsError:
        # Whoever wrote an untrusted file must not be able to stop the program with it.
        tell(f"This project's settings ({path}) cannot be read and are ignored; it is not trusted.")
        return None
    chosen = settings.chosen_by(file) if file is not None else ()
    if not chosen:
        return None
    if said is None and agrees is not None and (agreed := agrees(root, path, chosen)) is not None:
        trust.remember(home, root, trusted=agreed, now=now)
        if agreed:
            return file
    tell(f"This project's settings ({path}) are ignored until you trust it: atomic trust")
    return None
