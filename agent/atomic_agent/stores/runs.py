"""What every store of workflow runs can do (B1, B22). Keeps nothing itself and starts nothing.

A program that runs a workflow writes what each stage came to, and after a kill asks what is left. Stages' sessions
are sessions like others, in the store of sessions; a record names them.
"""

from collections.abc import Iterator
from typing import NoReturn, Protocol

from atomic_agent.cache.run_records import Run, Stage
from atomic_sessions.errors import UnsupportedError


class RunStore(Protocol):
    """Every call is durable when it returns, or raises and has changed nothing. Calls on a run that is not there raise
    NotFoundError, a record that cannot be kept UsageError, a disk that refuses StoreWriteError.

    What is running says by which process; once that is gone, whoever reads is told `interrupted`.
    """

    @property
    def name(self) -> str:
        """What a person is told the store is."""

    def begin_run(self, run: Run, now: int) -> Run:
        """Keep a new run; SessionExistsError when its id is taken."""

    def set_status(self, run: str, status: str, now: int) -> Run:
        """Say how a run stands. Who says `running` goes on with it."""

    def put_stage(self, stage: Stage, now: int) -> Stage:
        """Write a stage as it is now, in the place of what was kept of it. Other stages stay, whoever writes them."""

    def get_run(self, run: str) -> Run | None:
        """The run of this id."""

    def runs(self, *, project: str | None = None, limit: int = -1, offset: int = 0) -> Iterator[Run]:
        """A page of runs, what changed last first; of one project, or of all."""

    def stages(self, run: str) -> list[Stage]:
        """The stages of a run: each after its parents, else by their beginning."""

    def left(self, run: str) -> list[Stage]:
        """The stages that are not completed, in that order: what to do to go on. One that is still `running` is being
        made by a living process."""

    def delete_run(self, run: str) -> None:
        """Take a run away with its stages; their sessions stay."""


def unsupported(store: str) -> NoReturn:
    """For a store of sessions that has no place for runs."""
    raise UnsupportedError(
        f"{store} holds no workflow runs.", "Use the default store, another SQLite file or a JSONL folder."
    )
