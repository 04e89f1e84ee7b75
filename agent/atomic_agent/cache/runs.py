"""Workflow runs in the encrypted cache, beside the sessions, in tables of their own that are made when first used.

Every call is one transaction. Decides nothing about a run: `run_records` does.
"""

import importlib.resources
from collections.abc import Iterator

from atomic_agent.cache import claims, run_records
from atomic_agent.cache.cache import Cache, statements
from atomic_agent.cache.open import transaction
from atomic_agent.cache.packing import pack, unpack
from atomic_agent.cache.run_records import Run, Stage
from atomic_sessions.errors import CacheRefusedError

SCHEMA_VERSION = 1

TABLES = "SELECT 1 FROM sqlite_master WHERE name = ?"
META = "SELECT value FROM {p}wf_meta WHERE name = 'schema'"
PUT_META = "INSERT INTO {p}wf_meta (name, value) VALUES ('schema', ?)"
RUN = "SELECT codec, raw FROM {p}wf_runs WHERE id = ?"
RUNS = "SELECT codec, raw FROM {p}wf_runs ORDER BY updated_at DESC, id LIMIT ? OFFSET ?"
RUNS_OF = "SELECT codec, raw FROM {p}wf_runs WHERE project = ? ORDER BY updated_at DESC, id LIMIT ? OFFSET ?"
PUT_RUN = (
    "INSERT INTO {p}wf_runs (id, project, updated_at, codec, raw) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET project = excluded.project, updated_at = excluded.updated_at,"
    " codec = excluded.codec, raw = excluded.raw"
)
STAGES = "SELECT codec, raw FROM {p}wf_stages WHERE run = ?"
PUT_STAGE = (
    "INSERT INTO {p}wf_stages (run, id, codec, raw) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (run, id) DO UPDATE SET codec = excluded.codec, raw = excluded.raw"
)
DELETE = "DELETE FROM {p}wf_runs WHERE id = ?"
"""Its stages go with it."""


class SqliteRuns:
    """The runs in an open cache, which stays its owner's to close."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._me = claims.myself()
        self._migrate()

    @property
    def name(self) -> str:
        return str(self.cache.path)

    def begin_run(self, run: Run, now: int) -> Run:
        new = run_records.begun(run, self._me, now)
        with transaction(self.cache.connection):
            if self._run(run.id) is not None:
                raise run_records.taken(run.id)
            self._put(new)
        return new

    def set_status(self, run: str, status: str, now: int) -> Run:
        with transaction(self.cache.connection):
            new = run_records.with_status(self._there(run), status, self._me, now)
            self._put(new)
        return new

    def put_stage(self, stage: Stage, now: int) -> Stage:
        with transaction(self.cache.connection):
            run, new = run_records.put(self._there(stage.run), stage, self._me, now)
            self._put(run)
            codec, raw = pack(run_records.line(new))
            self.cache.connection.execute(self.cache.sql(PUT_STAGE), (new.run, new.id, codec, raw))
        return new

    def get_run(self, run: str) -> Run | None:
        found = self._run(run)
        return None if found is None else run_records.seen(found, self._me)

    def runs(self, *, project: str | None = None, limit: int = -1, offset: int = 0) -> Iterator[Run]:
        statement, values = (RUNS, ()) if project is None else (RUNS_OF, (project,))
        rows = self.cache.connection.execute(self.cache.sql(statement), (*values, limit, offset)).fetchall()
        for codec, raw in rows:
            if (found := run_records.read(unpack(codec, raw), Run)) is not None:
                yield run_records.seen(found, self._me)

    def stages(self, run: str) -> list[Stage]:
        with transaction(self.cache.connection, "DEFERRED"):
            self._there(run)
            rows = self.cache.connection.execute(self.cache.sql(STAGES), (run,)).fetchall()
        found = [run_records.read(unpack(codec, raw), Stage) for codec, raw in rows]
        return run_records.in_order([run_records.seen(one, self._me) for one in found if one is not None])

    def left(self, run: str) -> list[Stage]:
        return run_records.left(self.stages(run))

    def delete_run(self, run: str) -> None:
        with transaction(self.cache.connection):
            self._there(run)
            self.cache.connection.execute(self.cache.sql(DELETE), (run,))

    def _run(self, run: str) -> Run | None:
        row = self.cache.connection.execute(self.cache.sql(RUN), (run,)).fetchone()
        return None if row is None else run_records.read(unpack(*row), Run)

    def _there(self, run: str) -> Run:
        found = self._run(run)
        if found is None:
            raise run_records.no_run(run)
        return found

    def _put(self, run: Run) -> None:
        codec, raw = pack(run_records.line(run))
        values = (run.id, run.project, run.updated_at, codec, raw)
        self.cache.connection.execute(self.cache.sql(PUT_RUN), values)

    def _migrate(self) -> None:
        if not self._is_made():
            with transaction(self.cache.connection):
                if not self._is_made():
                    source = importlib.resources.files("atomic_agent.cache") / "migrations" / "wf_0001.sql"
                    for statement in statements(self.cache.sql(source.read_text(encoding="utf-8"))):
                        self.cache.connection.execute(statement)
                    self.cache.connection.execute(
                        self.cache.sql(PUT_META), (SCHEMA_VERSION.to_bytes(2, "big"),)
                    )
        row = self.cache.connection.execute(self.cache.sql(META)).fetchone()
        if row is not None and int.from_bytes(bytes(row[0]), "big") > SCHEMA_VERSION:
            raise CacheRefusedError(
                f"The workflow runs in {self.cache.path} were written by a newer version.",
                "Update atomic-sessions.",
            )

    def _is_made(self) -> bool:
        name = f"{self.cache.prefix}wf_stages"
        return self.cache.connection.execute(TABLES, (name,)).fetchone() is not None
