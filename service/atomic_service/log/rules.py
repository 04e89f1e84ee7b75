"""What a push does to a log, decided without a database: state and events in, a plan out. Pure.

The state is read under the account's lock and the plan is carried out before it is released, so
every decision here is final.
"""

import hashlib
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from atomic_service.problems import Refused
from atomic_sessions.clock import MAX_SKEW_MS, order
from atomic_sessions.envelope import ZERO32, Header, Kind, Sealed, parse, verify
from atomic_sessions.errors import SealError
from atomic_sessions.wire import MAX_EVENT_BYTES, MAX_PUSH_BYTES, MAX_PUSH_EVENTS, ErrorCode, Pushed

CHAIN_SIZE = 16
Naming = tuple[bytes, int, bytes]
"""A session and the message some record names as its newest: (session, newest_at, newest_tag)."""


class SessionState(Struct, frozen=True):
    """A row of `session`. newest_* are zero until a record names a message."""

    session: bytes
    first_seq: int
    last_seq: int
    newest_at: int = 0
    newest_tag: bytes = bytes(8)
    received_at: int = 0
    records: int = 0
    bytes: int = 0
    skewed: bool = False
    dead: bool = False


class Progress(Struct, frozen=True):
    """How far a writer has come in a session."""

    session: bytes
    writer: bytes
    last_n: int
    last_id: bytes


class LogState(Struct, frozen=True):
    """What the log knows of a push's events before it. `known` are ids it holds already."""

    head: int
    chain: bytes
    used: int
    quota: int
    known: dict[bytes, Pushed]
    sessions: dict[bytes, SessionState]
    progress: dict[tuple[bytes, bytes], Progress]
    writers: dict[bytes, bytes]
    first_named: dict[Naming, int]


class NewEvent(Struct, frozen=True):
    """A row of `event` to be."""

    seq: int
    chain: bytes
    sealed: Sealed


class Plan(Struct, frozen=True):
    """What a push changes. `died` are the sessions whose bodies and objects go."""

    results: list[Pushed]
    events: list[NewEvent]
    sessions: list[SessionState]
    progress: list[Progress]
    writers: dict[bytes, bytes]
    died: list[bytes]
    head: int
    chain: bytes
    used: int


def check_events(raws: list[bytes], account: bytes, device: bytes, sign_key: bytes) -> list[Sealed]:
    """Parse and verify what a device sent; everything that needs no database.

    A record names the hash of the one before it, so the signature of the last record of a chain is its device's word
    for all of them: only that one is checked here (0.1 ms each, half of a push of 100). Readers check every one.
    """
    if not 1 <= len(raws) <= MAX_PUSH_EVENTS:
        raise Refused(ErrorCode.BAD_REQUEST, f"A push has 1 to {MAX_PUSH_EVENTS} events.")
    if sum(map(len, raws)) > MAX_PUSH_BYTES or max(map(len, raws)) > MAX_EVENT_BYTES:
        raise Refused(ErrorCode.TOO_LARGE, "The push or one of its events is too large.")
    checked = []
    for raw in raws:
        try:
            sealed = parse(raw)
        except SealError as error:
            raise Refused(ErrorCode.BAD_HASH, error.message) from error
        if sealed.header.account != account or sealed.header.device != device:
            raise Refused(ErrorCode.FORBIDDEN, "A device pushes its own records to its own account.")
        if sealed.header.kind is Kind.BLOB:
            raise Refused(ErrorCode.BAD_REQUEST, "Blobs go through /v1/uploads.")
        checked.append(sealed)
    _verify_chains(checked, sign_key)
    return checked


def _verify_chains(events: list[Sealed], sign_key: bytes) -> None:
    """Each event is signed by the device, or followed in this push by one that names it and is."""
    vouched: set[tuple[bytes, bytes, int, bytes]] = set()
    for sealed in reversed(events):
        header = sealed.header
        if (header.session, header.writer, header.n, sealed.id) not in vouched:
            try:
                verify(sealed, sign_key)
            except SealError as error:
                raise Refused(ErrorCode.BAD_HASH, error.message) from error
        vouched.add((header.session, header.writer, header.n - 1, header.prev))


def next_chain(chain: bytes, event_id: bytes, received_at: int) -> bytes:
    """The check of content that goes with a place in the log. The time is part of it: a log that lost a record and
    took the same bytes again says another time than those who read it before know."""
    return hashlib.sha256(chain + event_id + received_at.to_bytes(8, "big")).digest()[:CHAIN_SIZE]


def is_ahead(header: Header, received_at: int) -> bool:
    """True when the record names a message further ahead than any clock may be."""
    return header.newest_at > received_at + MAX_SKEW_MS


