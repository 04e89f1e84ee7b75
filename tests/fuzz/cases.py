"""How many inputs a fuzz test generates. `ATOMIC_FUZZ_CASES` is the number for the whole folder."""

import os

DEFAULT = 100_000


def share(percent: float) -> int:
    """That part of the whole number, at least one."""
    return max(1, int(int(os.environ.get("ATOMIC_FUZZ_CASES", DEFAULT)) * percent / 100))
