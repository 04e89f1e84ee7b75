"""One writer at a time, and what happens when there are two."""

import os
import signal
import subprocess
import sys

import msgspec

from agent.turns.machines import Machine, until
from atomic_agent.cache import claims
from atomic_sessions.formats import pi

NOW = 1_796_043_907_321


def test_a_second_writer_is_refused(machine: Machine) -> None:
    """While a process writes a session another -p gets one sentence with its pid and exit code 14; a third can
    go on in a fork."""
    machine.atomic("-p", "first")
    (row,) = machine.rows()
    process = machine.start("-c", "-p", "second [[hang]]")
    assert machine.provider.hanging.wait(20)
    ran = machine.atomic("-c", "-p", "third")
    assert ran.code == 14
    assert str(process.pid) in ran.err
    assert "--fork" in ran.err
    assert machine.atomic("--fork", row.id, "-p", "third").code == 0
    process.kill()
    process.communicate()
    assert "--resume-interrupted" in machine.atomic("--session", row.id, "-p", "fourth").err, (
        "a stale claim is taken"
    )


def test_taking_over_keeps_both_branches(machine: Machine) -> None:
    """Two writers end in one tree with two branches, both answers there, and the newest message opens."""
    machine.atomic("-p", "first")
    (row,) = machine.rows()
    process = machine.start("-c", "-p", "slow one [[slow: 0.4]]")
    until(lambda: len(machine.provider.requests) == 2, "the slow request")
    assert machine.atomic("-c", "--take-over", "-p", "quick one").code == 0
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "2 user" in out
    views = [pi.view(raw) for raw in machine.lines(row)]
    said = {view.spoken().partition(" [[")[0]: view for view in views if view.role == "user"}
    assert said["slow one"].parent == said["quick one"].parent
    assert machine.rows()[0].messages == 6
    assert "quick" not in machine.atomic("-c", "-p", "next").out
    history = [m["content"] for m in machine.provider.requests[-1].body["messages"]]
    assert "slow one [[slow: 0.4]]" in history, "its answer came last"


def test_who_is_alive(machine: Machine) -> None:
    """A claim holds while its process lives; a later process with the same number does not inherit it; of
    another machine nobody can tell."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    me = claims.myself()
    other = claims.Process(me.host, child.pid, claims.started(child.pid))
    with machine.journal() as journal:
        assert claims.take(journal.cache, "a//s", 0, other, NOW) is None
        held = claims.take(journal.cache, "a//s", 0, me, NOW + 1)
        assert held == claims.Claim("a//s", other, NOW)
        assert claims.take(journal.cache, "a//s", 0, me, NOW + 2, force=True) is None
        assert claims.take(journal.cache, "a//s", 0, other, NOW + 3) is not None
        claims.release(journal.cache, "a//s", other)
        assert claims.holder(journal.cache, "a//s", other) is not None, "nobody gives back another's claim"
    reused = msgspec.structs.replace(other, started="1")
    assert claims.alive(other, me.host)
    assert not claims.alive(reused, me.host)
    assert claims.alive(msgspec.structs.replace(other, host="elsewhere"), me.host)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert not claims.alive(other, me.host)


def test_dead_claims_are_swept(machine: Machine) -> None:
    """A killed process leaves no claim for ever."""
    gone = claims.Process(claims.myself().host, 2**22 + 5, "1")
    with machine.journal() as journal:
        claims.take(journal.cache, "a//s", 0, gone, NOW)
    machine.atomic("-p", "hi")
    assert machine.count("claims") == 0
