"""Machines that have exchanged everything agree: over interleavings, cuts, clocks, copies and failovers."""

import json
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.sync.account import SESSION, Node, account
from agent.sync.memory_log import Cut, MemoryLog
from atomic_agent.cache import outbox, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.capture.follow import take
from atomic_agent.capture.sources import Source
from atomic_agent.sync.delete import delete_session
from atomic_agent.sync.identity import membership
from atomic_agent.sync.sealing import Sealer
from atomic_sessions import ledger
from atomic_sessions.errors import ServiceRefusedError
from atomic_sessions.ledger import LedgerEntry

YEAR = 365 * 86_400_000
OTHER = "01a22c81-7192-70af-aa13-000000000002"


def settle(nodes: list[Node], log: MemoryLog) -> None:
    """Exchange until nobody has anything new."""
    for _ in range(3):
        for node in nodes:
            node.sync(log)


class Machines(RuleBasedStateMachine):
    """Three machines and a log; the model is the set of lines ever said in a session not deleted."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.nodes, self.log = account(self.root, 3)
        self.said: dict[str, set[str]] = {}
        self.deleted: set[str] = set()

    @rule(who=st.integers(0, 2), session=st.sampled_from(["01a22c81-7192-70af-aa13-000000000001", OTHER]))
    def say(self, who: int, session: str) -> None:
        node = self.nodes[who]
        if session in self.deleted and _is_deleted(node, session):
            return
        self.said.setdefault(session, set()).add(node.say(f"said {node.count}", session))

    @rule(who=st.integers(0, 2))
    def sync(self, who: int) -> None:
        self.nodes[who].sync(self.log)

    @rule(who=st.integers(0, 2), where=st.sampled_from(["cut_before", "cut_after"]))
    def sync_with_a_cut(self, who: int, where: str) -> None:
        setattr(self.log, where, True)
        try:
            self.nodes[who].sync(self.log)
        except Cut:
            pass
        setattr(self.log, where, False)

    @rule(who=st.integers(0, 2), by=st.sampled_from([1000, 60_000, -3_600_000, YEAR, -YEAR]))
    def turn_the_clock(self, who: int, by: int) -> None:
        self.nodes[who].clock = max(0, self.nodes[who].clock + by)

    @rule(by=st.integers(0, 600_000))
    def time_passes(self, by: int) -> None:
        self.log.clock += by

    @rule(size=st.integers(1, 5))
    def pages_change(self, size: int) -> None:
        self.log.page = size

    @precondition(lambda self: bool(self.said))
    @rule(who=st.integers(0, 2), data=st.data())
    def delete(self, who: int, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.said)))
        for row in sessions.listed(self.nodes[who].journal.cache):
            if row.id == session:
                delete_session(self.nodes[who].journal, row)
                self.deleted.add(session)

    @invariant()
    def nothing_was_refused(self) -> None:
        for node in getattr(self, "nodes", []):
            assert outbox.quarantined(node.journal.cache) == []

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        settle(self.nodes, self.log)
        states = [node.state() for node in self.nodes]
        assert states[0] == states[1] == states[2]
        lines = self.nodes[0].texts()
        for session, ids in self.said.items():
            for one in ids:
                there = any(f'"id": "{one}"'.encode() in raw for raw in lines)
                assert there is (session not in self.deleted), (session, one)
        for node in self.nodes:
            node.close()
        shutil.rmtree(self.root)


def _is_deleted(node: Node, session: str) -> bool:
    cache = node.journal.cache
    row = cache.connection.execute("SELECT deleted FROM session_sessions WHERE id = ?", (session,)).fetchone()
    return bool(row and row[0])


TestMachines = Machines.TestCase
TestMachines.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


@given(lost=st.integers(1, 6), turns=st.lists(st.integers(0, 1), min_size=3, max_size=8))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_failover_that_lost_commits_is_refilled(lost: int, turns: list[int]) -> None:
    """I07, I08: after the log lost its end, the machines offer again what they hold; the union is as
    before, and nothing is doubled."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, log = account(Path(folder))
        for who in turns:
            nodes[who].say("x")
            nodes[who].sync(log)
        settle(nodes, log)
        before = nodes[0].texts()
        log.lose_last(min(lost, len(log.rows)))
        settle(nodes, log)
        assert nodes[0].texts() == nodes[1].texts() == before
        assert nodes[0].state() == nodes[1].state()
        for node in nodes:
            node.close()


