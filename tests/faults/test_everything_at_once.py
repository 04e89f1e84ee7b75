"""Three machines, a real service and every fault at once, against a model that is a set of entries."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from atomic_agent.cache import sessions
from atomic_sessions.errors import ServiceUnreachableError
from faults.machines import Account, Member, session_id
from faults.proxy import Fault, FaultProxy, Kind, at_request
from faults.victim import Victim
from fuzz.cases import share
from service.running import RunningService

YEAR = 365 * 86_400_000
KINDS = [kind for kind in get_args(Kind) if kind not in {"foreign", "silence"}]
PORTAL = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/html\r\n\r\nplease login"


class Everything(RuleBasedStateMachine):
    """The rules are what people and lines do; what must hold at the end is in `teardown`."""

    service: RunningService
    proxy: FaultProxy
    victim: Victim

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.proxy.clear()
        self.account = Account(self.root, self.service, self.proxy, 3)
        self.names = [session_id(), session_id()]
        self.said: dict[str, set[str]] = {name: set() for name in self.names}
        self.deleted: set[str] = set()
        self.copies: dict[int, Path] = {}

    def node(self, who: int) -> Member:
        return self.account.nodes[who]

    @contextmanager
    def broken(self, fault: Fault, at: int) -> Iterator[None]:
        self.proxy.clear()
        self.proxy.plan = at_request(at, fault)
        try:
            yield
        except ServiceUnreachableError:
            pass
        self.proxy.clear()

    @rule(who=st.integers(0, 2), which=st.integers(0, 1), size=st.sampled_from([5, 5, 5, 300_000]))
    def say(self, who: int, which: int, size: int) -> None:
        name = self.names[which]
        if name not in self.deleted:
            self.said[name].add(self.node(who).say(f"{self.node(who).count} " + "x" * size, name))

    @rule(who=st.integers(0, 2))
    def sync(self, who: int) -> None:
        self.node(who).exchange()

    @rule(who=st.integers(0, 2), kind=st.sampled_from(KINDS), at=st.integers(1, 6))
    def sync_over_a_broken_line(self, who: int, kind: Kind, at: int) -> None:
        with self.broken(Fault(kind), at):
            self.node(who).exchange()

    @rule(who=st.integers(0, 2), at=st.integers(1, 6))
    def sync_at_a_hotel(self, who: int, at: int) -> None:
        with self.broken(Fault("foreign", PORTAL), at):
            self.node(who).exchange()

    @rule(who=st.integers(0, 2), at=st.integers(1, 120))
    def sync_killed(self, who: int, at: int) -> None:
        node = self.node(who)
        node.journal.close()
        self.victim.do(node.home, node.key, "sync", at)
        node.journal = node._open()

    @rule(who=st.integers(0, 2), by=st.sampled_from([1000, 60_000, -3_600_000, YEAR, -YEAR]))
    def turn_the_clock(self, who: int, by: int) -> None:
        self.node(who).clock = max(0, self.node(who).clock + by)

    @rule(who=st.integers(0, 2))
    def keep_a_copy(self, who: int) -> None:
        self.copies[who] = self.node(who).copied()

    @precondition(lambda self: bool(self.copies))
    @rule(data=st.data())
    def put_the_copy_back(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.copies)))
        self.node(who).exchange()
        self.node(who).put_back(self.copies[who])

    @rule(who=st.integers(0, 2), which=st.integers(0, 1))
    def delete(self, who: int, which: int) -> None:
        name = self.names[which]
        for row in sessions.listed(self.node(who).journal.cache):
            if row.id == name:
                self.node(who).delete(row)
                self.deleted.add(name)

    def teardown(self) -> None:
        if not hasattr(self, "account"):
            return
        self.proxy.clear()
        self.account.agree(repeated=bool(self.copies))
        lines = self.node(0).texts()
        for name, ids in self.said.items():
            for one in ids:
                there = any(f'"id": "{one}"'.encode() in raw for raw in lines)
                assert there is (name not in self.deleted), one
        self.account.close()
        shutil.rmtree(self.root)


def test_everything_at_once(proxied: tuple[RunningService, FaultProxy], victim: Victim) -> None:
    """Whatever happened, afterwards all machines show the same tree, holding every entry said in a session
    that nobody deleted, and nothing is refused, waits, or was sent twice."""
    Everything.service, Everything.proxy = proxied
    Everything.victim = victim
    run_state_machine_as_test(
        Everything,
        settings=settings(
            max_examples=share(0.02),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
