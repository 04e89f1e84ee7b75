"""Machines of one account without a service: journals in temporary folders, keys made on the spot."""

import json
import secrets
import shutil
from pathlib import Path

from agent.sync.memory_log import MemoryLog
from atomic_agent.account.device import new_device, public_kem_key, public_sign_key, statement
from atomic_agent.account.login import start_over
from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.keys.keystore import Device, Membership
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal
from atomic_agent.stores.sqlite import SqliteStore
from atomic_agent.sync.run import Synced, exchange
from atomic_sessions import ledger
from atomic_sessions.clock import stamp
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats.pi import view
from atomic_sessions.seal import AccountKeys

SESSION = "01a22c81-7192-70af-aa13-6f2a524f0b20"


class Node:
    """One machine with a clock of its own; talks to a MemoryLog."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.clock = 1_796_000_000_000
        self.home = Home(root / name)
        self.key = LocalKey(secrets.token_bytes(32))
        self.journal = self._open()
        self.device = new_device(name)
        self.count = 0

    def _open(self) -> Journal:
        cache = Cache.open(self.home.cache, self.key, self.home.keyinfo)
        return Journal(self.home, self.key, cache, made_key=False)

    def enter(self, keys: AccountKeys, trusted: ledger.Ledger) -> None:
        mine = Membership(
            "https://memory",
            keys.account,
            self.device,
            1,
            keys.key,
            keys.id_key,
            trusted.root,
            trusted.head,
            trusted.size,
        )
        start_over(self.journal, mine)
        self.journal.change(membership=mine)

    def say(self, text: str, session: str = SESSION) -> str:
        """Append one message at the leaf, as a turn does."""
        cache = self.journal.cache
        with transaction(cache.connection):
            row = sessions.get(cache, sessions.ensure(cache, self._facts(session)))
            opened = leaf.leaf(cache, row.key)
            before = entries.stamp_of(cache, row.key, opened) if opened is not None else 0
            self.count += 1
            identity = f"{self.name}{self.count}"
            raw = json.dumps(
                {
                    "type": "message",
                    "id": identity,
                    "parentId": opened,
                    "message": {"role": "user", "content": text, "timestamp": self.clock},
                }
            ).encode()
            at = stamp(self.clock, before, self.clock)
            entry = Entry(identity, opened, row.next_pos, at, raw)
            entries.insert(cache, row.key, [(entry, view(raw))])
        return identity

    def _facts(self, session: str) -> Facts:
        return Facts("atomic", session, "", "/p", "git:host/p", 1, header=b'{"type":"session","version":4}')

    def sync(self, log: MemoryLog) -> Synced:
        done = Synced()
        exchange(self.journal, log, done, lambda: self.clock)
        return done

    def state(self) -> object:
        """What a person sees: the list, every tree in order, and the leaf of each session."""
        cache = self.journal.cache
        rows = list(sessions.listed(cache, internal=True))
        return [
            (
                row.id,
                row.messages,
                row.first_message,
                row.newest_at,
                row.newest_id,
                leaf.newest_leaf(cache, row.key),
                [(s.entry, s.received) for s in entries.read(cache, row.key)],
            )
            for row in rows
        ]

    def texts(self) -> set[bytes]:
        cache = self.journal.cache
        return {
            s.entry.raw for row in sessions.listed(cache, internal=True) for s in entries.read(cache, row.key)
        }

    def copied(self) -> Path:
        """A copy of the cache as it is now, in a place of its own."""
        self.journal.cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy = self.home.root.with_name(f"{self.name}-{secrets.token_hex(4)}.sqlite")
        shutil.copyfile(self.home.cache, copy)
        return copy

    def put_back(self, copy: Path) -> None:
        """Work goes on with the copy. Its ids differ from those of the life it replaces."""
        self.journal.close()
        for side in ("-wal", "-shm"):
            self.home.cache.with_name(self.home.cache.name + side).unlink(missing_ok=True)
        shutil.copyfile(copy, self.home.cache)
        self.journal = self._open()
        self.count += 100

    def delete(self, row: sessions.SessionRow) -> None:
        SqliteStore(self.journal.cache, syncs=True).delete(row.facts.key)

    def close(self) -> None:
        self.journal.close()


def account(root: Path, count: int = 2) -> tuple[list[Node], MemoryLog]:
    """Machines that trust each other, and their log."""
    keys = AccountKeys(secrets.token_bytes(16), 1, secrets.token_bytes(32), secrets.token_bytes(32))
    nodes = [Node(root, f"m{n}") for n in range(count)]
    signed: list[ledger.LedgerEntry] = []
    head: ledger.Ledger | None = None
    for node in nodes:
        entry = _added(keys, head, node.device, nodes[0].device)
        head = ledger.append(head, entry, keys.account)
        signed.append(entry)
    assert head is not None
    for node in nodes:
        node.enter(keys, head)
    return nodes, MemoryLog(signed)


def settle(nodes: list[Node], log: MemoryLog) -> None:
    """Exchange until nobody has anything new."""
    for _ in range(3):
        for node in nodes:
            node.sync(log)


def _added(keys: AccountKeys, head: ledger.Ledger | None, device: Device, by: Device) -> ledger.LedgerEntry:
    return statement(
        keys,
        head,
        role="device",
        device=device.id,
        sign_key=public_sign_key(device),
        kem_key=public_kem_key(device),
        name=device.name,
        by=by.id,
        signer=by.sign_key,
    )
