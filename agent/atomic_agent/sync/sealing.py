"""Entries that wait to sealed records in the outbox. No network: a retry sends the same bytes."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atomic_agent.cache import outbox, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.digest import Digest, load_digest
from atomic_agent.cache.entries import StoredEntry
from atomic_agent.cache.open import transaction
from atomic_agent.keys.keystore import Membership
from atomic_sessions.entry import Entry
from atomic_sessions.envelope import Kind
from atomic_sessions.seal import (
    NONCE_SIZE,
    AccountKeys,
    BlobRef,
    Place,
    RecordBody,
    blob_frames,
    encode_body,
    seal,
    seal_blob,
)

RECORD_BYTES = 256 * 1024
"""A record is cut before its raw lines exceed this."""
BLOB_BYTES = 256 * 1024
"""A raw line above this lies in an object of its own."""
RECORD_ENTRIES = 2000
RECORD_BLOBS = 32 * 1024 * 1024
"""A record refers to large objects of at most this together, so that none has to be held with too many."""
TOMBSTONE = b"dead"
NO_SESSION = 0


class Sealer:
    """Seals for one account, as one writer of one device."""

    def __init__(self, cache: Cache, mine: Membership) -> None:
        self.cache = cache
        self.keys: AccountKeys = mine.account_keys()
        self.device = mine.device.id
        self.sign_key = Ed25519PrivateKey.from_private_bytes(mine.device.sign_key)
        self.writer = cache.writer

    def seal_all(self) -> int:
        """Put every waiting entry into a record; one transaction a record. Returns the records made."""
        made = 0
        for session in outbox.unsealed_sessions(self.cache):
            while self._seal_next(session):
                made += 1
        for session in sessions.doomed(self.cache):
            with transaction(self.cache.connection):
                row = sessions.get(self.cache, session)
                wire = sessions.wire_of(self.cache, row, self.keys.id_key)
                if outbox.is_tombstoned(self.cache, wire, in_log=True):
                    sessions.bury(self.cache, wire)
                    continue
                self._put(session, wire, Kind.TOMBSTONE, TOMBSTONE, [])
                made += 1
        for wire in outbox.untold(self.cache):
            with transaction(self.cache.connection):
                self._put(NO_SESSION, wire, Kind.TOMBSTONE, TOMBSTONE, [])
                made += 1
        return made

    def _seal_next(self, session: int) -> bool:
        """One record of a session's waiting entries; False when none wait."""
        with transaction(self.cache.connection):
            row = sessions.get(self.cache, session)
            wire = sessions.wire_of(self.cache, row, self.keys.id_key)
            if outbox.is_tombstoned(self.cache, wire) or sessions.is_orphaned(self.cache, row):
                sessions.bury(self.cache, wire)
                return False
            piece = next(cut(outbox.unsealed(self.cache, session)), None)
            if piece is None:
                return False
            self._record(row, wire, piece)
        return True

    def _record(self, row: sessions.SessionRow, wire: bytes, piece: list[StoredEntry]) -> None:
        entries: list[Entry] = []
        blobs: dict[int, BlobRef] = {}
        received: dict[int, int] = {}
        for index, stored in enumerate(piece):
            entry = stored.entry
            if len(entry.raw) > BLOB_BYTES:
                blobs[index] = self._blob(wire, entry.raw)
                entry = msgspec.structs.replace(entry, raw=b"")
            entries.append(entry)
            if stored.received is not None:
                received[index] = stored.received
        body = encode_body(RecordBody(1, row.facts, entries, blobs, received))
        self._put(row.key, wire, Kind.RECORD, body, [stored.entry.id for stored in piece])
        outbox.mark_sealed(self.cache, [stored.row for stored in piece])

    def _put(self, session: int, wire: bytes, kind: Kind, plain: bytes, ids: list[str]) -> None:
        chain = outbox.chain(self.cache, wire, self.writer)
        digest = load_digest(self.cache, session) if session != NO_SESSION else Digest()
        place = Place(
            kind,
            wire,
            self.device,
            self.writer,
            chain.n + 1,
            chain.last,
            digest.newest_at,
            bytes(digest.newest_tag) or bytes(8),
        )
        sealed = seal(self.keys, self.sign_key, place, plain, secrets.token_bytes(NONCE_SIZE))
        outbox.put(self.cache, session, wire, sealed.id, sealed.raw, ids)
        outbox.move_chain(self.cache, sealed.header, sealed.id)

    def _blob(self, wire: bytes, raw: bytes) -> BlobRef:
        place = Place(Kind.BLOB, wire, self.device, self.writer, 1, bytes(32), 0, bytes(8))
        nonces = [secrets.token_bytes(NONCE_SIZE) for _ in range(blob_frames(len(raw)))]
        content = seal_blob(self.keys, self.sign_key, place, raw, nonces)
        object_id = hashlib.sha256(content).digest()
        outbox.put_upload(self.cache, object_id, wire, content)
        return BlobRef(object_id, len(raw), len(content), hashlib.sha256(raw).digest())


def cut(waiting: Iterable[StoredEntry]) -> Iterator[list[StoredEntry]]:
    """Runs of entries of at most RECORD_BYTES of lines and ids; large lines count for RECORD_BLOBS, they
    lie elsewhere. Parents come before children, as they came in."""
    piece: list[StoredEntry] = []
    size = blobs = 0
    for stored in waiting:
        entry = stored.entry
        large = len(entry.raw) > BLOB_BYTES
        own = 64 + len(entry.id) + len(entry.parent or "") + (256 if large else len(entry.raw))
        heavy = len(entry.raw) if large else 0
        full = size + own > RECORD_BYTES or blobs + heavy > RECORD_BLOBS or len(piece) >= RECORD_ENTRIES
        if piece and full:
            yield piece
            piece, size, blobs = [], 0, 0
        piece.append(stored)
        size += own
        blobs += heavy
    if piece:
        yield piece
