"""Codex's files: where they lie, forks, sub-agents, packed ones, and files that go on."""

import os
from pathlib import Path

import pytest
import zstandard

from agent.capture.files import Record, append, capture, exported, loaded, rows, text_of, the_row, write
from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.search import search
from atomic_agent.capture import run
from atomic_agent.publish.importing import read_file
from atomic_agent.publish.redacting import fit
from atomic_agent.stores.sqlite import SqliteStore
from atomic_agent.turns.derive import derive
from atomic_sessions.context import Settings
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats import codex

ID = "01a22c7e-f3ec-7c20-b047-8c8a507b4011"
FORK = "01a22c81-7de6-7882-b26e-caf0d4bd13a2"
SUB = "01a22c89-f565-7b90-8cc4-600ad556fddd"
NAME = f"rollout-2026-11-30T13-47-27-{ID}.jsonl"


def _line(number: int, kind: str, payload: Record) -> Record:
    return {"timestamp": f"2026-11-30T12:00:{number:02d}.000Z", "type": kind, "payload": payload}


def _meta(session: str = ID, **more: object) -> Record:
    payload = {"id": session, "cwd": "/home/dev/proj", "timestamp": "2026-11-30T11:59:59.000Z", **more}
    return _line(0, "session_meta", {**payload, "base_instructions": {"text": "You are Codex."}})


def _said(number: int, text: str) -> Record:
    role, kind = ("user", "input_text") if number % 2 else ("assistant", "output_text")
    content = [{"type": kind, "text": text}]
    return _line(number, "response_item", {"type": "message", "role": role, "content": content})


def _shown(number: int, text: str) -> Record:
    kind = "user_message" if number % 2 else "agent_message"
    return _line(number, "event_msg", {"type": kind, "message": text})


def _session() -> list[Record]:
    return [_meta(), _said(1, "the question"), _shown(1, "the question"), _said(2, "the answer")]


