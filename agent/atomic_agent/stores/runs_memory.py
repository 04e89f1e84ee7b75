"""Workflow runs that end with their process (B2)."""

from collections.abc import Iterator

from atomic_agent.cache import claims, run_records
from atomic_agent.cache.run_records import Run, Stage


class MemoryRuns:
    """A store of its own for each that is made."""

    name = "memory"

    def __init__(self) -> None:
        self._me = claims.myself()
        self._runs: dict[str, Run] = {}
        self._stages: dict[str, dict[str, Stage]] = {}

    def begin_run(self, run: Run, now: int) -> Run:
        new = run_records.begun(run, self._me, now)
        if run.id in self._runs:
            raise run_records.taken(run.id)
        self._runs[run.id], self._stages[run.id] = new, {}
        return new

    def set_status(self, run: str, status: str, now: int) -> Run:
        self._runs[run] = run_records.with_status(self._there(run), status, self._me, now)
        return self._runs[run]

    def put_stage(self, stage: Stage, now: int) -> Stage:
        self._runs[stage.run], new = run_records.put(self._there(stage.run), stage, self._me, now)
        self._stages[stage.run][stage.id] = new
        return new

    def get_run(self, run: str) -> Run | None:
        found = self._runs.get(run)
        return None if found is None else run_records.seen(found, self._me)

    def runs(self, *, project: str | None = None, limit: int = -1, offset: int = 0) -> Iterator[Run]:
        found = [run_records.seen(run, self._me) for run in self._runs.values()]
        return run_records.page(found, project, limit, offset)

    def stages(self, run: str) -> list[Stage]:
        self._there(run)
        return run_records.in_order([run_records.seen(one, self._me) for one in self._stages[run].values()])

    def left(self, run: str) -> list[Stage]:
        return run_records.left(self.stages(run))

    def delete_run(self, run: str) -> None:
        self._there(run)
        del self._runs[run], self._stages[run]

    def _there(self, run: str) -> Run:
        if run not in self._runs:
            raise run_records.no_run(run)
        return self._runs[run]
