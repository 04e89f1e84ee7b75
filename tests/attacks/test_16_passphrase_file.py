"""Attack 16: the passphrase file, as whole commands: wrong words, other costs, altered bits."""

import os
import struct
import subprocess
import time
from pathlib import Path

import pytest

from attacks.stage import one_sentence
from system.machines import Done, Machine, MakeMachine

WORDS = b"correct horse battery"
WRONG = b"hunter-canary-2"


def _with_passphrase(machine: Machine, words: bytes, *arguments: str, code: int = 0) -> Done:
    """A command that reads its passphrase from a descriptor."""
    read, write = os.pipe()
    os.write(write, words + b"\n")
    os.close(write)
    try:
        done = subprocess.run(
            machine.command(*arguments),
            env={**machine.environment, "ATOMIC_PASSPHRASE_FD": str(read)},
            cwd=machine.folder,
            pass_fds=[read],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(read)
    assert done.returncode == code, done.stderr[-500:]
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def locked(machine: MakeMachine) -> tuple[Machine, Path]:
    """A machine whose key lies under a passphrase, and that file."""
    laptop = machine("laptop")
    del laptop.environment["ATOMIC_KEY_FILE"]
    _with_passphrase(laptop, WORDS, "keys", "use", "passphrase")
    _with_passphrase(laptop, WORDS, "capture")
    return laptop, laptop.home / ".atomic" / "keys" / "passphrase.key"


def test_a_wrong_passphrase(locked: tuple[Machine, Path]) -> None:
    """Attack 16: exit 4 in one sentence that does not show it, whatever was typed; the right one still opens."""
    laptop, path = locked
    before = path.read_bytes()
    for words in (WRONG, b"", WORDS + b" ", WORDS.upper(), b"\xff\xfe", b"x" * 4000):
        done = _with_passphrase(laptop, words, "sessions", code=4)
        assert "passphrase is wrong" in one_sentence(done)
        assert "canary" not in done.out + done.err
    assert path.read_bytes() == before
    _with_passphrase(laptop, WORDS, "sessions")


def test_constant_work(locked: tuple[Machine, Path]) -> None:
    """Attack 16: a wrong passphrase of any length costs the same stretching as the right one."""
    from atomic_agent.keys import passphrase_file
    from atomic_sessions.errors import KeyMissingError

    content = locked[1].read_bytes()
    spent = []
    for words in ("", "x", "x" * 4000, WORDS.decode()):
        begun = time.process_time()
        try:
            passphrase_file.unwrap(content, words)
        except KeyMissingError:
            pass
        spent.append(time.process_time() - begun)
    # CPU time: four lanes of 64 MiB and 3 passes; a check that stopped early would cost nothing.
    assert min(spent) > max(spent) / 4


@pytest.mark.parametrize(
    ("offset", "layout", "value", "said"),
    [
        (3, ">H", 63, "outside the allowed limits"),
        (3, ">H", 1, "outside the allowed limits"),
        (3, ">H", 0xFFFF, "outside the allowed limits"),
        (5, ">B", 2, "outside the allowed limits"),
        (5, ">B", 255, "outside the allowed limits"),
        (6, ">B", 0, "outside the allowed limits"),
        (6, ">B", 255, "outside the allowed limits"),
        (2, ">B", 0, "unknown version"),
        (2, ">B", 2, "unknown version"),
        (0, ">B", 0x42, "unknown version"),
    ],
)
def test_other_costs_cost_nothing(
    locked: tuple[Machine, Path], offset: int, layout: str, value: int, said: str
) -> None:
    """Attack 16: costs lowered or raised by an editor are refused unspent, and the cache stays as it is."""
    laptop, path = locked
    content = bytearray(path.read_bytes())
    struct.pack_into(layout, content, offset, value)
    path.write_bytes(content)
    cache = laptop.cache.read_bytes()
    begun = time.monotonic()
    assert said in one_sentence(_with_passphrase(laptop, WORDS, "sessions", code=4))
    assert time.monotonic() - begun < 30
    assert laptop.cache.read_bytes() == cache


@pytest.mark.parametrize("bit", [5 * 8 + 1, 7 * 8, 22 * 8 + 7, 23 * 8, 34 * 8 + 3, 35 * 8, 82 * 8 + 7])
def test_a_flipped_bit(locked: tuple[Machine, Path], bit: int) -> None:
    """Attack 16: cost (within the limits), salt, nonce, key and tag: one bit and it does not open."""
    laptop, path = locked
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)
    one_sentence(_with_passphrase(laptop, WORDS, "sessions", code=4))
