"""The tables of a Postgres store: made at the first opening, and checked at every other. Reads no session."""

import importlib.resources

from atomic_agent.config.errors import SelectionError
from atomic_agent.config.spelling import check_prefix
from atomic_agent.stores.postgres_connection import Database
from atomic_sessions.errors import StoreUnavailableError

SCHEMA = 1
# Postgres cuts names at 63 bytes without a word; the longest of ours has 22.
MAX_PREFIX = 40

# Not to_regclass: within a transaction it goes on saying no to a table that another has made meanwhile.
_IS_MADE = (
    "SELECT EXISTS (SELECT FROM pg_class WHERE relname = '{p}session_meta' AND pg_table_is_visible(oid))"
)
_VERSION = "SELECT value FROM \"{p}session_meta\" WHERE name = 'schema'"
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('atomic sessions {p}', 0))"


def checked_prefix(prefix: object) -> str:
    """A prefix that can stand before the names of tables; SelectionError for another (B12)."""
    where = '"prefix" in the driver\'s options'
    check_prefix(prefix, where)
    assert isinstance(prefix, str)
    if len(prefix) > MAX_PREFIX:
        raise SelectionError(f"{where} is longer than {MAX_PREFIX} characters.", "Choose a shorter one.")
    return prefix


def prepare(database: Database) -> None:
    """Make the tables where there are none; StoreUnavailableError where a newer program made them."""
    if not _is_made(database):
        with database.transaction():
            database.fetch(_ALONE)  # two first openings at once: the second waits, and finds them
            if not _is_made(database):
                source = importlib.resources.files("atomic_agent.stores") / "postgres_schema.sql"
                database.run(source.read_text(encoding="utf-8"))
    found = database.one(_VERSION)
    if found is None:
        raise StoreUnavailableError(
            f"The tables of {database.place} are not those that we make.",
            'Choose another "prefix" in the options.',
        )
    if found["value"] > SCHEMA:
        raise StoreUnavailableError(
            f"The sessions in {database.place} were written by a newer version.", "Update atomic-sessions."
        )


def _is_made(database: Database) -> bool:
    found = database.one(_IS_MADE)
    return found is not None and bool(found[0])
