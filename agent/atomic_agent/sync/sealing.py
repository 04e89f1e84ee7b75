"""Entries that wait to sealed records in the outbox. No network: a retry sends the same bytes."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atomic_agent.cache import outbox, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.digest import load_digest
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
            made += self.seal_session(session)
        for session in sessions.doomed(self.cache):
            with transaction(self.cache.connection):
                self._tombstone(session)
                made += 1
        return made

    def seal_session(self, session: int) -> int:
        """Records for one session's waiting entries."""
        with transaction(self.cache.connection):
            row = sessions.get(self.cache, session)
            wire = sessions.wire_of(self.cache, row, self.keys.id_key)
            waiting = list(outbox.unsealed(self.cache, session))
            pieces = list(cut(waiting))
            for piece in pieces:
                self._record(row, wire, piece)
        return len(pieces)

    def _record(self, row: sessions.SessionRow, wire: bytes, piece: list[StoredEntry]) -> None:
        entries: list[Entry] = []
        blobs: dict[int, BlobRef] = {}
        for index, stored in enumerate(piece):
            entry = stored.entry
            if len(entry.raw) > BLOB_BYTES:
                blobs[index] = self._blob(wire, entry.raw)
                entry = msgspec.structs.replace(entry, raw=b"")
            entries.append(entry)
        body = encode_body(RecordBody(1, row.facts, entries, blobs))
        self._put(row.key, wire, Kind.RECORD, body, [stored.entry.id for stored in piece])
        outbox.mark_sealed(self.cache, [stored.row for stored in piece])

    def _put(self, session: int, wire: bytes, kind: Kind, plain: bytes, ids: list[str]) -> None:
        chain = outbox.chain(self.cache, wire, self.writer)
        digest = load_digest(self.cache, session)
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

    def _tombstone(self, session: int) -> None:
        row = sessions.get(self.cache, session)
        wire = sessions.wire_of(self.cache, row, self.keys.id_key)
        self._put(session, wire, Kind.TOMBSTONE, b"dead", [])


def cut(waiting: Iterable[StoredEntry]) -> Iterator[list[StoredEntry]]:
    """Runs of entries of at most RECORD_BYTES of raw lines; large lines count for nothing, they lie
    elsewhere. Parents come before children, as they came in."""
    piece: list[StoredEntry] = []
    size = 0
    for stored in waiting:
        own = len(stored.entry.raw) if len(stored.entry.raw) <= BLOB_BYTES else 256
        if piece and (size + own > RECORD_BYTES or len(piece) >= RECORD_ENTRIES):
            yield piece
            piece, size = [], 0
        piece.append(stored)
        size += own + 64
    if piece:
        yield piece
