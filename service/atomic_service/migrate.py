"""Applies the SQL files of `migrations/`, each once and in order, as `atomic_owner`. Knows none of their tables.

An applied file is a promise: its SHA-256 is stored, and a file that changed afterwards is an error.
"""

import hashlib
from importlib import resources
from typing import TYPE_CHECKING

import asyncpg
from msgspec import Struct

from atomic_sessions.errors import AtomicError

if TYPE_CHECKING:
    from atomic_service.db import Connection

LOCK_KEY = 0x41746F6D6963  # "Atomic": two runners wait for each other
WEB_ROLE = "atomic_web"


class MigrationError(AtomicError):
    """The schema cannot be brought to what this version needs."""


class Migration(Struct, frozen=True):
    """One file of `migrations/`."""

    name: str
    sql: str

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.sql.encode()).digest()


def shipped() -> list[Migration]:
    """The files that came with this version, in order."""
    folder = resources.files("atomic_service") / "migrations"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return [Migration(name, (folder / name).read_text(encoding="utf-8")) for name in names]


def pending(applied: dict[str, bytes], files: list[Migration]) -> list[Migration]:
    """What is left to do, or MigrationError when the database and the files tell different stories."""
    by_name = {file.name: file for file in files}
    for name, sha256 in applied.items():
        if name not in by_name:
            raise MigrationError(
                f"The database has migration {name}, which this version does not know.",
                "Run a newer atomic-service.",
            )
        if by_name[name].sha256 != sha256:
            raise MigrationError(
                f"Migration {name} was changed after it was applied.",
                "Restore the file and add a new migration.",
            )
    rest = [file for file in files if file.name not in applied]
    if applied and rest and rest[0].name < max(applied):
        raise MigrationError(
            f"Migration {rest[0].name} comes before one that is applied.", "Give it a later number."
        )
    return rest


async def migrate(url: str, files: list[Migration] | None = None) -> list[str]:
    """Bring the database at `url` up to date; the names of what was applied."""
    connection = await asyncpg.connect(url, timeout=10)
    try:
        return await _run(connection, shipped() if files is None else files)
    finally:
        await connection.close()


_COUNT = "SELECT count(*) FROM migration WHERE name = ANY($1)"


async def is_migrated(connection: "Connection") -> bool:
    """True when the schema has all that this version shipped; asked by replicas before they take requests."""
    names = [file.name for file in shipped()]
    try:
        return bool(await connection.fetchval(_COUNT, names) == len(names))
    except asyncpg.UndefinedTableError:
        return False


_TABLE = """
CREATE TABLE IF NOT EXISTS migration (
    name text PRIMARY KEY, sha256 bytea NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_READABLE = f"GRANT SELECT ON migration TO {WEB_ROLE}"
_ROLE = "SELECT rolsuper OR rolbypassrls AS too_strong FROM pg_roles WHERE rolname = $1"
_APPLIED = "SELECT name, sha256 FROM migration ORDER BY name"
_DONE = "INSERT INTO migration (name, sha256) VALUES ($1, $2)"


async def _run(connection: "asyncpg.Connection[asyncpg.Record]", files: list[Migration]) -> list[str]:
    role = await connection.fetchrow(_ROLE, WEB_ROLE)
    if role is None:
        raise MigrationError(
            f"The role {WEB_ROLE} does not exist.", f"As a superuser: CREATE ROLE {WEB_ROLE} LOGIN;"
        )
    if role["too_strong"]:
        raise MigrationError(
            f"The role {WEB_ROLE} has superuser or bypass rights.", "Take them away; it needs neither."
        )
    await connection.execute("SET lock_timeout = '2min'; SET statement_timeout = '10min'")
    await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
    try:
        # A migration must not queue behind a long read, with every request queued behind it.
        await connection.execute("SET lock_timeout = '10s'")
        await connection.execute(_TABLE)
        await connection.execute(_READABLE)
        applied = {row["name"]: row["sha256"] for row in await connection.fetch(_APPLIED)}
        todo = pending(applied, files)
        for file in todo:
            async with connection.transaction():
                await connection.execute(file.sql)
                await connection.execute(_DONE, file.name, file.sha256)
        return [file.name for file in todo]
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", LOCK_KEY)
