"""What a service could send in place of the truth. Pure: true replies in, false ones out.

A service holds sealed bytes and no key, so each lie is made of bytes that it saw and keys of its own.
The session that is lied about is that with the most records on the page; all others stay as they are.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atomic_sessions import wire
from atomic_sessions.envelope import HEADER_SIZE, parse
from atomic_sessions.ledger import KEM_KEY_SIZE, LedgerBody, LedgerEntry, entry_hash, signed_bytes, verify
from atomic_sessions.wire import Event

ACCOUNT, SESSION, DEVICE = slice(5, 21), slice(21, 37), slice(37, 53)
Memory = dict[bytes, list[bytes]]
"""Sealed events by account, as they were pushed."""
Options = dict[str, Any]  # JSON
OWN_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OWN_ID = b"the service's own"[:16]


def _session(event: Event) -> bytes:
    return event.raw[SESSION]


def _with(event: Event, raw: bytes) -> Event:
    return msgspec.structs.replace(event, raw=raw)


def _spliced(raw: bytes, where: slice, part: bytes) -> bytes:
    return raw[: where.start] + part + raw[where.stop :]


def _targets(events: list[Event]) -> list[int]:
    """Where the records of the target session stand."""
    count = Counter(_session(event) for event in events)
    target = max(count, key=count.__getitem__)
    return [at for at, event in enumerate(events) if _session(event) == target]


def _other(events: list[Event], one: int, part: slice) -> int:
    """The first event after this one that differs from it in a header field."""
    raw = events[one].raw
    return next(at for at in range(one, len(events)) if events[at].raw[part] != raw[part])


def _exchanged(events: list[Event], one: int, two: int, part: slice) -> list[Event]:
    found = list(events)
    found[one] = _with(events[one], _spliced(events[one].raw, part, events[two].raw[part]))
    found[two] = _with(events[two], _spliced(events[two].raw, part, events[one].raw[part]))
    return found


def _replaced(events: list[Event], raw: bytes) -> list[Event]:
    """Other bytes in place of the target session's first record."""
    at = _targets(events)[0]
    return [*events[:at], _with(events[at], raw), *events[at + 1 :]]


def swap_records(events: list[Event], _: Options, __: Memory) -> list[Event]:
    """Two records of one session change places."""
    one, two = _targets(events)[:2]
    found = list(events)
    found[one], found[two] = _with(events[one], events[two].raw), _with(events[two], events[one].raw)
    return found


def swap_sessions(events: list[Event], _: Options, __: Memory) -> list[Event]:
    """Two records change their sessions."""
    one = _targets(events)[0]
    return _exchanged(events, one, _other(events, one, SESSION), SESSION)


def swap_bodies(events: list[Event], _: Options, __: Memory) -> list[Event]:
    """Two records of two sessions keep their headers and change what is sealed in them."""
    one = _targets(events)[0]
    return _exchanged(events, one, _other(events, one, SESSION), slice(HEADER_SIZE, len(events[one].raw)))


def swap_devices(events: list[Event], _: Options, __: Memory) -> list[Event]:
    """Two records change their devices."""
    one = _targets(events)[0]
    return _exchanged(events, one, _other(events, one, DEVICE), DEVICE)


def foreign(events: list[Event], options: Options, memory: Memory) -> list[Event]:
    """Another account's record in place of the first, as it is or with this account's id."""
    own = events[0].raw[ACCOUNT]
    theirs = next(raws[0] for account, raws in memory.items() if account != own)
    return _replaced(events, _spliced(theirs, ACCOUNT, own) if options["relabel"] else theirs)


def twice(events: list[Event], _: Options, __: Memory) -> list[Event]:
    return [event for event in events for _ in range(2)]


def again(events: list[Event], _: Options, __: Memory) -> list[Event]:
    return [*events, *events, *events]


def backwards(events: list[Event], _: Options, __: Memory) -> list[Event]:
    return events[::-1]


def drop_middle(events: list[Event], _: Options, __: Memory) -> list[Event]:
    return [event for at, event in enumerate(events) if at != _targets(events)[1]]


