"""A first machine makes an account; a machine leaves one. Pairing further machines is `pairing`."""

import platform
import secrets

from atomic_agent.account.device import (
    Kit,
    kit,
    new_device,
    public_kem_key,
    public_sign_key,
    statement,
    wrap_for_device,
    wrap_for_kit,
)
from atomic_agent.cache import machines, outbox, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.keys.keystore import Device, Founding, Membership, Token
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.client import Client
from atomic_agent.sync.identity import sign_in
from atomic_agent.sync.pulling import CURSOR, SEEN
from atomic_sessions import ledger, wire
from atomic_sessions.errors import UsageError
from atomic_sessions.seal import AccountKeys


def machine_name() -> str:
    return platform.node().split(".")[0] or "machine"


def check_free(journal: Journal) -> None:
    """UsageError when this machine is in an account already."""
    mine = journal.secrets.membership
    if mine is not None:
        raise UsageError(f"This machine is in an account at {mine.url}.", "To leave it: atomic logout")


def create_account(journal: Journal, url: str, invite: str, name: str) -> Membership:
    """A new account with this machine and its recovery kit in the ledger.

    What is sent is kept before it is sent, so after a cut the same invite brings the same account. Raises
    ServiceRefusedError (bad invite), ServiceUnreachableError.
    """
    check_free(journal)
    with Client(url) as client:
        planned = journal.secrets.founding
        if planned is None or (planned.url, planned.invite) != (client.url, invite):
            planned = _plan(client.url, invite, name, kit(journal.secrets.recovery))
            journal.change(founding=planned)
        client.new_account(wire.NewAccount(invite, planned.account, planned.ledger, planned.wraps))
        device = planned.device
        token = sign_in(client, planned.account, device.id, device.sign_key)
        keys = AccountKeys(planned.account, 1, planned.key, planned.id_key)
        head = ledger.verify(planned.ledger, planned.account)
        return enter(journal, client.url, keys, device, head, token)


def _plan(url: str, invite: str, name: str, recovery: Kit) -> Founding:
    """Keys, the first two ledger entries and their wraps."""
    account = AccountKeys(secrets.token_bytes(16), 1, secrets.token_bytes(32), secrets.token_bytes(32))
    device = new_device(name)
    kem_key = public_kem_key(device)
    first = statement(
        account,
        None,
        role="device",
        device=device.id,
        sign_key=public_sign_key(device),
        kem_key=kem_key,
        name=name,
        by=device.id,
        signer=device.sign_key,
    )
    second = statement(
        account,
        ledger.append(None, first, account.account),
        role="recovery",
        device=recovery.id,
        sign_key=kit_public_key(recovery.sign_key),
        kem_key=b"",
        name="recovery kit",
        by=device.id,
        signer=device.sign_key,
    )
    wraps = [
        wrap_for_device(account, device.id, kem_key, device.id, device.sign_key),
        wrap_for_kit(account, recovery, device.id, device.sign_key),
    ]
    return Founding(url, invite, account.account, account.key, account.id_key, device, [first, second], wraps)


def kit_public_key(private: bytes) -> bytes:
    return public_sign_key(Device(b"", "", private, b""))


def enter(
    journal: Journal,
    url: str,
    account: AccountKeys,
    device: Device,
    trusted: ledger.Ledger,
    token: wire.Token,
) -> Membership:
    """Make this machine a member: secrets kept, sessions known by the account's wire ids, and the log
    read from its start."""
    mine = Membership(
        url,
        account.account,
        device,
        account.generation,
        account.key,
        account.id_key,
        trusted.root,
        trusted.head,
        trusted.size,
    )
    start_over(journal, mine)
    kept = Token(token.token, token.expires_at)
    # A kit that was saved before knows nothing of this account.
    journal.change(membership=mine, token=kept, offer=None, founding=None, recovery_saved=False)
    return mine


def start_over(journal: Journal, mine: Membership) -> None:
    """Nothing this cache holds is in the account's log yet, as far as it knows."""
    cache = journal.cache
    with transaction(cache.connection):
        sessions.rekey(cache, mine.id_key)
        outbox.forget_log(cache)
        cache.put("writer", secrets.token_bytes(16))
        cache.put(CURSOR, b"")
        cache.put(SEEN, b"")
        machines.remember(cache, {mine.device.id: mine.device.name}, mine.device.id)


def leave(journal: Journal) -> None:
    """Forget the account on this machine; its sessions stay in the cache."""
    journal.change(membership=None, token=None, offer=None)
