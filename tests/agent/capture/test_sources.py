"""Which files are sessions, of whom, and what belongs to them."""

import os
from pathlib import Path

import pytest

from agent.capture.files import (
    PI_ID,
    SID,
    Record,
    append,
    capture,
    claude,
    exported,
    pi,
    pi_header,
    rows,
    text_of,
    the_row,
    write,
)
from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.capture import run, sources
from atomic_sessions.errors import UsageError
from atomic_sessions.formats.codex_log import history_of
from atomic_sessions.ids import SessionKey

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


def _sub(number: int, text: str, agent: str = "agent-a002f0d984363ee65", **more: object) -> Record:
    """A record of a sub-agent's own file: marked as side chain, under the parent's session id."""
    return {**claude(number, text), "isSidechain": True, "agentId": agent, **more}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with both agents' files where they keep them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    project = tmp_path / ".claude" / "projects" / "-home-dev-proj"
    write(project / f"{SID}.jsonl", claude(0, "to claude"), claude(1, "from claude"))
    write(project / SID / "subagents" / "agent-a1.jsonl", _sub(0, "task"), _sub(1, "done"))
    write(
        tmp_path / ".pi" / "agent" / "sessions" / "--home-dev-proj--" / f"2026_{PI_ID}.jsonl",
        pi_header(),
        pi(0, "to pi"),
    )
    return tmp_path


def test_the_usual_places(cache: Cache, home: Path) -> None:
    """Without arguments both agents' folders are looked through, with a name only that agent's."""
    report = run.capture(cache, run.gather([], None), only=[], now=1)
    assert set(rows(cache)) == {SID, f"{SID}/agent-a1", PI_ID}
    assert report.agents == {"claude-code": 2, "pi": 1}
    assert {s.agent for s in run.gather(["pi"], None)} == {"pi"}


