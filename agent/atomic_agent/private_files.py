"""Folders of 0700 and files of 0600: made, checked, replaced. Knows nothing of what is in them."""

import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from atomic_sessions.errors import CacheRefusedError, StoreWriteError


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can enter; an existing one is refused only if group or
    others can write to it (design.md section 4)."""
    missing = []
    at = path
    try:
        while not at.exists():
            missing.append(at)
            at = at.parent
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreWriteError(
            f"The folder {path} cannot be made: {error.strerror}.", f"Check the rights of {at}."
        ) from error
    if not missing:
        check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a folder that others can change."""
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise CacheRefusedError(f"{path} is not a folder.", "Move it away, or point ATOMIC_HOME elsewhere.")
    if os.name == "posix":
        if found.st_mode & 0o022:
            raise CacheRefusedError(f"Others can write to the folder {path}.", f"Run: chmod go-w '{path}'")
        if found.st_uid != os.geteuid():
            raise CacheRefusedError(
                f"The folder {path} belongs to another user.", f"Run: sudo chown -R $USER '{path}'"
            )


def check_file(path: Path) -> None:
    """Refuse a private file that is a link, not a file, not ours, or open to others."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise CacheRefusedError(f"{path} is a symbolic link.", "Put the file itself there.")
    if not stat.S_ISREG(found.st_mode):
        raise CacheRefusedError(f"{path} is not a file.", "Move it away.")
    if os.name == "posix":
        if found.st_uid != os.geteuid():
            raise CacheRefusedError(f"{path} belongs to another user.", f"Run: sudo chown $USER '{path}'")
        if found.st_mode & 0o077:
            raise CacheRefusedError(f"Others can read {path}.", f"Run: chmod 600 '{path}'")


def create(path: Path) -> None:
    """Make an empty 0600 file; it must not exist."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    os.close(os.open(path, flags, 0o600))


def write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file whole: temp file in the same folder, fsync, rename, fsync of the folder (A4).

    Raises StoreWriteError with nothing changed.
    """
    write_pieces(path, (content,), mode=mode)


def write_pieces(path: Path, pieces: Iterable[bytes], *, mode: int = 0o600) -> int:
    """`write` for content that is too large to hold; returns its size in bytes. What the pieces raise is raised,
    with nothing changed."""
    size = 0
    temp = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(temp, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        try:
            with os.fdopen(handle, "wb") as stream:
                for piece in pieces:
                    size += stream.write(piece)
                stream.flush()
                os.fsync(stream.fileno())
            temp.replace(path)
        except BaseException:
            temp.unlink(missing_ok=True)
            raise
        if os.name == "posix":
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise StoreWriteError(
            f"{path} cannot be written: {error.strerror}.", "Free some space or check the folder's rights."
        ) from error
    return size


def read(path: Path) -> bytes:
    """The content of a private file after its checks; FileNotFoundError when there is none."""
    check_file(path)
    return path.read_bytes()
