"""The main job with real processes: capture, seal, sync, continue elsewhere, decide, share, delete."""

import json
import uuid

from atomic_agent.demo.provider import DemoProvider
from system.machines import Machine, MakeMachine, RunningService, claude_lines, pair, until


def test_a_captured_session_reaches_the_second_machine(laptop: Machine, desktop: Machine) -> None:
    """What one machine captured, the other lists and exports byte for byte."""
    session = str(uuid.uuid4())
    path = laptop.claude_file(
        session, claude_lines(session, str(laptop.folder), ["why slow?", "one join is missing"])
    )
    laptop.atomic("capture")
    laptop.atomic("sync")
    desktop.atomic("sync")
    assert laptop.sessions() == desktop.sessions()
    assert path.read_text() == desktop.tree(session)
    assert json.loads(desktop.atomic("sessions", "--json").out)["machines"] == ["laptop"]


def test_continue_on_the_other_machine_sends_the_whole_history(
    laptop: Machine, desktop: Machine, model: DemoProvider
) -> None:
    """`atomic -c -p` in the same project elsewhere goes on with the newest session, history included."""
    laptop.say("first question")
    assert "2 user, 1 assistant" in desktop.say("second question")
    assert "3 user, 2 assistant" in laptop.say("third question")
    desktop.atomic("sync")
    assert laptop.sessions() == desktop.sessions()
    (one,) = laptop.sessions()
    assert laptop.shown(one["id"]) == desktop.shown(one["id"])


def test_the_newest_message_decides_and_the_other_branch_stays(
    own_service: RunningService, machine: MakeMachine
) -> None:
    """Two machines go on apart: both open the branch of the newest message, and hold both branches."""
    laptop, desktop = machine("laptop"), machine("desktop")
    laptop.atomic("login", own_service.url, "--invite", "-", stdin=own_service.invite())
    pair(laptop, desktop, own_service.url)
    laptop.say("the common start")
    desktop.atomic("sync")
    own_service.stop()
    laptop.say("said apart on the laptop")
    desktop.say("said apart on the desktop, later")
    own_service.start()
    for one in (laptop, desktop, laptop):
        one.atomic("sync")
    (session,) = laptop.sessions()
    shown = laptop.shown(session["id"])
    assert shown == desktop.shown(session["id"])
    assert "apart on the desktop" in shown
    assert "apart on the laptop" not in shown
    assert laptop.tree(session["id"]) == desktop.tree(session["id"])
    assert "apart on the laptop" in desktop.tree(session["id"])


def test_a_deletion_reaches_every_machine_and_nothing_brings_it_back(
    laptop: Machine, desktop: Machine
) -> None:
    """A deleted session is gone on both machines, also when its file is captured again, also when the
    other machine still wrote to it."""
    session = str(uuid.uuid4())
    lines = claude_lines(session, str(laptop.folder), ["to be deleted", "yes"])
    laptop.claude_file(session, lines)
    desktop.claude_file(session, lines)
    laptop.atomic("capture")
    desktop.atomic("capture")
    laptop.atomic("sync")
    desktop.atomic("sync")
    assert "on all machines" in laptop.atomic("sessions", "delete", session, code=13).err
    laptop.atomic("sessions", "delete", session, "--yes")
    desktop.claude_file(
        session, claude_lines(session, str(laptop.folder), ["to be deleted", "yes", "more", "more"])
    )
    desktop.atomic("capture")
    desktop.atomic("sync")
    laptop.atomic("capture")
    laptop.atomic("sync")
    assert laptop.sessions() == desktop.sessions() == []
    assert "stay deleted" in laptop.atomic("capture").out or laptop.sessions() == []
    assert laptop.atomic("sessions", "--search", "deleted").out == "No session matches.\n"


def test_a_watching_machine_hears_of_a_turn_within_two_seconds(laptop: Machine, desktop: Machine) -> None:
    """Row C3: a turn finished here is listed there within 2 s while both are online."""
    watching = desktop.start("sync", "--watch")
    try:
        until(lambda: desktop.status()["last_sync"])
        laptop.say("a question that travels")
        until(lambda: "travels" in desktop.atomic("sessions", "--all").out, seconds=5.0)
    finally:
        watching.terminate()
        watching.communicate(timeout=20)


def test_a_large_entry_travels_as_an_object_of_its_own(laptop: Machine, desktop: Machine) -> None:
    """A line of some megabytes arrives byte for byte."""
    session = str(uuid.uuid4())
    big = "".join(f"row {n} of a long tool output; " for n in range(90_000))
    path = laptop.claude_file(session, claude_lines(session, str(laptop.folder), ["show it", big]))
    laptop.atomic("capture")
    laptop.atomic("sync")
    desktop.atomic("sync")
    assert path.read_text() == desktop.tree(session)


def test_search_finds_what_another_machine_said(laptop: Machine, desktop: Machine) -> None:
    """Row D6: what was pulled is indexed like what was captured, and found without the service."""
    laptop.say("the zanzibar question")
    desktop.atomic("sync")
    assert "zanzibar" in desktop.atomic("sessions", "--search", "zanzi").out


def test_a_cloned_cache_loses_nothing(laptop: Machine, desktop: Machine) -> None:
    """I05: a copied cache that writes too is given a writer of its own; both histories arrive."""
    laptop.say("before the copy")
    saved = {path: path.read_bytes() for path in laptop.cache.parent.iterdir() if path.is_file()}
    laptop.say("said by the original")
    for path in laptop.cache.parent.iterdir():
        path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)
        path.chmod(0o600)
    laptop.say("said by the restored copy")
    laptop.atomic("sync")
    desktop.atomic("sync")
    (session,) = desktop.sessions()
    tree = desktop.tree(session["id"])
    assert all(text in tree for text in ("before the copy", "by the original", "by the restored copy"))
    assert laptop.sessions() == desktop.sessions()
    assert not desktop.status()["refused_records"]
