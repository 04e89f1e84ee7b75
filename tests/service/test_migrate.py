"""Migrations: each file once, in order, never a changed one; and a role that can do no more than it must."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from atomic_service.embedded.databases import clone, drop
from atomic_service.embedded.postgres import OWNER, EmbeddedPostgres
from atomic_service.migrate import WEB_ROLE, Migration, MigrationError, migrate, pending, shipped

EMPTY = "template0"
FILES = [Migration("0001_a.sql", "CREATE TABLE a (x int)"), Migration("0002_b.sql", "CREATE TABLE b (x int)")]


@pytest.fixture
def url(postgres: EmbeddedPostgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database without tables."""
    name = f"empty_{abs(hash(request.node.name))}"
    asyncio.run(clone(postgres, EMPTY, name))
    yield postgres.url(OWNER, name)
    asyncio.run(drop(postgres, name))


async def test_files_are_applied_once_and_in_order(url: str) -> None:
    """A second run does nothing; a new file is applied alone."""
    assert await migrate(url, FILES[:1]) == ["0001_a.sql"]
    assert await migrate(url, FILES) == ["0002_b.sql"]
    assert await migrate(url, FILES) == []


async def test_two_runners_at_once_apply_each_file_once(url: str) -> None:
    """The second waits for the first and finds nothing left."""
    results = await asyncio.gather(*(migrate(url, FILES) for _ in range(4)))
    assert sorted(results, key=len) == [[], [], [], ["0001_a.sql", "0002_b.sql"]]


async def test_failed_file_leaves_nothing_behind(url: str) -> None:
    """Each file is one transaction."""
    broken = Migration("0002_b.sql", "CREATE TABLE b (x int); SELECT 1 / 0")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(url, [FILES[0], broken])
    assert await migrate(url, FILES) == ["0002_b.sql"]


async def test_whole_schema_is_made_from_nothing(url: str) -> None:
    """The shipped files apply to an empty database."""
    assert await migrate(url) == [file.name for file in shipped()]


def test_histories_that_differ_are_errors() -> None:
    """A changed file, a file from the future and a file squeezed in before an applied one stop the runner."""
    applied = {file.name: file.sha256 for file in FILES}
    changed = [FILES[0], Migration("0002_b.sql", "CREATE TABLE c (x int)")]
    for files, sentence in (
        (changed, "was changed after it was applied"),
        (FILES[:1], "does not know"),
        ([*FILES, Migration("0001_z.sql", "")], "comes before"),
    ):
        with pytest.raises(MigrationError, match=sentence):
            pending(applied, sorted(files, key=lambda file: file.name))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM event",
        "UPDATE event SET seq = 0",
        "DELETE FROM session",
        "UPDATE ledger SET body = ''",
        "DELETE FROM ledger",
        "UPDATE account SET quota = 0",
        "DELETE FROM account",
        "UPDATE device SET sign_key = ''",
        "UPDATE wrap SET sealed = ''",
        "DROP TABLE event",
        "CREATE TABLE mine (x int)",
        "INSERT INTO migration (name, sha256) VALUES ('x', '')",
    ],
)
async def test_web_role_cannot_do_what_the_service_never_does(
    postgres: EmbeddedPostgres, database: str, statement: str
) -> None:
    """A bug or an injection in the service cannot remove a log's rows or change a ledger."""
    connection = await asyncpg.connect(postgres.url(WEB_ROLE, database))
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_web_role_has_no_strong_rights(postgres: EmbeddedPostgres, database: str) -> None:
    """Neither superuser nor anything that gets round row-level security."""
    connection = await asyncpg.connect(postgres.url(WEB_ROLE, database))
    try:
        row = await connection.fetchrow("SELECT * FROM pg_roles WHERE rolname = $1", WEB_ROLE)
    finally:
        await connection.close()
    assert row is not None
    for right in ("rolsuper", "rolbypassrls", "rolcreatedb", "rolcreaterole", "rolreplication"):
        assert row[right] is False


def test_every_on_conflict_names_its_constraint() -> None:
    """A bare ON CONFLICT swallows what it should report (design/sync.md section 5)."""
    from importlib import resources
    from pathlib import Path

    root = Path(str(resources.files("atomic_service")))
    for path in [*root.rglob("*.py"), *root.rglob("*.sql")]:
        for line in path.read_text().splitlines():
            if "ON CONFLICT" in line and "ON CONFLICT ON CONSTRAINT" not in line:
                assert line.lstrip().startswith(("No `ON CONFLICT`", '"""')), f"{path}: {line}"
