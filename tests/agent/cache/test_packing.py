"""Lines as they lie in the cache, packed and unpacked by several threads at once."""

import secrets
import threading

import pytest

from atomic_agent.cache.packing import MANY, pack, pack_all, unpack
from atomic_sessions.errors import CacheDamagedError


@pytest.mark.parametrize("size", [0, 10, 160, 161, 5000, MANY + 1])
def test_what_was_packed_comes_back(size: int) -> None:
    """Any line, one by one and many at once, with the same bytes either way."""
    raws = [b"x" * size, secrets.token_bytes(size), b'{"a":1}' * (size // 7)]
    packed = pack_all(raws)
    assert packed == [pack(raw) for raw in raws]
    assert [unpack(*one) for one in packed] == raws


def test_damage_is_named() -> None:
    """Bytes that nothing was packed into are damage, not an empty line."""
    with pytest.raises(CacheDamagedError):
        unpack(1, b"not packed")


def test_threads_do_not_meet_in_one_codec() -> None:
    """A capture beside a sync: each thread gets back what it put in."""
    wrong: list[object] = []

    def work(seed: int) -> None:
        raw = (f"{seed} " * 4000).encode()
        try:
            for _ in range(1500):
                if unpack(*pack(raw)) != raw:
                    wrong.append(seed)
        except CacheDamagedError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
