"""kill -9 at any instant: a completed turn is never lost, half a turn is never in the session (A1)."""

import shutil
import signal
from pathlib import Path

from agent.turns.machines import Machine, until
from atomic_agent.cache import sessions, turns
from atomic_agent.locations import Home
from atomic_agent.stores.journal import open_journal
from atomic_agent.stores.sqlite import SqliteStore
from atomic_agent.turns import opening
from atomic_sessions.formats import pi


def kill_in_mid_stream(machine: Machine, *arguments: str) -> None:
    """Run a turn whose answer hangs after its first piece, and kill the process there."""
    machine.provider.hanging.clear()
    process = machine.start(*arguments)
    assert process.stdout is not None
    assert machine.provider.hanging.wait(20), process.communicate()
    # The first piece is on its stdout, so the kill comes in the middle of the answer.
    assert process.stdout.read(5)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_in_mid_stream_then_taken_up(machine: Machine) -> None:
    """The session is as before the turn; the next -p says that a turn waits and leaves it alone; taken up, it is
    asked again and then in the session once."""
    machine.atomic("-p", "first")
    kill_in_mid_stream(machine, "-c", "-p", "second [[hang]]")
    (row,) = machine.rows()
    assert row.messages == 2
    assert machine.count("turns") == 1
    ran = machine.atomic("-c", "-p", "third")
    assert "--resume-interrupted" in ran.err
    assert "2 user" in ran.out
    assert machine.count("turns") == 1
    machine.provider.released.set()
    ran = machine.atomic("-c", "--resume-interrupted")
    assert "3 user, 2 assistant, 0 tool; you said: second" in ran.out
    assert machine.rows()[0].messages == 6
    assert machine.count("turns") == machine.count("claims") == 0


def test_dropped(machine: Machine) -> None:
    """--drop-interrupted prints the prompt and goes on without it."""
    machine.atomic("-p", "first")
    kill_in_mid_stream(machine, "-c", "-p", "second [[hang]]")
    dropped = machine.atomic("-c", "--drop-interrupted", "-p", "third")
    assert "second [[hang]]" in dropped.err
    assert "2 user" in dropped.out
    assert machine.count("turns") == 0
    assert machine.atomic("-c", "--resume-interrupted").code == 7


def test_dropped_and_nothing_else(machine: Machine) -> None:
    """Without a prompt --drop-interrupted does just that."""
    machine.atomic("-p", "first")
    kill_in_mid_stream(machine, "-c", "-p", "second [[hang]]")
    dropped = machine.atomic("-c", "--drop-interrupted")
    assert (dropped.code, dropped.out) == (0, "")
    assert "second [[hang]]" in dropped.err
    assert machine.count("turns") == 0
    assert machine.rows()[0].messages == 2


def test_a_new_sessions_first_turn_killed(machine: Machine) -> None:
    """Killed in its first turn a session never came to be, and -c still takes the turn up under its id."""
    process = machine.start("-p", "only [[slow: 30]]")
    until(lambda: machine.provider.requests, "the request")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert machine.rows() == []
    with machine.journal() as journal:
        (waiting,) = turns.pending(journal.cache)
    machine.provider.released.set()
    ran = machine.atomic("-c", "--resume-interrupted")
    assert ran.code == 0, ran
    assert "you said: only" in ran.out
    (row,) = machine.rows()
    assert (row.id, row.messages) == (waiting.begun.facts.id, 2)
    assert machine.count("turns") == machine.count("claims") == 0


