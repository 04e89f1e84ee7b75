"""Workflow runs of a JSONL folder: a file a run beside the sessions, its record first, then a line a stage.

A change replaces the file whole under the folder's lock, so readers need none. Never among the sessions.
"""

from collections.abc import Iterator
from pathlib import Path

from atomic_agent import private_files
from atomic_agent.cache import claims, run_records
from atomic_agent.cache.run_records import Run, Stage
from atomic_agent.stores.jsonl_append import writing
from atomic_agent.stores.jsonl_files import SIDE, opened, read_side, side_path

ENDING = ".run"


class FolderRuns:
    """The runs beside the sessions of a folder, which may not be there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._me = claims.myself()

    @property
    def name(self) -> str:
        return str(self.folder)

    def begin_run(self, run: Run, now: int) -> Run:
        new = run_records.begun(run, self._me, now)
        with writing(self.folder):
            if self._path(run.id).exists():
                raise run_records.taken(run.id)
            self._write(new, {})
        return new

    def set_status(self, run: str, status: str, now: int) -> Run:
        self._there(run)  # a folder that is not there is not made
        with writing(self.folder):
            before, stages = self._there(run)
            new = run_records.with_status(before, status, self._me, now)
            self._write(new, stages)
        return new

    def put_stage(self, stage: Stage, now: int) -> Stage:
        self._there(stage.run)
        with writing(self.folder):
            before, stages = self._there(stage.run)
            run, new = run_records.put(before, stage, self._me, now)
            self._write(run, stages | {new.id: new})
        return new

    def get_run(self, run: str) -> Run | None:
        found = self._read(run)
        return None if found is None else run_records.seen(found[0], self._me)

    def runs(self, *, project: str | None = None, limit: int = -1, offset: int = 0) -> Iterator[Run]:
        found = [_first(path) for path in (self.folder / SIDE).glob(f"*{ENDING}")]
        there = [run_records.seen(run, self._me) for run in found if run is not None]
        return run_records.page(there, project, limit, offset)

    def stages(self, run: str) -> list[Stage]:
        found = self._there(run)[1].values()
        return run_records.in_order([run_records.seen(one, self._me) for one in found])

    def left(self, run: str) -> list[Stage]:
        return run_records.left(self.stages(run))

    def delete_run(self, run: str) -> None:
        self._there(run)
        with writing(self.folder):
            self._there(run)
            self._path(run).unlink()

    def _path(self, run: str) -> Path:
        return side_path(self.folder, run, ENDING)

    def _there(self, run: str) -> tuple[Run, dict[str, Stage]]:
        found = self._read(run)
        if found is None:
            raise run_records.no_run(run)
        return found

    def _read(self, run: str) -> tuple[Run, dict[str, Stage]] | None:
        try:
            first, *rest = read_side(self._path(run)).split(b"\n")
        except OSError:
            return None
        record = run_records.read(first, Run)
        stages = [run_records.read(raw, Stage) for raw in rest if raw]
        return None if record is None else (record, {one.id: one for one in stages if one is not None})

    def _write(self, run: Run, stages: dict[str, Stage]) -> None:
        lines = [run_records.line(run), *(run_records.line(stage) for stage in stages.values())]
        private_files.write(self._path(run.id), b"".join(raw + b"\n" for raw in lines))


def _first(path: Path) -> Run | None:
    """The record of a run without its stages."""
    try:
        with opened(path) as stream:
            return run_records.read(stream.readline(), Run)
    except OSError:
        return None