def patch(events: list[Event], options: Options, _: Memory) -> list[Event]:
    """Bytes of the first record set (`set`) or altered (`xor`) at `at`."""
    raw = bytearray(events[_targets(events)[0]].raw)
    at, new = options["at"], bytes.fromhex(options.get("set") or options["xor"])
    old = raw[at : at + len(new)] if "xor" in options else bytes(len(new))
    raw[at : at + len(new)] = bytes(a ^ b for a, b in zip(old, new, strict=True))
    return _replaced(events, bytes(raw))


def resize(events: list[Event], options: Options, _: Memory) -> list[Event]:
    """The first record cut by `cut` bytes, or with `more` behind it."""
    raw = events[_targets(events)[0]].raw
    return _replaced(events, raw[: len(raw) - options["cut"]] + bytes.fromhex(options["more"]))


def insert(events: list[Event], options: Options, _: Memory) -> list[Event]:
    """A record before all others, as another machine of the account might have sent it."""
    return [_with(events[0], bytes.fromhex(options["raw"])), *events]


def late(events: list[Event], options: Options, _: Memory) -> list[Event]:
    """Every event with a time of arrival that cannot be."""
    return [msgspec.structs.replace(event, received_at=options["at"]) for event in events]


PULLS: dict[str, Callable[[list[Event], Options, Memory], list[Event]]] = {
    one.__name__: one
    for one in (
        swap_records,
        swap_sessions,
        swap_bodies,
        swap_devices,
        foreign,
        twice,
        again,
        backwards,
        drop_middle,
        patch,
        resize,
        insert,
        late,
    )
}


def false_pull(body: bytes, options: Options, memory: Memory) -> bytes:
    page = msgspec.msgpack.decode(body, type=wire.Pull)
    if not page.events:
        return body
    events = PULLS[options["how"]](page.events, options, memory)
    return msgspec.msgpack.encode(msgspec.structs.replace(page, events=events))


def false_ledger(body: bytes, options: Options) -> bytes:
    """The device list shortened, turned round, altered, made anew, or with the service's own device."""
    entries = msgspec.msgpack.decode(body, type=wire.LedgerReply).entries
    match options["how"]:
        case "shorten":
            entries = entries[: options["keep"]]
        case "reverse":
            entries = entries[::-1]
        case "flip":
            flipped = bytearray(entries[-1].body)
            flipped[options["at"]] ^= 1
            entries = [*entries[:-1], LedgerEntry(bytes(flipped), entries[-1].signature)]
        case "intrude":
            entries = [*entries, _intruder(entries, by_first=options["by_first"])]
        case "replace":
            entries = [_intruder([], by_first=False, account=_account(entries))] * len(entries)
        case "found":
            entries = [_intruder([], by_first=False, account=_account(entries))]
    return msgspec.msgpack.encode(wire.LedgerReply(entries))


def _account(entries: list[LedgerEntry]) -> bytes:
    return msgspec.msgpack.decode(entries[0].body, type=LedgerBody).account


def _intruder(entries: list[LedgerEntry], *, by_first: bool, account: bytes = b"") -> LedgerEntry:
    """The next entry, which adds the service's device: said to be signed by itself, or by the first."""
    head = verify(entries, account := _account(entries)) if entries else None
    first = next(iter(head.members)) if head is not None else OWN_ID
    body = LedgerBody(
        1,
        account,
        len(entries) + 1,
        entry_hash(entries[-1]) if entries else bytes(32),
        "add",
        "device",
        OWN_ID,
        OWN_KEY.public_key().public_bytes_raw(),
        bytes(KEM_KEY_SIZE),
        b"name",
        first if by_first else OWN_ID,
        1,
    )
    raw = msgspec.msgpack.encode(body)
    return LedgerEntry(raw, OWN_KEY.sign(signed_bytes(raw)))


def false_mailbox(body: bytes, options: Options) -> bytes:
    """One bit of one slot of a pairing altered."""
    box = msgspec.msgpack.decode(body, type=wire.Mailbox)
    if (slot := box.slots.get(options["slot"])) is None:
        return body
    changed = slot[:-1] + bytes([slot[-1] ^ 1])
    return msgspec.msgpack.encode(msgspec.structs.replace(box, slots={**box.slots, options["slot"]: changed}))


def remember(body: bytes, memory: Memory) -> None:
    """Keep what was pushed, by account."""
    for raw in msgspec.msgpack.decode(body, type=wire.Push).events:
        memory.setdefault(parse(raw).header.account, []).append(raw)