def _packed(path: Path, content: bytes) -> Path:
    """As Codex packs a cold file: in several frames, to be unpacked as one."""
    half = len(content) // 2
    pack = zstandard.ZstdCompressor()
    path.write_bytes(pack.compress(content[:half]) + pack.compress(content[half:]))
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_usual_places(cache: Cache, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dated folders, none, and the archive; an early single object is named and skipped."""
    folder = home / ".codex" / "sessions"
    write(folder / "2026" / "11" / "30" / NAME, *_session())
    write(folder / f"rollout-x-{SUB}.jsonl", _meta(SUB), _said(1, "no date"))
    write(home / ".codex" / "archived_sessions" / f"rollout-x-{FORK}.jsonl", _meta(FORK), _said(1, "old"))
    write(home / ".codex" / "history.jsonl", {"session_id": ID, "ts": 1, "text": "x"})
    (folder / "rollout-2025-04-16-x.json").write_text('{"session":{},"items":[]}')
    report = run.capture(cache, run.gather(["codex"], None), only=["codex"], now=1)
    assert set(rows(cache)) == {ID, SUB, FORK}
    assert report.agents == {"codex": 3}
    assert [skipped.why for skipped in report.skipped] == [
        "an early session of Codex in one JSON object, which is not read"
    ]
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    assert run.gather([], None) == []


def test_a_session(cache: Cache, tmp_path: Path) -> None:
    """Counted, found and named once, whatever its events repeat; out as it came in."""
    path = write(tmp_path / NAME, *_session())
    assert capture(cache, tmp_path).entries == 4
    row = the_row(cache)
    assert (row.id, row.agent, row.cwd, row.messages) == (ID, "codex", "/home/dev/proj", 2)
    assert row.first_message == "the question"
    assert len(list(search(cache, "question"))) == 1
    assert not list(search(cache, "Codex"))
    assert exported(cache) == path.read_bytes()
    append(path, _line(3, "event_msg", {"type": "thread_name_updated", "thread_name": "Named"}))
    assert capture(cache, tmp_path).entries == 1
    assert the_row(cache).name == "Named"


def test_it_goes_on_where_it_stopped(cache: Cache, tmp_path: Path) -> None:
    """Line by line, with unfinished ones between, it comes to what one look comes to."""
    content = text_of([*_session(), _said(3, "more"), _said(4, "more"), _said(3, "more")])
    path = tmp_path / NAME
    for cut in [*range(0, len(content), 97), len(content)]:
        path.write_bytes(content[:cut])
        os.utime(path, ns=(cut, cut))
        capture(cache, tmp_path)
    assert exported(cache) == content
    assert entries.ends(cache, the_row(cache).key) == 1
    assert the_row(cache).messages == 5
    assert capture(cache, tmp_path).unchanged == 1


def test_forks_and_sub_agents(cache: Cache, tmp_path: Path) -> None:
    """Sessions of their own that name where they come from; a repeated head changes nothing."""
    write(tmp_path / NAME, *_session())
    fork = write(
        tmp_path / f"rollout-x-{FORK}.jsonl", _meta(FORK, forked_from_id=ID), _meta(), _said(1, "other way")
    )
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": ID}}}
    write(tmp_path / f"rollout-x-{SUB}.jsonl", _meta(SUB, source=spawn), _said(1, "task"))
    capture(cache, tmp_path)
    found = rows(cache)
    assert (found[FORK].parent, found[FORK].internal) == (ID, False)
    assert (found[SUB].parent, found[SUB].internal) == (ID, True)
    assert SUB not in {row.id for row in sessions.listed(cache)}
    assert exported(cache, FORK) == fork.read_bytes()


def test_going_on_with_it(cache: Cache, tmp_path: Path) -> None:
    """From its last compaction, with its model, calls and results; instructions stay behind."""
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    write(
        tmp_path / NAME,
        _meta(model_provider="openai"),
        _line(0, "turn_context", {"model": "gpt-5", "cwd": "/home/dev/proj"}),
        _said(1, "forgotten"),
        _line(2, "compacted", {"message": "the summary"}),
        _said(3, "<environment_context>"),
        _said(3, "now this"),
        _line(4, "response_item", call),
        _line(5, "response_item", {"type": "function_call_output", "call_id": "c", "output": "done"}),
    )
    capture(cache, tmp_path)
    row = the_row(cache)
    history = loaded(cache, row)
    assert history.settings == Settings("openai", "gpt-5")
    made = b"\n".join(entry.raw for entry in derive(row.agent, row.id, history))
    assert all(text in made for text in (b"codex.summary", b"the summary", b"now this", b"shell", b"done"))
    assert not any(text in made for text in (b"forgotten", b"environment_context", b"You are Codex"))


def test_what_is_published(cache: Cache, tmp_path: Path) -> None:
    """What was said and done; of everything else only that there was something."""
    write(tmp_path / NAME, *_session(), _line(3, "turn_context", {"user_instructions": "PRIVATE"}))
    capture(cache, tmp_path)
    store = SqliteStore(cache)
    published = fit(store, store.open(the_row(cache).facts.key), 1)
    raws = b"\n".join(entry.raw for entry in published.bundle.entries)
    assert published.left_out == 3
    assert b"the question" in raws
    assert b"the answer" in raws
    assert b"You are Codex" not in raws
    assert b"PRIVATE" not in raws
    views = [codex.view(entry.raw) for entry in published.bundle.entries]
    assert [view.kind for view in views if view.counts] == ["message", "message"]


def test_machines_that_went_different_ways(cache: Cache, tmp_path: Path) -> None:
    """One session continued in two places keeps both ends; the newer one opens."""
    write(tmp_path / "a" / NAME, *_session(), _said(3, "here"))
    write(tmp_path / "b" / NAME, *_session(), _said(5, "there"))
    assert capture(cache, tmp_path).entries == 6
    last = leaf.leaf(cache, the_row(cache).key)
    opened = [
        stored.entry.raw for stored in entries.read(cache, the_row(cache).key) if stored.entry.id == last
    ]
    assert b"there" in opened[0]


def test_packed_files(cache: Cache, tmp_path: Path) -> None:
    """Read as they unpack; a plain file beside counts alone; moved, packed and packed anew add nothing twice."""
    content = text_of(_session())
    plain = tmp_path / NAME
    plain.write_bytes(content)
    packed = tmp_path / f"{NAME}.zst"
    packed.write_bytes(b"older and broken")
    report = capture(cache, tmp_path)
    assert (report.files, report.entries) == (1, 4)
    plain.unlink()
    _packed(packed, content)
    report = capture(cache, tmp_path)
    assert (report.unchanged, report.entries, report.rewritten) == (1, 0, 0)
    content += text_of([_said(3, "and more")])
    _packed(packed, content)
    report = capture(cache, tmp_path)
    assert (report.updated, report.entries, report.rewritten) == (1, 1, 0)
    assert capture(cache, tmp_path).unchanged == 1
    assert exported(cache) == content


def test_a_packed_file_alone(cache: Cache, tmp_path: Path) -> None:
    """Nothing else is needed."""
    content = text_of([*_session(), *(_said(n % 60, "x" * 5000) for n in range(1500))])
    _packed(tmp_path / f"{NAME}.zst", content)
    assert capture(cache, tmp_path).new == 1
    assert exported(cache) == content


@pytest.mark.parametrize("damage", [b"", b"no zstandard", b"\x28\xb5\x2f\xfd" + b"\xff" * 40])
def test_a_broken_packed_file(cache: Cache, tmp_path: Path, damage: bytes) -> None:
    """Skipped with the reason, and taken when it is whole."""
    packed = tmp_path / f"{NAME}.zst"
    packed.write_bytes(damage)
    report = capture(cache, tmp_path)
    assert len(report.skipped) == 1
    assert report.skipped[0].why in {"empty", "It is compressed and cannot be unpacked: the file is damaged."}
    _packed(packed, text_of(_session()))
    assert capture(cache, tmp_path).entries == 4


def test_a_packed_file_that_ends_early(cache: Cache, tmp_path: Path) -> None:
    """What can be unpacked comes in; the rest when it is there."""
    content = text_of([*_session(), *(_said(n % 60, os.urandom(3000).hex()) for n in range(200))])
    packed = _packed(tmp_path / f"{NAME}.zst", content)
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) * 3 // 4])
    assert 4 < capture(cache, tmp_path).entries < 204
    packed.write_bytes(whole)
    capture(cache, tmp_path)
    assert exported(cache) == content


def test_a_foreign_file_among_them(cache: Cache, home: Path) -> None:
    """What lies there under Codex's name and is none is left out with the reason."""
    write(home / ".codex" / "sessions" / NAME, {"hello": 1})
    report = run.capture(cache, run.gather([], None), only=[], now=1)
    assert [skipped.why for skipped in report.skipped] == ["not a session"]


def test_it_is_not_imported(tmp_path: Path) -> None:
    """`atomic --import` says how it comes in."""
    path = write(tmp_path / NAME, *_session())
    with pytest.raises(BadSessionFileError, match="captured, not imported") as refused:
        read_file(path, "/", lambda folder: folder)
    assert "atomic capture --from" in refused.value.mend
