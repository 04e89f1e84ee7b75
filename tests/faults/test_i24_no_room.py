"""I24: no room here or there. The outbox keeps all, the person reads one sentence, and nobody has to mend."""

import asyncio
import secrets
from collections.abc import Callable

import asyncpg
import pytest

from atomic_agent.cache import outbox, sessions
from atomic_sessions.errors import ServiceRefusedError, ServiceUnreachableError, StoreWriteError
from faults.machines import Account, session_id
from faults.proxy import Fault, at_line


def execute(account: Account, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(account.service.owner_url())
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


def test_over_quota(account: Callable[[int], Account]) -> None:
    """Sending stops with one sentence, fetching goes on, and with more room all arrives."""
    found = account(2)
    full, other = found.nodes
    other.say("before")
    other.exchange()
    execute(found, "UPDATE account SET quota = 1")
    full.say("too much")
    with pytest.raises(ServiceRefusedError) as refused:
        full.exchange()
    assert refused.value.code == "over_quota"
    assert refused.value.mend
    assert any(b"before" in raw for raw in full.texts())
    assert outbox.waits(full.journal.cache)
    execute(found, "UPDATE account SET quota = 1000000000")
    found.agree()
    assert any(b"too much" in raw for raw in other.texts())


def test_deletions_get_out_over_quota(account: Callable[[int], Account]) -> None:
    """Over quota the mend is to delete: a deletion is sent past all that waits before it, and frees its room."""
    found = account(2)
    full, other = found.nodes
    large = session_id()
    full.say("zzz" + secrets.token_hex(100_000), large)
    found.settle()
    execute(found, "UPDATE account SET quota = bytes + 100")
    for _ in range(45):
        full.say(secrets.token_hex(100_000), session_id())
    with pytest.raises(ServiceRefusedError, match="space"):
        full.exchange()
    (row,) = [row for row in sessions.listed(full.journal.cache) if row.id == large]
    full.delete(row)
    with pytest.raises(ServiceRefusedError, match="space"):
        full.exchange()
    other.exchange()
    assert not any(b"zzz" in raw for raw in other.texts())
    execute(found, "UPDATE account SET quota = 1000000000")
    found.agree()


def test_the_object_store_is_away(account: Callable[[int], Account]) -> None:
    """A large entry waits for it, whichever way the store fails, and so does what came after."""
    found = account(2)
    sender, reader = found.nodes
    sender.say("x" * 400_000)
    sender.say("after it")
    busy = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    for fault in (Fault("cut_before"), Fault("foreign", busy)):
        found.proxy.plan = at_line("/v1/blobs/", fault)
        with pytest.raises(ServiceUnreachableError):
            sender.exchange()
        assert outbox.waits(sender.journal.cache)
    found.proxy.clear()
    sender.exchange()
    found.proxy.plan = at_line("/v1/blobs/", Fault("foreign", busy))
    with pytest.raises(ServiceUnreachableError):
        reader.exchange()
    found.proxy.clear()
    found.agree()


def test_a_page_in_place_of_an_object(account: Callable[[int], Account]) -> None:
    """A proxy's page that comes for a large object stops the sync, and nothing is refused for it; an object that
    stays wrong costs only its record."""
    found = account(2)
    sender, reader = found.nodes
    sender.say("x" * 400_000)
    sender.say("bystander", session_id())
    sender.exchange()
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nplease login"
    found.proxy.plan = at_line("/v1/blobs/", Fault("foreign", page))
    with pytest.raises(ServiceUnreachableError):
        reader.exchange()
    found.proxy.clear()
    found.agree()
    sender.say("y" * 400_000)
    sender.say("another bystander", session_id())
    sender.exchange()
    found.proxy.plan = at_line("/v1/blobs/", Fault("foreign", page))
    for _ in range(3):
        with pytest.raises(ServiceUnreachableError):
            reader.exchange()
    assert reader.exchange().refused == 1
    assert any(b"another bystander" in raw for raw in reader.texts())


def test_lost_objects_cost_only_their_entries(account: Callable[[int], Account]) -> None:
    """Several objects that stay wrong in one page and in one record: after a few syncs all else of those very
    sessions is here, later messages too, and what this machine has to say gets out."""
    found = account(2)
    sender, reader = found.nodes
    for number in range(3):
        sender.say(f"{number}" + "x" * 400_000)
        sender.say(f"small {number}")
    sender.say("y" * 400_000, session_id())
    sender.exchange()
    reader.say("from the reader")
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nplease login"
    found.proxy.plan = at_line("/v1/blobs/", Fault("foreign", page))
    for _ in range(30):
        try:
            reader.exchange()
            break
        except ServiceUnreachableError:
            continue
    sender.say("and later")
    found.proxy.clear()
    sender.exchange()
    assert any(b"from the reader" in raw for raw in sender.texts())
    found.proxy.plan = at_line("/v1/blobs/", Fault("foreign", page))
    reader.exchange()
    lines = b"".join(reader.texts())
    assert all(text in lines for text in (b"small 0", b"small 1", b"small 2", b"and later"))


def test_a_full_disk_on_the_agent(account: Callable[[int], Account]) -> None:
    """A fetch that does not fit leaves rows and cursor as they were; with room again it completes."""
    found = account(2)
    sender, reader = found.nodes
    reader.exchange()
    for number in range(20):
        sender.say(f"{number} " + str(number) * 20_000, session_id())
    sender.exchange()
    connection = reader.journal.cache.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    before = reader.state()
    with pytest.raises(StoreWriteError, match="full"):
        reader.exchange()
    assert reader.state() == before
    connection.execute("PRAGMA max_page_count = 1000000")
    found.agree()
    assert len(reader.texts()) == 20


def test_a_full_disk_while_sealing(account: Callable[[int], Account]) -> None:
    """Sealing that does not fit loses nothing and sends nothing half."""
    found = account(2)
    sender = found.nodes[0]
    sender.exchange()
    for number in range(40):
        sender.say(f"{number} " + session_id() * 500, session_id())
    connection = sender.journal.cache.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreWriteError, match="full"):
        sender.exchange()
    connection.execute("PRAGMA max_page_count = 1000000")
    found.agree()
    assert len(found.nodes[1].texts()) == 40
