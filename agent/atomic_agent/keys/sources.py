"""Where the local key comes from: descriptor, file, credential, then the store chosen once.

The order of security.md 2.4. A store that fails is named; nothing falls back in silence, and a key
is made only where there is no cache yet.
"""

import base64
import binascii
import getpass
import os
import secrets
import stat
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.keys import keyring_store, passphrase_file
from atomic_agent.keys.local_key import KEY_BYTES, LocalKey
from atomic_agent.locations import Home
from atomic_sessions.errors import KeyMissingError, NoKeyStoreError


class Choice(Struct, frozen=True):
    """The store this machine uses, and for a keyring the backend class and item name."""

    store: Literal["keyring", "passphrase"]
    backend: str = ""
    item: str = ""


def find(home: Home) -> LocalKey | None:
    """The key of this home; None when none was made yet and no source names one.

    Raises NoKeyStoreError (and its kinds) when a chosen store cannot be used, KeyMissingError when a
    source holds something that is no key.
    """
    if (given := _given(home.cache.exists())) is not None:
        return given
    choice = read_choice(home)
    if choice is None:
        return None
    if choice.store == "keyring":
        key = keyring_store.load(choice.item, choice.backend)
        if key is None:
            raise KeyMissingError(
                "The keyring no longer has this machine's key.",
                "Restore it with: atomic recovery restore FILE",
            )
        return key
    try:
        content = private_files.read(home.passphrase_file)
    except FileNotFoundError:
        raise KeyMissingError(
            f"The passphrase file {home.passphrase_file} is gone.",
            "Restore it with: atomic recovery restore FILE",
        ) from None
    return passphrase_file.unwrap(content, ask_passphrase("Passphrase: "))


def make(home: Home) -> LocalKey:
    """A new key in the keyring, the default place; NoKeyStoreError when there is none."""
    key = LocalKey(secrets.token_bytes(KEY_BYTES))
    keep_in_keyring(home, key)
    return key


def keep_in_keyring(home: Home, key: LocalKey) -> None:
    """Put a key into the keyring and remember that choice."""
    private_files.make_folder(home.keys)
    item = f"local-key-{secrets.token_hex(4)}"
    backend = keyring_store.store(item, key)
    _write_choice(home, Choice("keyring", backend, item))


def keep_under_passphrase(home: Home, key: LocalKey, passphrase: str) -> None:
    """Wrap a key under a passphrase and remember that choice."""
    private_files.make_folder(home.keys)
    wrapped = passphrase_file.wrap(key, passphrase, secrets.token_bytes(16), secrets.token_bytes(12))
    private_files.write(home.passphrase_file, wrapped)
    _write_choice(home, Choice("passphrase"))


def write_key_file(path: Path, key: LocalKey) -> None:
    """Put a key into a new 0600 file, as ATOMIC_KEY_FILE takes it."""
    if path.exists() or path.is_symlink():
        raise NoKeyStoreError(f"{path} exists already; a key file is never replaced.", "Name a new file.")
    private_files.write(path, base64.b64encode(key.reveal()) + b"\n")


def read_choice(home: Home) -> Choice | None:
    """The recorded choice, None before the first."""
    try:
        return msgspec.json.decode(private_files.read(home.key_choice), type=Choice)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        raise NoKeyStoreError(
            f"{home.key_choice} does not say where the key is.",
            "Choose again: atomic keys use keyring|passphrase",
        ) from None


def is_given() -> bool:
    """True when the environment names the key, so that no store is needed."""
    return (
        any(os.environ.get(name) for name in ("ATOMIC_KEY_FD", "ATOMIC_KEY_FILE"))
        or _credential() is not None
    )


def ask_passphrase(prompt: str) -> str:
    """A passphrase from ATOMIC_PASSPHRASE_FD or the terminal, never echoed."""
    if number := os.environ.get("ATOMIC_PASSPHRASE_FD"):
        return (
            _read_descriptor("ATOMIC_PASSPHRASE_FD", number, 4096)
            .decode("utf-8", "surrogateescape")
            .rstrip("\n")
        )
    if not sys.stdin.isatty():
        raise NoKeyStoreError(
            "The key is protected by a passphrase and there is no terminal to ask for it.",
            "Set ATOMIC_PASSPHRASE_FD to a file descriptor that holds it.",
        )
    return getpass.getpass(prompt)


def _write_choice(home: Home, choice: Choice) -> None:
    private_files.write(home.key_choice, msgspec.json.encode(choice))


def _given(in_use: bool) -> LocalKey | None:
    if number := os.environ.get("ATOMIC_KEY_FD"):
        return _decode(_read_descriptor("ATOMIC_KEY_FD", number, 256), "ATOMIC_KEY_FD")
    named = os.environ.get("ATOMIC_KEY_FILE")
    path = Path(named).expanduser() if named else _credential()
    return None if path is None else _decode(_read_key_file(path, in_use), str(path))


def _credential() -> Path | None:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(folder) / "atomic-key" if folder else None
    return path if path is not None and path.exists() else None


def _read_descriptor(name: str, number: str, limit: int) -> bytes:
    try:
        with os.fdopen(int(number), "rb") as stream:
            return stream.read(limit)
    except (ValueError, OSError):
        raise NoKeyStoreError(
            f"{name}={number} is not an open file descriptor.", "Open it in the shell: 3< FILE"
        ) from None


def _read_key_file(path: Path, in_use: bool) -> bytes:
    if in_use and not path.exists():
        raise NoKeyStoreError(
            f"The key file {path} is not there, and the cache needs its key.",
            f"Put it back, or: atomic recovery restore FILE --key-file '{path}'",
        )
    mend = f"Make one with: umask 077; openssl rand -base64 32 > '{path}'"
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise NoKeyStoreError(f"The key file {path} is not a regular file.", mend)
        if os.name == "posix" and found.st_uid != os.geteuid():
            raise NoKeyStoreError(
                f"The key file {path} belongs to another user.", f"Run: sudo chown $USER '{path}'"
            )
        if os.name == "posix" and found.st_mode & 0o077:
            raise NoKeyStoreError(f"Others can read the key file {path}.", f"Run: chmod 600 '{path}'")
        with path.open("rb") as stream:
            return stream.read(256)
    except OSError as error:
        raise NoKeyStoreError(f"The key file {path} cannot be read: {error.strerror}.", mend) from error


def _decode(text: bytes, source: str) -> LocalKey:
    try:
        secret = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise KeyMissingError(
            f"{source} does not hold a key of 32 bytes in base64.", "Make one with: openssl rand -base64 32"
        )
    return LocalKey(secret)
