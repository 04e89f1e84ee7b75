"""I15, I16: deletions meet machines that were away, and machines that go on writing."""

import json
from pathlib import Path

import pytest

from agent.sync.account import SESSION, account
from atomic_agent.cache import outbox, sessions

OTHER = "01a22c81-7192-70af-aa13-000000000002"
TWO_YEARS = 2 * 365 * 86_400_000


def delete(node, session: str = SESSION) -> None:  # type: ignore[no-untyped-def]
    (row,) = [row for row in sessions.listed(node.journal.cache) if row.id == session]
    node.delete(row)


def ids(node) -> set[str]:  # type: ignore[no-untyped-def]
    return {row.id for row in sessions.listed(node.journal.cache)}


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_machine_offline_for_two_years(tmp_path: Path, *, rebuilt: bool) -> None:
    """I15: its own new entries arrive, what was deleted meanwhile stays deleted; also when the log it knew
    is gone (`cursor_gone`) and the service has to be refilled."""
    (present, away), log = account(tmp_path)
    present.say("will be deleted")
    present.say("stays", OTHER)
    for node in (present, away):
        node.sync(log)
    away.say("said offline, in the session that goes on", OTHER)
    away.say("said offline, in a session of its own", "01a22c81-7192-70af-aa13-000000000003")
    delete(present)
    present.say("goes on", OTHER)
    present.sync(log)
    log.clock += TWO_YEARS
    present.clock += TWO_YEARS
    away.clock += TWO_YEARS
    if rebuilt:
        log.lose_last(len(log.rows) - 1)
    done = away.sync(log)
    assert done.reset is rebuilt
    for node in (present, away, present, away):
        node.sync(log)
    assert present.state() == away.state()
    assert ids(present) == {OTHER, "01a22c81-7192-70af-aa13-000000000003"}
    texts = {json.loads(raw)["message"]["content"] for raw in present.texts()}
    assert texts == {
        "stays",
        "goes on",
        "said offline, in the session that goes on",
        "said offline, in a session of its own",
    }
    for node in (present, away):
        node.close()


@pytest.mark.parametrize("append_first", [False, True])
def test_a_deletion_and_an_append_at_once(tmp_path: Path, *, append_first: bool) -> None:
    """I16: whichever reaches the log first, the session is dead everywhere, and the machine that wrote to
    it is told so."""
    (deleter, appender), log = account(tmp_path)
    deleter.say("shared")
    for node in (deleter, appender):
        node.sync(log)
    appender.say("meanwhile")
    delete(deleter)
    order = [appender, deleter, appender] if append_first else [deleter, appender, deleter]
    told = [node.sync(log) for node in order]
    assert ids(deleter) == ids(appender) == set()
    assert deleter.texts() == appender.texts() == set()
    assert not outbox.waits(appender.journal.cache)
    of_appender = [done for done, node in zip(told, order, strict=True) if node is appender]
    if append_first:
        assert of_appender[-1].deleted == 1
    else:
        assert of_appender[0].dropped == 1
    for node in (deleter, appender):
        node.close()


def test_a_deletion_that_nobody_wins_against(tmp_path: Path) -> None:
    """I16: a session is deleted on two machines at once, and a third writes on; it stays dead."""
    nodes, log = account(tmp_path, 3)
    nodes[0].say("shared")
    for node in nodes:
        node.sync(log)
    delete(nodes[0])
    delete(nodes[1])
    nodes[2].say("meanwhile")
    for node in [*nodes, *nodes]:
        node.sync(log)
    assert [ids(node) for node in nodes] == [set()] * 3
    assert all(outbox.quarantined(node.journal.cache) == [] for node in nodes)
    for node in nodes:
        node.close()