def test_a_lost_acknowledgement_sends_nothing_twice(tmp_path: Path) -> None:
    """I02: the reply is lost after the commit; the retry brings the same place, not a second record."""
    nodes, log = account(tmp_path)
    nodes[0].say("once")
    log.cut_after = True
    with pytest.raises(Cut):
        nodes[0].sync(log)
    nodes[0].sync(log)
    assert len(log.rows) == 1
    for node in nodes:
        node.close()


def test_a_deletion_finds_a_session_that_was_never_sealed_here(tmp_path: Path) -> None:
    """A session captured here and pulled from elsewhere dies with the other machine's tombstone."""
    nodes, log = account(tmp_path)
    nodes[0].say("theirs")
    nodes[0].sync(log)
    with transaction(nodes[1].journal.cache.connection):
        sessions.ensure(nodes[1].journal.cache, nodes[1]._facts(SESSION))
    nodes[1].sync(log)
    (row,) = sessions.listed(nodes[0].journal.cache)
    delete_session(nodes[0].journal, row)
    settle(nodes, log)
    assert nodes[0].state() == nodes[1].state() == []
    for node in nodes:
        node.close()


def test_an_empty_log_never_deletes(tmp_path: Path) -> None:
    """I09: a service that forgot everything gets everything back."""
    nodes, log = account(tmp_path)
    nodes[0].say("kept")
    settle(nodes, log)
    before = nodes[1].texts()
    log.rows.clear()
    done = nodes[1].sync(log)
    assert done.reset
    assert nodes[1].texts() == before
    settle(nodes, log)
    assert nodes[0].state() == nodes[1].state()
    for node in nodes:
        node.close()


@pytest.mark.parametrize("sealed_before", [False, True])
def test_two_lives_of_one_cache(tmp_path: Path, *, sealed_before: bool) -> None:
    """I05, I06: a cache is copied and both copies write, also when the copy has sealed its record before
    it hears of the other's; all three histories arrive, and no number is used for two records."""
    nodes, log = account(tmp_path)
    first = nodes[0]
    first.say("before")
    first.sync(log)
    copy = tmp_path / "copy.sqlite"
    first.journal.cache.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(first.home.cache, copy)
    first.say("original")
    first.sync(log)
    first.close()
    shutil.copyfile(copy, first.home.cache)
    for side in ("-wal", "-shm"):
        first.home.cache.with_name(first.home.cache.name + side).unlink(missing_ok=True)
    first.journal = first._open()
    first.count = 100
    first.say("restored")
    if sealed_before:
        Sealer(first.journal.cache, membership(first.journal)).seal_all()
    settle(nodes, log)
    places = [(row[0].header.session, row[0].header.writer, row[0].header.n) for row in log.rows]
    assert len(set(places)) == len(places)
    assert nodes[0].state() == nodes[1].state()
    assert all(any(w in raw for raw in nodes[1].texts()) for w in (b"before", b"original", b"restored"))
    assert all(outbox.quarantined(node.journal.cache) == [] for node in nodes)
    for node in nodes:
        node.close()


@pytest.mark.parametrize("damage", ["flip", "swap", "drop", "foreign"])
def test_forged_records_are_refused_and_the_rest_goes_on(tmp_path: Path, damage: str) -> None:
    """I17: altered, exchanged or missing records are quarantined; other sessions sync."""
    nodes, log = account(tmp_path)
    for _ in range(3):
        nodes[0].say("victim")
        nodes[0].sync(log)
    nodes[0].say("bystander", OTHER)
    nodes[0].sync(log)
    rows = log.rows
    if damage == "flip":
        sealed, received, chain = rows[1]
        raw = bytearray(sealed.raw)
        raw[200] ^= 1
        rows[1] = (type(sealed)(sealed.header, bytes(raw), sealed.id), received, chain)
    elif damage == "swap":
        rows[0], rows[1] = (rows[1][0], rows[0][1], rows[0][2]), (rows[0][0], rows[1][1], rows[1][2])
    elif damage == "drop":
        del rows[1]
    else:
        with closing(Node(tmp_path, "stranger")) as stranger:
            rows[1] = (
                type(rows[1][0])(rows[1][0].header, _resigned(rows[1][0].raw, stranger), rows[1][0].id),
                *rows[1][1:],
            )
    done = nodes[1].sync(log)
    assert done.refused >= 1
    assert any(b"bystander" in raw for raw in nodes[1].texts())
    assert sum(b"victim" in raw for raw in nodes[1].texts()) < 3
    for node in nodes:
        node.close()


