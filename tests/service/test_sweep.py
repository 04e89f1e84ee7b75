"""The sweep: what is over leaves the database and the store, what a live row names stays."""

import asyncio

import asyncpg

from atomic_service.app import open_blobs
from atomic_service.db import open_database
from atomic_service.sweep import sweep
from atomic_sessions import wire
from service.running import RunningService
from service.shares.test_shares import share_sealed

HOUR = 3600


def run_sweep(service: RunningService) -> None:
    """One round, by the service's own role and clock."""

    async def once() -> None:
        blobs = open_blobs(service.settings, service.clock)
        async with open_database(service.settings.database_url, 4) as db:
            await sweep(db, blobs, service.clock())
        blobs.close()

    asyncio.run(once())


async def count(url: str, table: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM {table}"))
    finally:
        await connection.close()


def test_expired_shares_lose_their_bytes(own_storing_service: RunningService) -> None:
    """Expired means deleted from the store, not hidden; live shares and blobs keep theirs."""
    device = own_storing_service.device()
    now = own_storing_service.clock()
    share_sealed(own_storing_service, device, b"short", expires_at=now + HOUR * 1000)
    share_sealed(own_storing_service, device, b"views", views=1)
    share_sealed(own_storing_service, device, b"long", expires_at=now + 72 * HOUR * 1000)
    device.upload(b"blob", "blob", b"s" * 16)
    before = asyncio.run(used(own_storing_service.owner_url()))
    run_sweep(own_storing_service)
    assert len(own_storing_service.stored(device.account)) == 4
    own_storing_service.clock.forward(seconds=2 * HOUR)
    run_sweep(own_storing_service)
    assert len(own_storing_service.stored(device.account)) == 3
    assert asyncio.run(used(own_storing_service.owner_url())) == before - len(b"short")


async def used(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT sum(bytes)::bigint FROM account"))
    finally:
        await connection.close()


def test_uploads_for_shares_that_never_came_are_removed(own_storing_service: RunningService) -> None:
    """A day after its upload an object that no share shows is gone."""
    device = own_storing_service.device()
    device.upload(b"never shared", "share")
    run_sweep(own_storing_service)
    assert len(own_storing_service.stored(device.account)) == 1
    own_storing_service.clock.forward(seconds=25 * HOUR)
    run_sweep(own_storing_service)
    assert own_storing_service.stored(device.account) == []


def test_tokens_mailboxes_and_invites_end(own_service: RunningService) -> None:
    """Rows that can no longer be used are removed."""
    device = own_service.device()
    own_service.invite()
    device.post(f"/v1/mailbox/{'ab' * 16}", wire.MailboxPost("offer", b"o"))
    own_service.clock.forward(seconds=8 * 24 * HOUR)
    run_sweep(own_service)
    for table in ("token", "mailbox", "mailbox_slot", "invite"):
        assert asyncio.run(count(own_service.owner_url(), table)) == 0


def test_sweeps_at_once_do_not_disturb_each_other(own_storing_service: RunningService) -> None:
    """Every replica sweeps by itself."""
    device = own_storing_service.device()
    for number in range(5):
        share_sealed(
            own_storing_service, device, b"x%d" % number, expires_at=own_storing_service.clock() + HOUR * 1000
        )
    own_storing_service.clock.forward(seconds=2 * HOUR)

    async def both() -> None:
        await asyncio.gather(*(asyncio.to_thread(run_sweep, own_storing_service) for _ in range(3)))

    asyncio.run(both())
    assert own_storing_service.stored(device.account) == []
