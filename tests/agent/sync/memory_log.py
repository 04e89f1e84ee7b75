"""A service in memory with the log's rules, for properties that need thousands of exchanges.

Same interface as `sync.client.Client` where a sync uses it; the rules are those of docs/protocol.md.
"""

import hashlib

from atomic_sessions import wire
from atomic_sessions.envelope import ZERO32, Kind, Sealed, parse
from atomic_sessions.errors import ServiceRefusedError, ServiceUnreachableError
from atomic_sessions.ledger import LedgerEntry


class Cut(ServiceUnreachableError):
    """The line broke."""


class MemoryLog:
    """One account's log. `clock` is the service's own time in ms."""

    def __init__(self, entries: list[LedgerEntry]) -> None:
        self.entries = entries
        self.rows: list[tuple[Sealed, int, bytes]] = []
        self.objects: dict[bytes, bytes] = {}
        self.dead: set[bytes] = set()
        self.clock = 1_796_000_000_000
        self.cut_before = False
        self.cut_after = False
        self.page = 3

    def ledger(self) -> list[LedgerEntry]:
        return self.entries

    def push(self, events: list[bytes]) -> wire.PushReply:
        if self.cut_before:
            self.cut_before = False
            raise Cut("cut before")
        results = self._append([parse(raw) for raw in events])
        if self.cut_after:
            self.cut_after = False
            raise Cut("cut after")
        return wire.PushReply(len(self.rows), results)

    def _append(self, events: list[Sealed]) -> list[wire.Pushed]:
        rows, dead = list(self.rows), set(self.dead)
        results = []
        for sealed in events:
            header = sealed.header
            known = next((i for i, row in enumerate(rows) if row[0].id == sealed.id), None)
            if known is not None:
                results.append(wire.Pushed(sealed.id, known + 1, False, rows[known][1]))
                continue
            if header.session in dead:
                raise ServiceRefusedError("dead", code="session_dead", session=header.session.hex())
            own = [
                r[0]
                for r in rows
                if (r[0].header.session, r[0].header.writer) == (header.session, header.writer)
            ]
            if header.n != len(own) + 1 or header.prev != (own[-1].id if own else ZERO32):
                raise ServiceRefusedError("forked", code="writer_forked")
            before = rows[-1][2] if rows else bytes(16)
            chain = hashlib.sha256(before + sealed.id + self.clock.to_bytes(8, "big")).digest()[:16]
            rows.append((sealed, self.clock, chain))
            results.append(wire.Pushed(sealed.id, len(rows), True, self.clock))
            if header.kind == Kind.TOMBSTONE:
                dead.add(header.session)
        self.rows, self.dead = rows, dead
        return results

    def pull(self, cursor: bytes) -> wire.Pull:
        at = int.from_bytes(cursor[:8], "big") if cursor else 0
        chain = cursor[8:] if cursor else bytes(16)
        if at > len(self.rows) or chain != (self.rows[at - 1][2] if at else bytes(16)):
            raise ServiceRefusedError("gone", code="cursor_gone")
        page = self.rows[at : at + self.page]
        events = [
            wire.Event(at + i + 1, received, sealed.raw)
            for i, (sealed, received, _) in enumerate(page)
            if sealed.header.session not in self.dead or sealed.header.kind == Kind.TOMBSTONE
        ]
        end = at + len(page)
        position = end.to_bytes(8, "big") + (self.rows[end - 1][2] if end else bytes(16))
        return wire.Pull(events, position, end < len(self.rows), len(self.rows))

    def upload(self, request: wire.UploadRequest, content: bytes) -> None:
        assert hashlib.sha256(content).digest() == request.id
        self.objects[request.id] = content

    def download(self, object_id: bytes, size: int) -> bytes:
        if object_id not in self.objects:
            raise ServiceRefusedError("no such object", code="not_found")
        return self.objects[object_id]

    def lose_last(self, count: int) -> None:
        """A failover that lost the last commits."""
        self.rows = self.rows[: len(self.rows) - count] if count else self.rows
        self.dead = {r[0].header.session for r in self.rows if r[0].header.kind == Kind.TOMBSTONE}