def test_interrupting_a_print_turn_rolls_back(machine: Machine) -> None:
    """Ctrl-C in -p leaves nothing in the session and nothing waiting, with exit code 130."""
    machine.atomic("-p", "first")
    process = machine.start("-c", "-p", "second [[hang]]")
    assert machine.provider.hanging.wait(20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert machine.rows()[0].messages == 2
    assert machine.count("turns") == machine.count("claims") == 0


# Makes one turn in each home it is given, with a provider in the process itself. Each is a child that is
# killed before its n-th SQL statement (none for 0); forked, since starting Python forty times takes long.
KILLED = """
import os, signal, sys
from pathlib import Path
from atomic_agent.cache.sessions import listed
from atomic_agent.locations import Home
from atomic_agent.stores.journal import open_journal
from atomic_agent.stores.sqlite import SqliteStore
from atomic_agent.turns import opening
from atomic_agent.turns.choice import Choice
from atomic_agent.turns.engine import Engine
from atomic_agent.turns.providers.port import Done, Endpoint, TextDelta
from atomic_sessions.entry import Text, Usage

NOW = 2_000_000_000_000
DOOR = False

def note(home, text):
    with open(home / "said", "a") as stream:
        stream.write(text + " ")

def turn(home, kill_at):
    at = 0
    def trace(statement):
        nonlocal at
        at += 1
        if at == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    def stream(request):
        note(home, "asked")
        yield TextDelta("an answer")
        yield Done((Text("an answer"),), Usage(1, 1), "stop", "m", "r")
    with open_journal(Home(home / ".atomic")) as journal:
        cache = journal.cache
        row = next(listed(cache))
        talk = opening.resume(SqliteStore(cache), row.facts.key, row.cwd, NOW)
        cache.connection.set_trace_callback(trace)
        talk.claim(NOW)
        if DOOR:
            talk.complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        endpoint = Endpoint("openai", "openai-chat", "", "", "", "")
        engine = Engine(talk, clock=lambda: NOW, tell=lambda _: None, patient=False, stream=stream)
        engine.run(Choice("openai", "m", "", endpoint), "the prompt")
        note(home, "completed")
        talk.close()
        note(home, str(at))

for home, kill_at in zip(sys.argv[1::2], sys.argv[2::2]):
    child = os.fork()
    if child == 0:
        turn(Path(home), int(kill_at))
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


def outcome(home: Path) -> str:
    """What the next open finds after a kill; asserts what must hold."""
    said = (home / "said").read_text() if (home / "said").exists() else ""
    with open_journal(Home(home / ".atomic")) as journal:
        cache = journal.cache
        store = SqliteStore(cache)
        settled = opening.settle(store)
        (row,) = sessions.listed(cache)
        waiting = opening.interrupted(store, row.facts.key, None)
        entries = cache.connection.execute("SELECT count(*) FROM session_entries").fetchone()[0]
    assert (row.messages, entries) in {(2, 3), (4, 6)}, "half a turn"
    if row.messages == 4:
        assert waiting == []
        return "settled" if settled else "entered"
    assert "completed" not in said, "a completed turn was lost"
    if "asked" in said:
        assert [turn.begun.prompt for turn in waiting] == ["the prompt"]
    return "waiting" if waiting else "nothing"


def test_killed_before_each_statement(machine: Machine, tmp_path: Path) -> None:
    """Before every single SQL statement of a turn: the session has all of it or nothing, and what was asked is
    either waiting or entered."""
    machine.atomic("-p", "first")

    def run(kills: list[int]) -> list[Path]:
        homes = [tmp_path / f"killed-{at}" for at in kills]
        for home in homes:
            shutil.copytree(machine.home, home)
        pairs = [text for home, at in zip(homes, kills, strict=True) for text in (str(home), str(at))]
        done = machine.script(KILLED, *pairs)
        ends = [0 if at == 0 else signal.SIGKILL for at in kills]
        assert [int(line) for line in done.stdout.split()] == ends, done.stderr
        return homes

    (whole,) = run([0])
    statements = int((whole / "said").read_text().split()[-1])
    assert 20 < statements < 120
    found = [outcome(home) for home in run(list(range(1, statements + 1)))]
    # In the order of the turn: each stage is reached, and none comes back.
    stages = ["nothing", "waiting", "settled", "entered"]
    assert sorted(found, key=stages.index) == found
    assert set(found) == set(stages)


def test_a_complete_answer_is_entered_by_the_next_command(machine: Machine) -> None:
    """An answer that was complete when the process died is entered by whatever turn comes next, and said."""
    machine.atomic("-p", "first")
    done = machine.script(KILLED.replace("DOOR = False", "DOOR = True"), str(machine.home), "0")
    assert int(done.stdout) == signal.SIGKILL, done.stderr
    assert (machine.rows()[0].messages, machine.count("turns")) == (2, 2)
    ran = machine.atomic("-c", "-p", "next")
    assert "complete when its program was killed has been saved" in ran.err
    (row,) = machine.rows()
    said = [view.spoken() for view in map(pi.view, machine.lines(row)) if view.decides]
    assert said[2:5] == ["the prompt", "an answer", "next"]
    assert machine.count("turns") == 0