def test_roots_can_be_moved(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents' own settings for their folders count."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "nowhere"))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(home / ".pi" / "agent"))
    assert {s.agent for s in run.gather([], None)} == {"pi"}


def test_unknown_agents_and_places(tmp_path: Path) -> None:
    """Both are usage errors that name what there is."""
    with pytest.raises(UsageError, match="not an agent") as refused:
        run.gather(["emacs"], None)
    assert "claude-code" in refused.value.mend
    with pytest.raises(UsageError, match="no such folder"):
        run.gather([], tmp_path / "nowhere")


def test_from_a_folder_and_from_a_file(cache: Cache, home: Path) -> None:
    """--from takes any agent's files below a folder, or one file; an agent's name leaves the others out."""
    capture(cache, home, only=["pi"])
    assert set(rows(cache)) == {PI_ID}
    report = capture(cache, home / ".claude" / "projects" / "-home-dev-proj" / f"{SID}.jsonl", only=["pi"])
    assert (report.files, report.skipped) == (0, [])
    capture(cache, home / ".claude" / "projects" / "-home-dev-proj" / f"{SID}.jsonl")
    assert set(rows(cache)) == {PI_ID, SID}
    capture(cache, home)
    assert set(rows(cache)) == {PI_ID, SID, f"{SID}/agent-a1"}


def test_the_usual_place_and_from_are_one(cache: Cache, home: Path) -> None:
    """A file found both ways is read once."""
    run.capture(cache, run.gather([], None), only=[], now=1)
    report = capture(cache, home)
    assert (report.unchanged, report.entries) == (3, 0)


@pytest.mark.parametrize("nested", [True, False])
def test_subagents(cache: Cache, tmp_path: Path, *, nested: bool) -> None:
    """A sub-agent's file, nested or flat, is an internal session below its parent and in no default list."""
    main = write(tmp_path / f"{SID}.jsonl", claude(0, "main question"), claude(1, "main answer"))
    name = "agent-a002f0d984363ee65"
    folder = tmp_path / SID / "subagents" if nested else tmp_path
    path = write(folder / f"{name}.jsonl", _sub(0, "sub task"), _sub(1, "sub answer"))
    capture(cache, tmp_path)
    assert set(rows(cache)) == {SID, f"{SID}/{name}"}
    row = rows(cache)[f"{SID}/{name}"]
    assert (row.internal, row.parent, row.messages, row.first_message) == (True, SID, 2, "sub task")
    assert [r.id for r in sessions.listed(cache)] == [SID]
    assert [r.id for r in sessions.children(cache, SessionKey("claude-code", SID), "")] == [row.id]
    assert exported(cache, row.id) == path.read_bytes()
    assert exported(cache, SID) == main.read_bytes()
    assert leaf.leaf(cache, row.key) == "00000001-0000-4000-8000-000000000000"


def test_subagents_of_workflows(cache: Cache, tmp_path: Path) -> None:
    """Files deeper below `subagents` belong to the same parent."""
    write(tmp_path / f"{SID}.jsonl", claude(0, "q"))
    write(tmp_path / SID / "subagents" / "workflows" / "w1" / "agent-b.jsonl", _sub(0, "deep"))
    capture(cache, tmp_path)
    assert set(rows(cache)) == {SID, f"{SID}/agent-b"}


def test_inline_side_chains_are_not_the_conversation(cache: Cache, tmp_path: Path) -> None:
    """Old sub-agent records inside the main file neither count nor open."""
    path = write(
        tmp_path / f"{SID}.jsonl",
        claude(0, "main question"),
        claude(1, "main answer"),
        claude(2, "side task", parent=None, isSidechain=True),
        claude(3, "side answer", isSidechain=True),
    )
    capture(cache, path)
    row = the_row(cache)
    assert row.messages == 2
    assert leaf.leaf(cache, row.key) == "00000001-0000-4000-8000-000000000000"
    assert exported(cache) == path.read_bytes()


def test_side_files_travel_with_their_session(cache: Cache, tmp_path: Path) -> None:
    """Spilled outputs and sub-agents' descriptions are kept whole, once, and again when they change."""
    main = write(tmp_path / f"{SID}.jsonl", claude(0, "q"))
    spilled = tmp_path / SID / "tool-results" / "b1.txt"
    spilled.parent.mkdir(parents=True)
    spilled.write_bytes(b"\x00\xffoutput")
    write(tmp_path / SID / "subagents" / "agent-a1.jsonl", _sub(0, "task"))
    meta = tmp_path / SID / "subagents" / "agent-a1.meta.json"
    meta.write_bytes(b'{"agentType":"x"}')
    assert capture(cache, tmp_path).entries == 4

    def sides(session: str) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for stored in entries.read(cache, rows(cache)[session].key):
            if stored.entry.file:
                found.setdefault(stored.entry.file, []).append(stored.entry.raw)
        return found

    assert sides(SID) == {"tool-results/b1.txt": [b"\x00\xffoutput"]}
    assert sides(f"{SID}/agent-a1") == {"agent-a1.meta.json": [b'{"agentType":"x"}']}
    assert exported(cache, SID) == main.read_bytes()
    assert capture(cache, tmp_path).entries == 0
    spilled.write_bytes(b"another output")
    assert capture(cache, tmp_path).entries == 1
    assert sorted(sides(SID)["tool-results/b1.txt"]) == [b"\x00\xffoutput", b"another output"]
    assert the_count(cache, SID) == 1


def the_count(cache: Cache, session: str) -> int:
    return rows(cache)[session].messages


def test_a_deleted_session_keeps_its_subagents_out(cache: Cache, tmp_path: Path) -> None:
    """A sub-agent's file that shows up after its session was deleted stays out too."""
    write(tmp_path / f"{SID}.jsonl", claude(0, "q"))
    capture(cache, tmp_path)
    with transaction(cache.connection):
        sessions.mark_deleted(cache, the_row(cache).key)
    write(tmp_path / SID / "subagents" / "agent-late.jsonl", _sub(0, "late task"))
    write(tmp_path / "agent-0a1b2c3d.jsonl", _sub(0, "late and flat"))
    report = capture(cache, tmp_path)
    assert (report.deleted, report.entries) == (3, 0)
    assert rows(cache) == {}


FOREIGN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "blank": (b"\n\n  \n", "empty"),
    "prose": (b"hello\nworld\n", "not a session"),
    "other-json": (b'{"a":1}\n{"b":2}\n', "not a session"),
    "noise": (bytes(range(256)) * 50, "not a session"),
    "codex": (b'{"type":"event_msg","payload":{"type":"task_started"}}\n', "part of a Codex session"),
    "copilot": (b'{"type":"session.start","data":{}}\n', "Copilot"),
    "gemini": (b'{"sessionId":"x","projectHash":"y"}\n', "Gemini"),
    "pi-4": (b'{"kind":"header","version":4,"id":"x"}\n', "another program"),
    "future": (text_of([pi_header(version=99)]), "format 99"),
    "no-number": (text_of([pi_header(version="new")]), "not a number"),
}


