"""Events of the log into the cache: verified, opened, merged, with the cursor in one transaction.

Order of the checks (security.md 4.2): sizes and version, device active in the verified ledger,
signature, key id, chain, then the cipher. What fails is quarantined and reported; the rest goes on.
"""

import hashlib
import itertools
import secrets
from collections.abc import Callable

import msgspec
from msgspec import Struct

from atomic_agent.cache import entries, outbox, sessions
from atomic_agent.cache.cache import Cache, fingerprint
from atomic_agent.cache.open import transaction
from atomic_agent.keys.keystore import Membership
from atomic_sessions.entry import Entry, View
from atomic_sessions.envelope import ZERO32, Header, Kind, Sealed, parse, verify
from atomic_sessions.errors import (
    BadSessionFileError,
    SealError,
    ServiceRefusedError,
    ServiceUnreachableError,
)
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import wire_id
from atomic_sessions.ledger import Ledger
from atomic_sessions.seal import BlobRef, RecordBody, decode_body, open_sealed, split_blob
from atomic_sessions.wire import ErrorCode, Event, Pull

CURSOR = "cursor"
DOUBTED = "doubted"
DOUBTS = 4
"""How often an object may come wrong before its entry is refused."""
MAX_DOUBTED = 64
SEEN = "seen"
"""The log's place up to which everything was met, at the last time its end was reached."""


class Pulled(Struct):
    """What a pull brought. `refused` counts events that did not verify or open, `dropped` sessions that
    were deleted elsewhere while this machine still had something to send of them."""

    events: int = 0
    entries: int = 0
    sessions: set[int] = set()
    deleted: int = 0
    dropped: int = 0
    refused: int = 0


