"""`atomic -p` and `atomic -c -p`: what is asked, printed and saved."""

import json
from pathlib import Path

import pytest

from agent.turns.machines import CANARY, Machine
from atomic_agent.cache import entries, leaf
from atomic_sessions.entry import Entry
from atomic_sessions.formats import pi
from atomic_sessions.formats.upgrade import read_header


def test_a_first_turn_makes_a_session(machine: Machine) -> None:
    """The answer alone is on stdout; the session is format 4 with model, prompt and answer, in this project."""
    ran = machine.atomic("-p", "hello")
    assert ran.code == 0
    assert ran.out == "Answer 1: 1 user, 0 assistant, 0 tool; you said: hello\n"
    (row,) = machine.rows()
    assert (row.agent, row.messages, row.first_message, row.cwd) == (
        "atomic",
        2,
        "hello",
        str(machine.project),
    )
    header = read_header(row.header)
    assert (header.version, header.id, header.cwd) == (4, row.id, row.cwd)
    views = [pi.view(raw) for raw in machine.lines(row)]
    assert [v.role or v.kind for v in views] == ["model_change", "user", "assistant"]
    assert [v.parent for v in views] == [None, views[0].id, views[1].id]
    assert views[2].model == views[0].model
    assert machine.count("turns") == machine.count("claims") == 0


def test_continue_sends_the_history(machine: Machine) -> None:
    """`-c` goes on with the newest session: the model is sent all before, and one chain grows."""
    machine.atomic("-p", "one")
    ran = machine.atomic("-c", "-p", "two")
    assert ran.out == "Answer 2: 2 user, 1 assistant, 0 tool; you said: two\n"
    sent = machine.provider.requests[-1].body["messages"]
    assert [m["content"] for m in sent][::2] == ["one", "two"]
    (row,) = machine.rows()
    assert row.messages == 4
    assert len(machine.lines(row)) == 5, "the model did not change, so no second model_change"


def test_continue_without_a_session_says_so(machine: Machine) -> None:
    """`-c` where nothing is makes a new session and says it."""
    ran = machine.atomic("-c", "-p", "hi")
    assert ran.code == 0
    assert "this is a new one" in ran.err


