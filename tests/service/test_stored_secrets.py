"""What a thief of the database and the blob folder finds: hashes of tokens and invites, sealed bytes, no secret."""

import asyncio
from pathlib import Path

import asyncpg

from atomic_sessions import wire
from service.devices import Device
from service.running import RunningService


async def dump(url: str) -> bytes:
    """Every row of every table, as text and with bytes spelled out."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        out = b""
        for table in tables:
            for row in await connection.fetch(f'SELECT * FROM "{table["tablename"]}"'):
                for value in row.values():
                    out += value if isinstance(value, bytes) else str(value).encode()
                    out += b"\n"
        return out
    finally:
        await connection.close()


def test_dump_holds_no_token_and_no_invite(own_service: RunningService, tmp_path: Path) -> None:
    """Neither as the text that is sent nor as its bytes."""
    invite = own_service.invite()
    device: Device = own_service.stranger().sign_up(invite)
    mate = device.new_mate()
    mate.push(mate.writer().seal())
    device.post(f"/v1/mailbox/{'ab' * 16}", wire.MailboxPost("offer", b"sealed offer"))
    everything = asyncio.run(dump(own_service.owner_url()))
    assert device.sign_key in everything
    for token in (device.token, mate.token):
        assert token.encode() not in everything
        assert bytes.fromhex(token) not in everything
    for form in (invite, invite.replace("-", ""), invite.lower()):
        assert form.encode() not in everything
    assert own_service.settings.server_secret not in everything
