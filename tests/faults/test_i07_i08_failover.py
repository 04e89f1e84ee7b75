"""I07, I08: the service lost its last commits, or came back from a backup."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.sync.account import account, settle
from agent.sync.memory_log import Cut
from atomic_agent.cache import sessions
from faults.machines import Account

OTHER = "01a22c81-7192-70af-aa13-000000000002"


@given(lost=st.integers(1, 6), turns=st.lists(st.integers(0, 1), min_size=3, max_size=8))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_failover_that_lost_commits_is_refilled(lost: int, turns: list[int]) -> None:
    """I07, I08: after the log lost its end, the machines offer again what they hold; the union is as
    before, and nothing is doubled."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, log = account(Path(folder))
        for who in turns:
            nodes[who].say("x")
            nodes[who].sync(log)
        settle(nodes, log)
        before = nodes[0].texts()
        log.lose_last(min(lost, len(log.rows)))
        settle(nodes, log)
        assert nodes[0].texts() == nodes[1].texts() == before
        assert nodes[0].state() == nodes[1].state()
        for node in nodes:
            node.close()


def test_a_deletion_survives_a_log_that_forgot_it(tmp_path: Path) -> None:
    """I08: after a restore from a backup the tombstone is offered again, whoever deleted."""
    nodes, log = account(tmp_path, 3)
    nodes[0].say("to be deleted")
    settle(nodes[:2], log)
    (row,) = sessions.listed(nodes[0].journal.cache)
    nodes[0].delete(row)
    settle(nodes, log)
    log.lose_last(1)
    assert not log.dead
    settle(nodes, log)
    assert len(log.dead) == 1
    assert nodes[0].state() == nodes[1].state() == nodes[2].state() == []
    for node in nodes:
        node.close()


def test_a_record_taken_again_says_another_time(tmp_path: Path) -> None:
    """The log lost a record whose sender never heard that it had arrived, and takes the same bytes again, later: who
    had read it before and who reads it now bound a wrong clock alike."""
    nodes, log = account(tmp_path, 3)
    settle(nodes, log)
    sender, early, late = nodes
    sender.clock += 3_600_000
    sender.say("an hour ahead")
    log.cut_after = True
    with pytest.raises(Cut):
        sender.sync(log)
    early.sync(log)
    log.lose_last(1)
    log.clock += 30 * 60_000
    settle(nodes, log)
    early.clock += 20 * 60_000
    log.clock += 60_000
    early.say("twenty minutes after", OTHER)
    settle(nodes, log)
    settle(nodes, log)
    assert sender.state() == early.state() == late.state()
    for node in nodes:
        node.close()


TABLES = ("event", "session", "progress", "writer")


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


def back_up(account: Account) -> None:
    """The log's tables as they are now, kept aside."""
    copies = [f"CREATE TABLE backup_{table} AS TABLE {table}" for table in (*TABLES, "account")]
    asyncio.run(execute(account.service.owner_url(), *copies))


def restore(account: Account) -> None:
    """The log as it was at `back_up`."""
    back = [f"DELETE FROM {table}" for table in TABLES] + [
        f"INSERT INTO {table} TABLE backup_{table}" for table in TABLES
    ]
    head = (
        "UPDATE account a SET head = b.head, chain = b.chain, bytes = b.bytes FROM backup_account b"
        " WHERE a.account = b.account"
    )
    asyncio.run(execute(account.service.owner_url(), *back, head))


@pytest.mark.parametrize("heard", [True, False])
def test_a_service_restored_from_a_backup(account: Callable[[int], Account], *, heard: bool) -> None:
    """A real service goes back to yesterday's tables: what was said since is offered again, what was deleted since
    stays deleted, whether or not the machines had heard of each other before."""
    found = account(3)
    one, two, three = found.nodes
    one.say("before")
    one.say("to be deleted", OTHER)
    found.settle()
    back_up(found)
    one.say("since, by one")
    two.say("since, by two, and large " + "x" * 300_000)
    one.exchange()
    two.exchange()
    (row,) = [row for row in sessions.listed(three.journal.cache) if row.id == OTHER]
    three.delete(row)
    three.exchange()
    if heard:
        found.settle()
    restore(found)
    three.say("after the restore")
    found.settle()
    found.agree()
    lines = b"".join(two.texts())
    for text in (b"before", b"since, by one", b"since, by two", b"after the restore"):
        assert text in lines
    assert b"to be deleted" not in lines
