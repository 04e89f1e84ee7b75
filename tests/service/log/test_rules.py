"""What a push decides, without a database: the newest message, chains, order of refusals."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_service.log.rules import (
    CHAIN_SIZE,
    LogState,
    Plan,
    SessionState,
    check_events,
    next_chain,
    plan_push,
)
from atomic_service.problems import Refused
from atomic_sessions.clock import MAX_SKEW_MS, order
from atomic_sessions.envelope import Kind, parse
from service.devices import NOW, Device

SESSION = b"s" * 16
NOBODY = Device("http://nowhere.invalid")


def state(**known: object) -> LogState:
    """An empty log but for what is named."""
    fields: dict[str, object] = {
        "head": 0, "chain": bytes(CHAIN_SIZE), "used": 0, "quota": 1 << 40, "known": {}, "sessions": {},
        "progress": {}, "writers": {}, "first_named": {}, **known,
    }  # fmt: skip
    return LogState(**fields)  # type: ignore[arg-type] # a mix of values by name


@pytest.fixture
def device() -> Device:
    return NOBODY


def after(plan: Plan, before: LogState) -> LogState:
    """The log as the next push finds it."""
    return state(
        head=plan.head,
        chain=plan.chain,
        used=plan.used,
        sessions={**before.sessions, **{s.session: s for s in plan.sessions}},
        progress={**before.progress, **{(p.session, p.writer): p for p in plan.progress}},
        writers={**before.writers, **plan.writers},
    )


def checked(device: Device, *raws: bytes) -> int:
    return len(check_events(list(raws), device.account, device.id, device.sign_key))


def test_last_signature_of_a_chain_speaks_for_the_records_it_names(device: Device) -> None:
    """I17: a change, a stranger's record or a gap anywhere in a chain is refused, though one signature is checked."""
    writer = device.writer(SESSION)
    raws = [writer.seal() for _ in range(5)]
    assert checked(device, *raws) == 5
    for place in range(5):
        for byte in (12, 200, -1):
            bent = bytearray(raws[place])
            bent[byte] ^= 1
            with pytest.raises(Refused, match=r"bad_hash|forbidden"):
                checked(device, *raws[:place], bytes(bent), *raws[place + 1 :])
    unsigned = [raw[:-64] + bytes(64) for raw in raws]
    for push in (unsigned, [*raws[:-1], unsigned[-1]], [unsigned[0], *raws[1:]], [raws[1], unsigned[0]]):
        with pytest.raises(Refused, match="bad_hash"):
            checked(device, *push)


def test_chain_of_another_key_is_refused(device: Device) -> None:
    """Whoever has a token and not the key can push nothing, whatever its records name."""
    thief = Device("http://nowhere.invalid", device.account)
    thief.id = device.id
    true, false = device.writer(SESSION), thief.writer(SESSION)
    first = true.seal()
    false.writer, false.n, false.prev = true.writer, true.n, true.prev
    for push in ([false.seal()], [first, false.seal()], [false.seal(), true.seal()]):
        with pytest.raises(Refused, match="bad_hash"):
            checked(device, *push)


def test_chain_covers_every_id_in_order(device: Device) -> None:
    """The chain at a place is a hash over all ids and times before it, so two histories differ there."""
    writer = device.writer(SESSION)
    events = [parse(writer.seal()) for _ in range(3)]
    plan = plan_push(state(), events, device.id, NOW)
    chain = bytes(16)
    for event in events:
        chain = hashlib.sha256(chain + event.id + NOW.to_bytes(8, "big")).digest()[:16]
        assert next_chain(b"", b"", 0) != chain
    assert plan.chain == plan.events[-1].chain == chain


namings = st.lists(
    st.tuples(st.integers(NOW - 2 * MAX_SKEW_MS, NOW + 3 * MAX_SKEW_MS), st.binary(min_size=8, max_size=8)),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(namings, st.lists(st.integers(0, 5), min_size=1, max_size=12), st.booleans())
def test_newest_is_the_greatest_over_first_arrivals(
    messages: list[tuple[int, bytes]], named: list[int], together: bool
) -> None:
    """C4: whatever is named again and however late, the session shows the maximum of clock.order over the
    messages, each with the time it was first received."""
    device = NOBODY
    writer, log = device.writer(SESSION), state()
    first: dict[tuple[int, bytes], int] = {}
    now = NOW
    for choice in named:
        at, tag = messages[choice % len(messages)]
        first.setdefault((at, tag), now)
        event = parse(writer.seal(newest_at=at, newest_tag=tag))
        before = {(SESSION, *message): when for message, when in first.items() if when < now}
        plan = plan_push(_with_first(log, before), [event], device.id, now)
        log = after(plan, log)
        now += 0 if together else MAX_SKEW_MS // 2
    expected = max(order(at, tag, when) for (at, tag), when in first.items())
    row = log.sessions[SESSION]
    assert order(row.newest_at, row.newest_tag, row.received_at) == expected


def _with_first(log: LogState, first: dict[tuple[bytes, int, bytes], int]) -> LogState:
    return state(
        head=log.head, chain=log.chain, used=log.used, sessions=log.sessions, progress=log.progress,
        writers=log.writers, first_named=first,
    )  # fmt: skip


def test_records_without_a_message_change_no_newest(device: Device) -> None:
    """Zeros mean that the copy holds no message."""
    plan = plan_push(
        state(), [parse(device.writer(SESSION).seal(newest_at=0, newest_tag=bytes(8)))], device.id, NOW
    )
    assert (plan.sessions[0].newest_at, plan.sessions[0].received_at) == (0, 0)


def test_dead_session_refuses_before_the_writer_is_looked_at(device: Device) -> None:
    """A fork in a dead session is still a dead session: the agent must not take a new writer for it."""
    writer = device.writer(SESSION)
    writer.n, writer.prev = 5, b"p" * 32
    dead = SessionState(SESSION, 1, 1, dead=True)
    with pytest.raises(Refused, match="session_dead"):
        plan_push(state(sessions={SESSION: dead}), [parse(writer.seal())], device.id, NOW)


def test_cards_count_bytes_but_no_records(device: Device) -> None:
    """`records` of a session are its records, its bytes are all of its events."""
    writer = device.writer(SESSION)
    raws = [writer.seal(), writer.seal(Kind.CARD)]
    plan = plan_push(state(), [parse(raw) for raw in raws], device.id, NOW)
    assert (plan.sessions[0].records, plan.sessions[0].bytes) == (1, sum(map(len, raws)))


def test_tombstone_frees_the_bytes_of_its_session(device: Device) -> None:
    """The account's bytes after a deletion are those of the tombstone."""
    writer = device.writer(SESSION)
    raws = [writer.seal(size=900), writer.seal(), writer.seal(Kind.TOMBSTONE)]
    plan = plan_push(state(used=10), [parse(raw) for raw in raws], device.id, NOW)
    assert plan.used == 10 + len(raws[-1])
    assert plan.died == [SESSION]


def test_own_envelopes_pass_the_checks(device: Device) -> None:
    """Signature, account and device of what a device sealed itself hold."""
    raws = [device.writer().seal() for _ in range(2)]
    assert [s.raw for s in check_events(raws, device.account, device.id, device.sign_key)] == raws