def test_continue_stays_in_its_project(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another project's session is not taken, though it is newer."""
    machine.atomic("-p", "here")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    machine.atomic("-p", "there")
    monkeypatch.chdir(machine.project)
    assert "2 user" in machine.atomic("-c", "-p", "again").out
    assert {row.messages for row in machine.rows()} == {2, 4}


def test_json_mode(machine: Machine) -> None:
    """One object a line: session, the deltas, the whole message, done; nothing else on stdout."""
    events = [json.loads(line) for line in machine.atomic("-p", "hello", "--mode", "json").out.splitlines()]
    assert [e["type"] for e in events if e["type"] != "delta"] == ["session", "message", "done"]
    deltas = [e["text"] for e in events if e["type"] == "delta"]
    assert len(deltas) > 1
    message = events[-2]
    assert "".join(deltas) == message["text"] == "Answer 1: 1 user, 0 assistant, 0 tool; you said: hello"
    assert (message["usage"]["input"], message["usage"]["output"]) == (101, 10)
    (row,) = machine.rows()
    assert events[0]["id"] == events[-1]["session"] == row.id
    assert events[-1]["leaf"] == message["id"] == row.newest_id


def test_the_prompt_from_standard_input(machine: Machine) -> None:
    """`-p -` and a pipe without -p read it; beside a prompt it is left alone, since a caller's pipe may stay
    open for ever; an empty prompt is a usage error."""
    assert "you said: from stdin" in machine.atomic("-p", "-", stdin="from stdin\n").out
    assert "you said: piped" in machine.atomic(stdin="piped\n").out
    empty = machine.atomic("-p", "-", stdin=" \n")
    assert (empty.code, empty.out) == (2, "")
    process = machine.start("-p", "look at", stdin=-1)
    assert process.stdin is not None
    assert process.wait(30) == 0
    process.stdin.close()
    process.stdin = None
    process.communicate()
    assert machine.provider.requests[-1].prompt == "look at"


def test_terminal_escapes_in_an_answer_are_taken_out(machine: Machine) -> None:
    """An answer cannot drive the terminal; what is saved stays as it came."""
    ran = machine.atomic("-p", "[[say: red \x1b[31m bell \x07 end]]")
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out
    (row,) = machine.rows()
    assert "\x1b[31m" in pi.view(machine.lines(row)[-1]).spoken()


def test_name_is_saved_with_the_turn(machine: Machine) -> None:
    """-n names a new session with its first turn and an old one at once."""
    machine.atomic("-n", "first name", "-p", "hi")
    assert machine.rows()[0].name == "first name"
    machine.atomic("-c", "-n", "second", "-p", "[[status: 401]]")
    assert machine.rows()[0].name == "second"
    assert "2 user" in machine.atomic("-c", "-p", "on").out


def test_session_and_its_prefix(machine: Machine) -> None:
    """--session takes the whole id or its first eight characters; nothing else, and no path."""
    machine.atomic("-p", "hi")
    (row,) = machine.rows()
    assert "2 user" in machine.atomic("--session", row.id[:8], "-p", "x").out
    assert "3 user" in machine.atomic("--session", row.id, "-p", "x").out
    unknown = machine.atomic("--session", row.id[:7], "-p", "x")
    assert unknown.code == 7
    assert "--import" in machine.atomic("--session", "/a/b.jsonl", "-p", "x").err


def test_session_id_opens_or_makes(machine: Machine) -> None:
    """--session-id makes a session with that id, and opens it the next time; a bad id is refused."""
    machine.atomic("--session-id", "notes", "-p", "one")
    assert "2 user" in machine.atomic("--session-id", "notes", "-p", "two").out
    (row,) = machine.rows()
    assert (row.id, row.scope) == ("notes", row.project)
    assert machine.atomic("--session-id", "a b", "-p", "x").code == 2


def test_fork_is_a_new_session(machine: Machine) -> None:
    """--fork copies the branch with its ids and bytes into a session of its own; the source stays as it was."""
    machine.atomic("-p", "one")
    (source,) = machine.rows()
    before = machine.lines(source)
    ran = machine.atomic("--fork", source.id, "-p", "two")
    assert "2 user" in ran.out
    assert "as a new session" in ran.err
    fork = next(row for row in machine.rows() if row.id != source.id)
    assert fork.parent == source.id
    assert read_header(fork.header).parent == source.id
    assert machine.lines(fork)[: len(before)] == before
    assert machine.lines(source) == before


def test_no_session_changes_no_file(machine: Machine) -> None:
    """--no-session answers and leaves no file changed or made, with a home and without one."""
    fresh = machine.atomic("--no-session", "-p", "hi")
    assert (fresh.code, "1 user" in fresh.out) == (0, True)
    assert not (machine.home / ".atomic").exists()
    machine.atomic("-p", "one")
    machine.env.pop("OPENAI_API_KEY")

    def files() -> dict[Path, tuple[int, bytes]]:
        found = (p for p in machine.home.rglob("*") if p.is_file())
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in found}

    before = files()
    assert machine.atomic("--no-session", "-p", "two").code == 0
    assert files() == before


@pytest.mark.parametrize(
    "flags",
    [
        ("-c", "--session", "x"),
        ("-r", "--fork", "x"),
        ("--session", "x", "--session-id", "y"),
        ("--no-session", "-c"),
        ("--no-session", "--fork", "x"),
        ("-n", " "),
        ("--resume-interrupted", "--drop-interrupted"),
        ("--import", "-", "-p", "-"),
    ],
)
def test_flags_that_exclude_each_other(machine: Machine, flags: tuple[str, ...]) -> None:
    """Two selectors, or a selector without a store, are one clear sentence and exit code 2."""
    ran = machine.atomic(*flags, *([] if "-p" in flags or "--resume-interrupted" in flags else ["-p", "hi"]))
    assert ran.code == 2
    assert machine.provider.requests == []


def test_a_clock_behind_does_not_hide_the_answer(machine: Machine) -> None:
    """A turn made where the person stands is the newest, though another branch holds a message whose clock ran
    four minutes ahead."""
    machine.atomic("-p", "one")
    (row,) = machine.rows()
    lines = machine.lines(row)
    with machine.journal() as journal:
        root, here = (str(pi.view(raw).id) for raw in (lines[0], lines[-1]))
        raw = lines[1].replace(b'"one"', b'"other"')
        ahead = Entry("0ther000", root, 9, row.newest_at + 240_000, raw)
        entries.insert(journal.cache, row.key, [(ahead, pi.view(raw))])
        leaf.move(journal.cache, row.key, here)
    assert "2 user" in machine.atomic("-c", "-p", "two").out
    assert "3 user" in machine.atomic("-c", "-p", "three").out


def test_the_key_is_in_no_output_and_no_file(machine: Machine) -> None:
    """Key and prompt are in no file in clear, and the key is in no output."""
    ran = machine.atomic("-p", "PROMPT-CANARY")
    assert CANARY not in ran.out + ran.err
    for path in machine.home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert CANARY.encode() not in content
            assert b"PROMPT-CANARY" not in content
