"""I01: no commit is ever missed by a reader that follows its cursor."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import asyncpg

from service.devices import Device, Refusal
from service.running import RunningService

LATE = """
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(random() * 0.02); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON account DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION late();
GRANT EXECUTE ON FUNCTION late() TO PUBLIC;
"""


async def delay_commits(url: str) -> None:
    """From now on each push waits up to 20 ms at the moment of its commit."""
    connection = await asyncpg.connect(url)
    await connection.execute(LATE)
    await connection.close()


def test_racing_reader_misses_nothing_of_eight_writers(own_service: RunningService) -> None:
    """A reader that follows its cursor while eight devices push, each commit late by chance, sees exactly what they
    pushed."""
    asyncio.run(delay_commits(own_service.owner_url()))
    first = own_service.device()
    devices = [first, *(first.new_mate() for _ in range(7))]
    reader = first.new_mate()
    done = threading.Event()

    def write(device: Device) -> set[bytes]:
        writer, sent = device.writer(), set()
        for _ in range(12):
            raws = [writer.seal() for _ in range(3)]
            push_patiently(device, raws)
            sent.update(raws)
        return sent

    def read() -> list[bytes]:
        seen, cursor = [], b""
        while True:
            finished = done.is_set()
            page = reader.pull(cursor)
            seen += [event.raw for event in page.events]
            cursor = page.cursor
            if finished and not page.events:
                return seen

    with ThreadPoolExecutor(9) as pool:
        reading = pool.submit(read)
        written = [pool.submit(write, device) for device in devices]
        try:
            sent = set().union(*(future.result() for future in written))
        finally:
            done.set()
        seen = reading.result()
    assert len(seen) == len(set(seen)) == len(sent) == 8 * 12 * 3
    assert set(seen) == sent


def push_patiently(device: Device, raws: list[bytes]) -> None:
    """As an agent does: slow_down means once more."""
    pause = threading.Event()
    while True:
        try:
            device.push(*raws)
        except Refusal as refusal:
            if refusal.problem.code != "slow_down":
                raise
            pause.wait(0.02)
        else:
            return