def _resigned(raw: bytes, stranger: Node) -> bytes:
    """The same record signed by somebody who is not in the account."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from atomic_sessions.envelope import SIGNATURE_SIZE, signed_bytes

    body = raw[:-SIGNATURE_SIZE]
    return body + Ed25519PrivateKey.from_private_bytes(stranger.device.sign_key).sign(signed_bytes(body))


def test_a_services_word_alone_deletes_nothing(tmp_path: Path) -> None:
    """I09: `session_dead` without a signed tombstone is an error; every entry stays, sent or not."""
    nodes, log = account(tmp_path)
    nodes[0].say("sent")
    nodes[0].sync(log)
    nodes[0].say("not sent")
    before = nodes[0].texts()
    log.dead.add(log.rows[0][0].header.session)
    with pytest.raises(ServiceRefusedError):
        nodes[0].sync(log)
    assert nodes[0].texts() == before
    log.dead.clear()
    settle(nodes, log)
    assert nodes[1].texts() == before
    for node in nodes:
        node.close()


def test_a_deletion_survives_a_log_that_forgot_it(tmp_path: Path) -> None:
    """I08: after a restore from a backup the tombstone is offered again, whoever deleted."""
    nodes, log = account(tmp_path, 3)
    nodes[0].say("to be deleted")
    settle(nodes[:2], log)
    (row,) = sessions.listed(nodes[0].journal.cache)
    delete_session(nodes[0].journal, row)
    settle(nodes, log)
    log.lose_last(1)
    assert not log.dead
    settle(nodes, log)
    assert len(log.dead) == 1
    assert nodes[0].state() == nodes[1].state() == nodes[2].state() == []
    for node in nodes:
        node.close()


@given(skews=st.lists(st.sampled_from([0, -86_400_000, 86_400_000, 1000]), min_size=2, max_size=2))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_one_file_captured_on_two_machines_is_one_session(skews: list[int]) -> None:
    """The same lines taken in by clocks that differ end in the same stamps, order and list."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, log = account(Path(folder))
        lines = b"".join(
            json.dumps(
                {"type": "user", "uuid": f"u{n}", "sessionId": "s", "message": {"content": f"line {n}"}}
            ).encode()
            + b"\n"
            for n in range(5)
        )
        for node, skew in zip(nodes, skews, strict=True):
            node.clock += skew
            path = node.home.root / f"{SESSION}.jsonl"
            path.write_bytes(lines)
            take(node.journal.cache, Source(path, "claude-code"), node.clock)
            node.sync(log)
        settle(nodes, log)
        assert nodes[0].state() == nodes[1].state()
        for node in nodes:
            node.close()


def test_a_machine_that_joined_meanwhile_is_believed(tmp_path: Path) -> None:
    """Records of a device that the list gained after it was read are not refused."""
    nodes, log = account(tmp_path, 2)
    nodes[1].say("from the new machine")
    nodes[1].sync(log)
    whole, log.entries = log.entries, log.entries[:1]
    calls = []

    def grows() -> list[LedgerEntry]:
        calls.append(1)
        return whole if len(calls) > 1 else whole[:1]

    log.ledger = grows  # type: ignore[method-assign]  # the list as it is seen grows between two looks
    mine = membership(nodes[0].journal)
    first = ledger.verify(whole[:1], mine.account)
    nodes[0].journal.change(membership=msgspec.structs.replace(mine, ledger_head=first.head, ledger_size=1))
    done = nodes[0].sync(log)
    assert done.refused == 0
    assert any(b"new machine" in raw for raw in nodes[0].texts())
    for node in nodes:
        node.close()


def test_a_lost_object_costs_only_its_record(tmp_path: Path) -> None:
    """A large object that is gone makes its record refused; the rest goes on, and an update heals it."""
    nodes, log = account(tmp_path)
    nodes[0].say("x" * 400_000)
    nodes[0].say("bystander", OTHER)
    nodes[0].sync(log)
    kept, log.objects = log.objects, {}
    assert nodes[1].sync(log).refused == 1
    assert any(b"bystander" in raw for raw in nodes[1].texts())
    log.objects = kept
    with transaction(nodes[1].journal.cache.connection):
        nodes[1].journal.cache.put("reader", b"an older program")
    settle(nodes, log)
    assert nodes[0].state() == nodes[1].state()
    for node in nodes:
        node.close()
