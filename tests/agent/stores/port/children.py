"""Work done in a forked child, which may be killed at it."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def ended(work: Callable[[], object]) -> int:
    """Do it in a child; how that ended: 0, or the number of the signal that killed it."""
    return status(forked(work))


def forked(work: Callable[[], object]) -> int:
    """Do it in a child, which never comes back into the test."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001  # whatever it is, the child's test run must not go on
        traceback.print_exc()
    finally:
        os._exit(code)


def status(child: int) -> int:
    """How a child ended; a failing one is an error of the test."""
    found = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(found):
        return os.WTERMSIG(found)
    assert os.WEXITSTATUS(found) == 0, "the child failed"
    return 0


@contextmanager
def living(work: Callable[[], object]) -> Iterator[int]:
    """A child that has done it and lives until the end of the block, where it is killed."""
    reading, writing = os.pipe()

    def then_wait() -> None:
        work()
        os.write(writing, b"x")
        signal.pause()

    child = forked(then_wait)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"x"
        yield child
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class Counter:
    """Kills the process at its n-th call; never for 0."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
