"""An open cache: its connection, prefix, schema and small named values. Asks no key store."""

import hashlib
import secrets
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from atomic_agent.cache.open import assert_sealed, connect, transaction
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import CacheRefusedError

if TYPE_CHECKING:
    from sqlite3 import Connection

SCHEMA_VERSION = 1


class Cache:
    """A cache file, opened and at the newest schema. Use as a context manager."""

    def __init__(self, connection: "Connection", path: Path, prefix: str = "") -> None:
        self.connection = connection
        self.path = path
        self.prefix = prefix
        self._migrate()

    @classmethod
    def open(cls, path: Path, key: LocalKey, keyinfo: Path, *, create: bool = True, prefix: str = "") -> Self:
        """Open or create; see `open.connect` for what is refused."""
        return cls(connect(path, key, keyinfo, create=create), path, prefix)

    def sql(self, text: str) -> str:
        """A statement with this cache's table prefix."""
        return text.replace("{p}", self.prefix)

    def _migrate(self) -> None:
        meta = f"{self.prefix}session_meta"
        have = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (meta,)).fetchone()
        if have is None:
            with transaction(self.connection):
                have = self.connection.execute(
                    "SELECT 1 FROM sqlite_master WHERE name = ?", (meta,)
                ).fetchone()
                if have is None:
                    self._apply(1)
            assert_sealed(self.path)
        version = int.from_bytes(self.get("schema") or b"\x01", "big")
        if version > SCHEMA_VERSION:
            raise CacheRefusedError(
                f"The cache {self.path} was written by a newer version.", "Update atomic-sessions."
            )

    def _apply(self, version: int) -> None:
        import importlib.resources

        source = importlib.resources.files("atomic_agent.cache") / "migrations" / f"{version:04d}.sql"
        for statement in statements(self.sql(source.read_text(encoding="utf-8"))):
            self.connection.execute(statement)
        self.put("schema", version.to_bytes(2, "big"))
        self.put("writer", secrets.token_bytes(16))

    def get(self, name: str) -> bytes | None:
        """A named value, None when it was never put."""
        row = self.connection.execute(
            self.sql("SELECT value FROM {p}session_meta WHERE name = ?"), (name,)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, name: str, value: bytes) -> None:
        self.connection.execute(
            self.sql("INSERT OR REPLACE INTO {p}session_meta (name, value) VALUES (?, ?)"), (name, value)
        )

    @property
    def writer(self) -> bytes:
        """The id of this life of this cache (16 bytes)."""
        value = self.get("writer")
        assert value is not None
        return value

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def statements(text: str) -> list[str]:
    """The statements of a migration, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]


def fingerprint(content: bytes) -> bytes:
    """Sixteen bytes of a file's beginning, to tell a grown file from a rewritten one."""
    return hashlib.sha256(content).digest()[:16]