def plan_push(state: LogState, events: Iterable[Sealed], device: bytes, now: int) -> Plan:
    """Number the new events, or refuse the whole push with the first reason found."""
    draft = _Draft(state, device, now)
    for sealed in events:
        draft.take(sealed)
    return draft.finish()


class _Draft:
    """A plan in the making: copies of what the events change."""

    def __init__(self, state: LogState, device: bytes, now: int) -> None:
        self._state = state
        self._device = device
        self._now = now
        self._known = dict(state.known)
        self._sessions: dict[bytes, SessionState] = {}
        self._progress: dict[tuple[bytes, bytes], Progress] = {}
        self._writers: dict[bytes, bytes] = {}
        self._first_named = dict(state.first_named)
        self._results: list[Pushed] = []
        self._events: list[NewEvent] = []
        self._died: list[bytes] = []
        self._head = state.head
        self._chain = state.chain
        self._used = state.used

    def take(self, sealed: Sealed) -> None:
        known = self._known.get(sealed.id)
        if known is not None:
            self._results.append(replace(known, new=False))
            return
        header = sealed.header
        session = self._session(header.session)
        if session.dead:
            raise Refused(ErrorCode.SESSION_DEAD, session=header.session)
        self._follow(sealed)
        self._head += 1
        self._chain = next_chain(self._chain, sealed.id, self._now)
        self._events.append(NewEvent(self._head, self._chain, sealed))
        pushed = Pushed(sealed.id, self._head, True, self._now)
        self._known[sealed.id] = pushed
        self._results.append(pushed)
        self._sessions[header.session] = self._after(session, sealed)

    def _session(self, session: bytes) -> SessionState:
        found = self._sessions.get(session) or self._state.sessions.get(session)
        return found if found is not None else SessionState(session, self._head + 1, self._head + 1)

    def _follow(self, sealed: Sealed) -> None:
        """The record must continue its writer's last one in this session, and the writer must be this device's."""
        header = sealed.header
        owner = self._state.writers.get(header.writer)
        if owner is not None and owner != self._device:
            raise Refused(ErrorCode.WRITER_FORKED, "The writer belongs to another device.")
        place = (header.session, header.writer)
        last = self._progress.get(place) or self._state.progress.get(place)
        last_n, last_id = (last.last_n, last.last_id) if last is not None else (0, ZERO32)
        if header.n != last_n + 1 or header.prev != last_id:
            raise Refused(ErrorCode.WRITER_FORKED, "A record does not continue the last one of its writer.")
        if owner is None:
            self._writers[header.writer] = self._device
        self._progress[place] = Progress(header.session, header.writer, header.n, sealed.id)

    def _after(self, session: SessionState, sealed: Sealed) -> SessionState:
        """The session's row after one more event."""
        size = len(sealed.raw)
        self._used += size
        session = replace(session, last_seq=self._head, bytes=session.bytes + size)
        if sealed.header.kind is Kind.TOMBSTONE:
            self._used -= session.bytes - size
            self._died.append(session.session)
            return replace(session, dead=True, records=0, bytes=size)
        if sealed.header.kind is Kind.RECORD:
            session = replace(session, records=session.records + 1)
        return self._with_newest(session, sealed.header)

    def _with_newest(self, session: SessionState, header: Header) -> SessionState:
        """Let the record's newest message compete (C4). A message counts from its first arrival: named
        again later, it must not gain from the later clock."""
        if header.newest_at == 0 and header.newest_tag == bytes(8):
            return session
        naming = (header.session, header.newest_at, header.newest_tag)
        first = min(self._first_named.get(naming, self._now), self._now)
        self._first_named[naming] = first
        skewed = session.skewed or is_ahead(header, first)
        challenger = order(header.newest_at, header.newest_tag, first)
        holder = order(session.newest_at, session.newest_tag, session.received_at)
        if challenger <= holder:
            return replace(session, skewed=skewed)
        return replace(
            session,
            newest_at=header.newest_at,
            newest_tag=header.newest_tag,
            received_at=first,
            skewed=skewed,
        )

    def finish(self) -> Plan:
        only_deletes = all(event.sealed.header.kind is Kind.TOMBSTONE for event in self._events)
        if self._used > self._state.quota and not only_deletes:
            raise Refused(ErrorCode.OVER_QUOTA, "Delete sessions, or ask the operator for more space.")
        return Plan(
            results=self._results,
            events=self._events,
            sessions=list(self._sessions.values()),
            progress=list(self._progress.values()),
            writers=self._writers,
            died=self._died,
            head=self._head,
            chain=self._chain,
            used=self._used,
        )