class Puller:
    """Applies pages of the log. `fetch` gets the sealed bytes of an object by its id and size, `devices` the
    verified device list as it is now."""

    def __init__(
        self,
        cache: Cache,
        mine: Membership,
        trusted: Ledger,
        fetch: Callable[[bytes, int], bytes],
        now: Callable[[], int],
        devices: Callable[[], Ledger],
    ) -> None:
        self.cache = cache
        self.keys = mine.account_keys()
        self.ledger = trusted
        self._fetch = fetch
        self._now = now
        self._devices = devices

    def apply(self, page: Pull, pulled: Pulled) -> None:
        """One page, rows and cursor together (I04).

        Where large objects have to be fetched, each record is a transaction of its own, so that memory
        holds one record's objects; the cursor moves with the last, and a record applied twice is one.
        """
        events = [(event, self._parsed(event)) for event in page.events]
        if any(sealed and self.ledger.active(sealed.header.device) is None for _, sealed in events):
            self.ledger = self._devices()
        wanted = [self._objects(sealed) for _, sealed in events]
        if any(wanted):
            for (event, sealed), refs in zip(events, wanted, strict=True):
                objects = self._fetched(refs)
                with transaction(self.cache.connection):
                    self._take(event, sealed, objects, pulled)
            with transaction(self.cache.connection):
                self._move(page)
            return
        with transaction(self.cache.connection):
            for event, sealed in events:
                self._take(event, sealed, {}, pulled)
            self._move(page)

    def _move(self, page: Pull) -> None:
        self.cache.put(CURSOR, page.cursor)
        if not page.more:
            self.cache.put(SEEN, page.head.to_bytes(8, "big"))

    @staticmethod
    def _parsed(event: Event) -> Sealed | None:
        try:
            return parse(event.raw)
        except SealError:
            return None

    def _take(self, event: Event, sealed: Sealed | None, objects: dict[bytes, bytes], pulled: Pulled) -> None:
        pulled.events += 1
        try:
            if sealed is None:
                parse(event.raw)
            else:
                outbox.meet(self.cache, sealed.id)
                self._apply(sealed, event, objects, pulled)
        except (SealError, BadSessionFileError) as error:
            pulled.refused += 1
            self._refuse(sealed, event, error.message)

    def _objects(self, sealed: Sealed | None) -> list[BlobRef]:
        """The large objects a record refers to."""
        if sealed is None or sealed.header.kind != Kind.RECORD or self._is_known(sealed):
            return []
        try:
            self._check(sealed)
            body = decode_body(open_sealed(self.keys, sealed))
            return [
                ref
                for index, ref in body.blobs.items()
                if self._held(sealed.header.session, body.entries[index].id, ref) is None
            ]
        except SealError:
            return []  # refused, with its reason, when it is applied

    def _fetched(self, refs: list[BlobRef]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for ref in refs:
            try:
                content = self._fetch(ref.id, ref.sealed)
            except ServiceRefusedError as error:
                if error.code not in {ErrorCode.NOT_FOUND, ErrorCode.GONE, ErrorCode.SESSION_DEAD}:
                    raise
                continue
            if hashlib.sha256(content).digest() == ref.id:
                found[ref.id] = content
            elif self._may_pass(ref.id):
                raise ServiceUnreachableError(
                    "What came for a large object is not that object.",
                    "A proxy may stand in between; nothing is lost, try again later.",
                )
        return found

    def _may_pass(self, object_id: bytes) -> bool:
        """True while a wrong object may be some proxy's page: it stops a few syncs, then only its entry."""
        doubted = msgspec.msgpack.decode(self.cache.get(DOUBTED) or b"\x80", type=dict[bytes, int])
        count = doubted.get(object_id, 0) + 1
        if count >= DOUBTS or len(doubted) >= MAX_DOUBTED:
            return False
        with transaction(self.cache.connection):
            self.cache.put(DOUBTED, msgspec.msgpack.encode(doubted | {object_id: count}))
        return True

    def _is_known(self, sealed: Sealed) -> bool:
        header = sealed.header
        chain = outbox.chain(self.cache, header.session, header.writer)
        return chain.n >= header.n and not outbox.is_contradicted(self.cache, header, sealed.id)

    def _check(self, sealed: Sealed) -> None:
        member = self.ledger.active(sealed.header.device)
        if member is None or member.role != "device":
            raise SealError("A record comes from a device that is not in the account.")
        verify(sealed, member.sign_key)

    def _apply(self, sealed: Sealed, event: Event, objects: dict[bytes, bytes], pulled: Pulled) -> None:
        header = sealed.header
        self._check(sealed)
        if header.kind == Kind.TOMBSTONE:
            # The records before it were emptied by the service, so its chain cannot be followed.
            open_sealed(self.keys, sealed)
            pulled.dropped += outbox.is_waited_for(self.cache, header.session)
            outbox.drop_session(self.cache, header.session)
            pulled.deleted += sessions.bury(self.cache, header.session)
            outbox.tombstone(self.cache, header.session)
            return
        if outbox.is_tombstoned(self.cache, header.session):
            return
        if outbox.is_contradicted(self.cache, header, sealed.id):
            outbox.change_writer(self.cache, secrets.token_bytes(16))
        chain = outbox.chain(self.cache, header.session, header.writer)
        if header.n <= chain.n:
            if header.n == chain.n and sealed.id != chain.last:
                raise SealError("A record stands twice in the log with different content.")
            return
        if header.n != chain.n + 1 or header.prev != (chain.last if chain.n else ZERO32):
            raise SealError("A record is missing before this one.")
        if header.kind == Kind.RECORD:
            body = decode_body(open_sealed(self.keys, sealed))
            if lost := self._record(header, body, event, objects, pulled):
                pulled.refused += 1
                self._refuse(sealed, event, lost)
        outbox.move_chain(self.cache, header, sealed.id)

    def _record(
        self, header: Header, body: RecordBody, event: Event, objects: dict[bytes, bytes], pulled: Pulled
    ) -> str:
        """Take in what a record says; why a large entry of it could not be, if so. The others and the records after
        it are as good as ever."""
        facts = body.facts
        if wire_id(self.keys.id_key, facts.key) != header.session:
            raise SealError("A record names another session than its envelope.")
        view = viewer(facts.agent, internal=facts.internal)
        batch: list[tuple[int, entries.Incoming]] = []
        lost = ""
        for index, entry in enumerate(body.entries):
            whole = entry
            if (ref := body.blobs.get(index)) is not None:
                try:
                    raw = self._held(header.session, entry.id, ref) or self._open_blob(ref, header, objects)
                except SealError as error:
                    lost = error.message
                    continue
                whole = msgspec.structs.replace(entry, raw=raw)
            first_seen = min(event.received_at, body.received.get(index, event.received_at))
            batch.append((first_seen, (whole, _view(whole, view))))
        session = sessions.ensure(self.cache, facts, self.keys.id_key)
        for received, run in itertools.groupby(batch, key=lambda one: one[0]):
            incoming = [one for _, one in run]
            added = entries.insert(self.cache, session, incoming, received=received, sealed=True)
            pulled.entries += added.new
        pulled.sessions.add(session)
        return lost

    def _held(self, wire: bytes, entry_id: str, ref: BlobRef) -> bytes | None:
        """A large line that is here already, as when the log is read again."""
        found = entries.at_wire(self.cache, wire, entry_id)
        if found is None or len(found) != ref.size or hashlib.sha256(found).digest() != ref.digest:
            return None
        return found

    def _open_blob(self, ref: BlobRef, header: Header, objects: dict[bytes, bytes]) -> bytes:
        content = objects.get(ref.id, b"")
        if len(content) != ref.sealed:
            raise SealError("A large entry's sealed bytes are not there.")
        parts = []
        for frame in split_blob(content):
            if (frame.header.session, frame.header.writer, frame.header.device) != (
                header.session,
                header.writer,
                header.device,
            ):
                raise SealError("A large entry's sealed bytes belong to another session.")
            self._check(frame)
            parts.append(open_sealed(self.keys, frame))
        raw = b"".join(parts)
        if len(raw) != ref.size or hashlib.sha256(raw).digest() != ref.digest:
            raise SealError("A large entry is not the one its record names.")
        return raw

    def _refuse(self, sealed: Sealed | None, event: Event, reason: str) -> None:
        record_id = sealed.id if sealed is not None else fingerprint(event.raw)
        header = sealed.header if sealed is not None else None
        outbox.quarantine(self.cache, record_id, header, reason, self._now())


def _view(entry: Entry, view: Callable[[bytes], View]) -> View:
    return View(kind="file", in_context=False) if entry.file else view(entry.raw)
