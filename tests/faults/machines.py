"""Machines of one account at a real service, reached through a proxy that breaks the line on request."""

import secrets
from pathlib import Path

from agent.sync.account import Node
from atomic_agent.account.device import public_kem_key, public_sign_key, statement, wrap_for_device
from atomic_agent.account.login import create_account, enter
from atomic_agent.cache import outbox
from atomic_agent.sync.client import Client
from atomic_agent.sync.identity import connect, membership, sign_in, trusted_ledger
from atomic_agent.sync.run import Synced, now_ms, synchronise
from atomic_sessions import ledger
from atomic_sessions.envelope import Kind, Sealed, parse
from atomic_sessions.seal import decode_body, open_sealed
from atomic_sessions.wire import Event
from faults.proxy import FaultProxy
from service.running import RunningService

SECONDS = 5.0


class Member(Node):
    """A machine that syncs over HTTP."""

    def exchange(self, seconds: float = SECONDS) -> Synced:
        """One sync with the real service; raises what a person would be told."""
        return synchronise(self.journal, timeout=seconds)

    def log(self, cursor: bytes = b"") -> list[Event]:
        """The account's log as the service has it, or what follows a cursor."""
        found: list[Event] = []
        with connect(self.journal, now_ms) as client:
            more = True
            while more:
                page = client.pull(cursor)
                found += page.events
                cursor, more = page.cursor, page.more
        return found

    def sent(self) -> list[tuple[bytes, str]]:
        """(session, entry id) of every entry in the log, in its order, as often as it is there."""
        keys = membership(self.journal).account_keys()
        found = []
        for sealed in map(_parsed, self.log()):
            if sealed.header.kind == Kind.RECORD:
                body = decode_body(open_sealed(keys, sealed))
                found += [(sealed.header.session, entry.id) for entry in body.entries]
        return found

    def reopen(self) -> None:
        self.journal.close()
        self.journal = self._open()


def _parsed(event: Event) -> Sealed:
    return parse(event.raw)


class Account:
    """Machines, their service and the line between them."""

    def __init__(self, root: Path, service: RunningService, proxy: FaultProxy, count: int = 2) -> None:
        self.service, self.proxy = service, proxy
        self.nodes = [Member(root, f"m{n}") for n in range(count)]
        first = self.nodes[0]
        create_account(first.journal, proxy.url, service.invite(), first.name)
        first.device = membership(first.journal).device
        for node in self.nodes[1:]:
            self._join(first, node)
        proxy.clear()

    def _join(self, first: Member, node: Member) -> None:
        mine = membership(first.journal)
        keys, device = mine.account_keys(), node.device
        with connect(first.journal, now_ms) as client:
            trusted = trusted_ledger(first.journal, client)
            kem = public_kem_key(device)
            entry = statement(
                keys, trusted, role="device", device=device.id, sign_key=public_sign_key(device), kem_key=kem,
                name=node.name, by=mine.device.id, signer=mine.device.sign_key,
            )  # fmt: skip
            wrap = wrap_for_device(keys, device.id, kem, mine.device.id, mine.device.sign_key)
            client.append_ledger(entry, [wrap])
        with Client(self.proxy.url) as client:
            token = sign_in(client, keys.account, device.id, device.sign_key)
        enter(node.journal, self.proxy.url, keys, device, ledger.append(trusted, entry, keys.account), token)

    def settle(self) -> None:
        """Exchange until nobody has anything new."""
        for _ in range(3):
            for node in self.nodes:
                node.exchange()

    def agree(self, *, refused: bool = False, repeated: bool = False) -> None:
        """Asserts that all machines show the same and that nothing waits, was refused (unless `refused`:
        something was) or sent twice (unless `repeated`: copies of a cache did so)."""
        self.settle()
        first = self.nodes[0].state()
        for node in self.nodes:
            assert node.state() == first
            assert refused or outbox.quarantined(node.journal.cache) == []
            assert not outbox.waits(node.journal.cache)
        sent = self.nodes[0].sent()
        assert repeated or len(set(sent)) == len(sent), "an entry was sent in two records"

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def session_id() -> str:
    """A fresh session id."""
    text = secrets.token_hex(16)
    return f"{text[:8]}-{text[8:12]}-7{text[13:16]}-8{text[17:20]}-{text[20:]}"