def test_what_is_no_session_is_skipped_with_the_reason(cache: Cache, tmp_path: Path) -> None:
    """Foreign, future, empty and unreadable files are named one by one and stop nothing."""
    for name, (content, _) in FOREIGN.items():
        (tmp_path / f"{name}.jsonl").write_bytes(content)
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    write(tmp_path / "z" / f"{SID}.jsonl", claude(0, "the good one"))
    report = capture(cache, tmp_path)
    why = {skipped.path.stem: skipped.why for skipped in report.skipped}
    assert set(why) == {*FOREIGN, "dangling"}
    for name, (_, words) in FOREIGN.items():
        assert words in why[name], (name, why[name])
    assert "No such file" in why["dangling"]
    assert set(rows(cache)) == {SID}


def test_a_folder_named_like_a_session(cache: Cache, home: Path) -> None:
    """What cannot be read at all is skipped with the system's words."""
    (home / ".claude" / "projects" / "-home-dev-proj" / "x.jsonl").mkdir()
    report = run.capture(cache, run.gather([], None), only=[], now=1)
    assert [skipped.why for skipped in report.skipped] == ["not a regular file"]
    assert len(rows(cache)) == 3


def test_names_that_are_no_text(cache: Cache, tmp_path: Path) -> None:
    """Files whose names are not UTF-8 come in like others, and are known again."""
    name = os.fsdecode(b"caf\xe9.jsonl")
    path = write(tmp_path / name, claude(0, "q"))
    assert capture(cache, tmp_path).new == 1
    assert "café" not in the_row(cache).id
    append(path, claude(1, "a"))
    assert capture(cache, tmp_path).entries == 1
    assert exported(cache) == path.read_bytes()


def test_progress_is_heard(cache: Cache, home: Path) -> None:
    """Files done, files in all and bytes read, rising to the end."""
    heard: list[tuple[int, int, int]] = []
    run.capture(cache, run.gather([], None), only=[], now=1, progress=lambda *at: heard.append(at))
    assert heard == sorted(heard)
    assert heard[-1][:2] == (3, 3)
    assert heard[-1][2] == sum(p.stat().st_size for p in home.rglob("*.jsonl"))


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="the real session files are not here")
def test_real_files(cache: Cache) -> None:
    """All real files: a second capture adds nothing, and what is in one file exports byte for byte."""
    found = list(sources.find_any(FIXTURES))
    run.capture(cache, found, only=[], now=1_796_043_907_321)
    again = run.capture(cache, found, only=[], now=1_796_043_999_999)
    assert (again.new, again.updated, again.entries, again.rewritten) == (0, 0, 0, 0)
    marks = cache.connection.execute("SELECT path, session FROM session_files").fetchall()
    of: dict[int, list[str]] = {}
    for path, session in marks:
        if path.endswith(".jsonl"):
            of.setdefault(session, []).append(path)
    checked = 0
    for session, paths in of.items():
        if len(paths) == 1:
            row = sessions.get(cache, session)
            content = Path(paths[0]).read_bytes()
            content += b"" if content.endswith(b"\n") else b"\n"
            whole = exported(cache, row.id)
            head, _, rest = content.partition(b"\n")
            if history_of(head) is not None:
                # What was said before a fork stands between its first line and its own.
                assert len(whole) > len(content)
                assert whole.startswith(head), paths[0]
                assert whole.endswith(rest), paths[0]
            else:
                assert whole == content, paths[0]
            checked += 1
    assert checked > 20
