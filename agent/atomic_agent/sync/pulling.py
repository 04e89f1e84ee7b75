"""Events of the log into the cache: verified, opened, merged, with the cursor in one transaction.

Order of the checks (security.md 4.2): sizes and version, device active in the verified ledger,
signature, key id, chain, then the cipher. What fails is quarantined and reported; the rest goes on.
"""

import hashlib
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
from atomic_sessions.errors import SealError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.ids import SessionKey, wire_id
from atomic_sessions.ledger import Ledger
from atomic_sessions.seal import BlobRef, RecordBody, decode_body, open_sealed, split_blob
from atomic_sessions.wire import Event, Pull

CURSOR = "cursor"


class Pulled(Struct):
    """What a pull brought. `refused` counts events that did not verify or open."""

    events: int = 0
    entries: int = 0
    sessions: set[int] = set()
    deleted: int = 0
    refused: int = 0


class Puller:
    """Applies pages of the log. `fetch` gets the sealed bytes of an object by its id."""

    def __init__(
        self,
        cache: Cache,
        mine: Membership,
        trusted: Ledger,
        fetch: Callable[[bytes], bytes],
        now: Callable[[], int],
    ) -> None:
        self.cache = cache
        self.keys = mine.account_keys()
        self.ledger = trusted
        self._fetch = fetch
        self._now = now

    def apply(self, page: Pull, pulled: Pulled) -> None:
        """One page, all or nothing, cursor included (I04)."""
        objects = self._objects(page)
        with transaction(self.cache.connection):
            for event in page.events:
                pulled.events += 1
                sealed: Sealed | None = None
                try:
                    sealed = parse(event.raw)
                    self._apply(sealed, event, objects, pulled)
                except SealError as error:
                    pulled.refused += 1
                    self._refuse(sealed, event, error)
            self.cache.put(CURSOR, page.cursor)

    def _objects(self, page: Pull) -> dict[bytes, bytes]:
        """The large objects this page refers to, fetched before the transaction begins."""
        found: dict[bytes, bytes] = {}
        for event in page.events:
            try:
                sealed = parse(event.raw)
                if sealed.header.kind != Kind.RECORD or self._is_known(sealed):
                    continue
                self._check(sealed)
                body = decode_body(open_sealed(self.keys, sealed))
            except SealError:
                continue  # refused, with its reason, when it is applied
            for ref in body.blobs.values():
                if ref.id not in found:
                    found[ref.id] = self._fetch(ref.id)
        return found

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
        if outbox.is_tombstoned(self.cache, header.session):
            return
        if header.kind == Kind.TOMBSTONE:
            # The records before it were emptied by the service, so its chain cannot be followed.
            open_sealed(self.keys, sealed)
            pulled.deleted += sessions.bury(self.cache, header.session)
            outbox.tombstone(self.cache, header.session)
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
            self._record(header, decode_body(open_sealed(self.keys, sealed)), event, objects, pulled)
        outbox.move_chain(self.cache, header, sealed.id)

    def _record(
        self, header: Header, body: RecordBody, event: Event, objects: dict[bytes, bytes], pulled: Pulled
    ) -> None:
        facts = body.facts
        if wire_id(self.keys.id_key, SessionKey(facts.agent, facts.id, facts.scope)) != header.session:
            raise SealError("A record names another session than its envelope.")
        view = viewer(facts.agent, internal=facts.internal)
        batch: list[entries.Incoming] = []
        for index, entry in enumerate(body.entries):
            whole = entry
            if (ref := body.blobs.get(index)) is not None:
                whole = msgspec.structs.replace(entry, raw=self._open_blob(ref, header, objects))
            batch.append((whole, _view(whole, view)))
        session = sessions.ensure(self.cache, facts, self.keys.id_key)
        added = entries.insert(self.cache, session, batch, received=event.received_at, sealed=True)
        pulled.entries += added.new
        pulled.sessions.add(session)

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

    def _refuse(self, sealed: Sealed | None, event: Event, error: SealError) -> None:
        record_id = sealed.id if sealed is not None else fingerprint(event.raw)
        header = sealed.header if sealed is not None else None
        outbox.quarantine(self.cache, record_id, header, error.message, self._now())


def _view(entry: Entry, view: Callable[[bytes], View]) -> View:
    return View(kind="file", in_context=False) if entry.file else view(entry.raw)
