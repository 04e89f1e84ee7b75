"""The default store: home, key, encrypted cache and keystore opened together (B1, C1)."""

import os
import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from atomic_agent import private_files
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import KeyInfo, check_key, read_keyinfo, write_keyinfo
from atomic_agent.keys import sources
from atomic_agent.keys.local_key import KEY_BYTES, LocalKey
from atomic_agent.locations import Home
from atomic_agent.locks import LockedError, exclusive
from atomic_sessions.errors import BusyError, KeyMissingError, StoreWriteError
from atomic_sessions.seal import open_small, seal_small

if TYPE_CHECKING:
    from atomic_agent.keys.keystore import Secrets

# The keystore is imported where secrets are used: listing and searching need none.

LOCK_SECONDS = 10.0
UNWRITABLE = "Check its rights and whether its disk is read-only."
RECOVERY_LABEL = b"atomic1/recovery-local"


class Journal:
    """An open default store. `made_key` tells that this open made the first key."""

    def __init__(self, home: Home, key: LocalKey, cache: Cache, *, made_key: bool) -> None:
        self.home = home
        self.key = key
        self.cache = cache
        self.made_key = made_key
        self._secrets: Secrets | None = None

    @property
    def new_key(self) -> str:
        """What holds the key that this open made; empty when there was one."""
        return self.key.name if self.made_key else ""

    @property
    def secrets(self) -> "Secrets":
        """This machine's secrets, read when first needed."""
        if self._secrets is None:
            from atomic_agent.keys import keystore

            self._secrets = keystore.load(self.home, self.key)
        return self._secrets

    def change(self, **members: object) -> None:
        """Save some members of the secrets, the others as another process may have left them."""
        from atomic_agent.keys import keystore

        private_files.make_folder(self.home.keys)
        try:
            with exclusive(self.home.keys / "lock", LOCK_SECONDS):
                content = msgspec.structs.replace(keystore.load(self.home, self.key), **members)
                keystore.save(self.home, self.key, content)
        except LockedError:
            raise BusyError("Another process holds the keystore.", "Try again in a moment.") from None
        self._secrets = content

    def close(self) -> None:
        self.cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_journal(home: Home) -> Journal:
    """Open the default store, making key and cache where there is neither.

    Raises NoKeyStoreError, KeyMissingError, CacheRefusedError, StoreWriteError, BusyError.
    """
    if home.root.exists():
        private_files.check_folder(home.root)
    if read_keyinfo(home.keyinfo) is not None:
        return _open(home)
    # Two first commands at once must not make two keys.
    private_files.make_folder(home.keys)
    try:
        with exclusive(home.keys / "lock", LOCK_SECONDS):
            return _open(home)
    except LockedError:
        raise BusyError("Another process is making the first key.", "Try again in a moment.") from None


def _open(home: Home) -> Journal:
    key = sources.find(home)
    made = False
    if key is None:
        if home.cache.exists() or home.cache.is_symlink() or home.keystore.exists():
            private_files.check_file(
                home.cache if home.cache.is_symlink() or home.cache.exists() else home.keystore
            )
            raise KeyMissingError(
                f"The cache {home.cache} exists, but its key is missing.",
                "Name the key file (ATOMIC_KEY_FILE), or: atomic recovery restore FILE",
            )
        key = sources.make(home)
    try:
        cache = Cache.open(home.cache, key, home.keyinfo)
    except StoreWriteError:
        # Of a folder it may not write to SQLite says what it says of many troubles.
        if os.access(home.cache.parent, os.W_OK):
            raise
        raise StoreWriteError(f"{home.cache.parent} cannot be written to.", UNWRITABLE) from None
    if read_keyinfo(home.keyinfo) is None:
        made = _first_key(home, key)
    return Journal(home, key, cache, made_key=made)


def _first_key(home: Home, key: LocalKey) -> bool:
    from atomic_agent.keys import keystore

    content = keystore.load(home, key)
    if not content.recovery:
        content = msgspec.structs.replace(content, recovery=secrets.token_bytes(KEY_BYTES))
        keystore.save(home, key, content)
    wrapped = seal_small(content.recovery, RECOVERY_LABEL, key.reveal(), secrets.token_bytes(12))
    write_keyinfo(home.keyinfo, KeyInfo(1, key.name, key.check_value, wrapped.hex()))
    return True


def recover_local_key(home: Home, recovery: bytes) -> LocalKey | None:
    """The key of the cache that lies here, opened with a kit's secret; None when there is no cache or
    the kit belongs to another one."""
    info = read_keyinfo(home.keyinfo)
    if info is None or not info.recovery:
        return None
    key = LocalKey(open_small(recovery, RECOVERY_LABEL, bytes.fromhex(info.recovery)))
    check_key(home.cache, home.keyinfo, key)
    return key


def reopen(journal: Journal) -> Journal:
    """The same store over a connection of its own, for another thread."""
    cache = Cache.open(journal.home.cache, journal.key, journal.home.keyinfo, create=False)
    return Journal(journal.home, journal.key, cache, made_key=False)
