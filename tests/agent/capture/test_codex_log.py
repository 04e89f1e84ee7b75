"""Codex's logs speak of lines that stand elsewhere: turns taken back, and what was said before a fork."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.capture.files import Record, append, capture, exported, loaded, raw, rows, text_of, the_row, write
from atomic_agent.cache import entries, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.capture import follow, forks, placing, rollbacks
from atomic_sessions.entry import Entry

ID = "01a22c7e-f3ec-7c20-b047-8c8a507b4011"
FORK = "01a22c81-7de6-7882-b26e-caf0d4bd13a2"
DEEP = "01a22c89-f565-7b90-8cc4-600ad556fddd"


def _line(number: int, kind: str, payload: Record) -> Record:
    at = f"2026-11-30T12:{number // 60:02d}:{number % 60:02d}.000Z"
    return {"timestamp": at, "type": kind, "payload": payload}


def _meta(session: str = ID, number: int = 0, **more: object) -> Record:
    return _line(number, "session_meta", {"id": session, "cwd": "/home/dev/proj", **more})


def _turn(number: int, name: str, *, paginated: bool = True) -> list[Record]:
    """A turn as Codex writes it: its start, its settings, the prompt, an event, the answer, its end."""

    def said(role: str, kind: str, text: str) -> Record:
        content = [{"type": kind, "text": text}]
        return _line(number, "response_item", {"type": "message", "role": role, "content": content})

    found = [
        _line(number, "turn_context", {"model": f"model-{name}"}),
        said("user", "input_text", f"<environment_context>{name}</environment_context>"),
        said("user", "input_text", f"ask {name}"),
        _line(number, "event_msg", {"type": "user_message", "message": f"ask {name}"}),
        said("assistant", "output_text", f"say {name}"),
    ]
    if paginated:
        found.insert(0, _line(number, "event_msg", {"type": "task_started"}))
        found.append(_line(number, "event_msg", {"type": "task_complete"}))
    return found


def _back(number: int, turns: object) -> Record:
    return _line(number, "event_msg", {"type": "thread_rolled_back", "num_turns": turns})


def _open(cache: Cache, session: str) -> list[str]:
    """What is said on the branch that opens."""
    path = loaded(cache, rows(cache)[session], whole=True).path
    return [node.view.spoken() for node in path if node.view.decides]


def _file(folder: Path, session: str) -> Path:
    return folder / f"rollout-2026-11-30T13-47-27-{session}.jsonl"


@pytest.mark.parametrize("paginated", [True, False])
def test_turns_that_were_taken_back(cache: Cache, tmp_path: Path, *, paginated: bool) -> None:
    """Are not in the conversation that opens, also before anything new was said; they stay in the tree, and the
    settings they brought go with them."""
    path = write(
        _file(tmp_path, ID),
        _meta(),
        *itertools.chain(*(_turn(n, f"{n}", paginated=paginated) for n in (1, 2, 3))),
        _back(4, 2),
    )
    capture(cache, path)
    assert _open(cache, ID) == ["ask 1", "say 1"]
    assert loaded(cache, the_row(cache)).settings.model == ("model-1" if paginated else "model-2")
    append(path, *_turn(5, "5", paginated=paginated))
    capture(cache, path)
    assert _open(cache, ID) == ["ask 1", "say 1", "ask 5", "say 5"]
    assert exported(cache) == path.read_bytes()
    assert entries.ends(cache, the_row(cache).key) == 2
    append(path, _back(6, 1), _back(7, 1), *_turn(8, "8", paginated=paginated), _back(9, 0), _back(9, None))
    capture(cache, path)
    assert _open(cache, ID) == ["ask 8", "say 8"]
    append(path, _back(10, 99))
    capture(cache, path)
    assert _open(cache, ID) == []
    assert exported(cache) == path.read_bytes()


def test_taken_back_however_the_file_was_read(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one piece, line by line, in small batches or once more from the top: the same tree and the same end."""
    records = [
        _meta(),
        *_turn(1, "1"),
        *_turn(2, "2"),
        _back(3, 1),
        *_turn(4, "4"),
        _back(5, 2),
        *_turn(6, "6"),
    ]
    path = write(_file(tmp_path, ID), *records)
    capture(cache, path)
    tree = [(e.id, e.parent, e.pos) for e in map(_entry, entries.read(cache, the_row(cache).key))]
    for batch in (4000, 1, 3):
        monkeypatch.setattr(follow, "BATCH_LINES", batch)
        with transaction(cache.connection):
            for table in ("entries", "files", "sessions"):
                cache.connection.execute(f"DELETE FROM session_{table}")
        if batch == 1:
            path.write_bytes(b"")
            for record in records:
                append(path, record)
                capture(cache, path)
        else:
            capture(cache, path)
        assert [(e.id, e.parent, e.pos) for e in map(_entry, entries.read(cache, the_row(cache).key))] == tree
        assert _open(cache, ID) == ["ask 6", "say 6"]
    # Rewritten by its agent with the same lines: what was undone since is not undone again.
    monkeypatch.setattr(follow, "BATCH_LINES", 2)
    cache.connection.execute("UPDATE session_files SET check_hash = X'00', size = 0")
    assert capture(cache, path).rewritten == 1
    assert _open(cache, ID) == ["ask 6", "say 6"]
    append(path, *_turn(7, "7"))
    capture(cache, path)
    assert _open(cache, ID) == ["ask 6", "say 6", "ask 7", "say 7"]


def _entry(stored: entries.StoredEntry) -> Entry:
    return stored.entry


def _forked(
    folder: Path, session: str, parent: str, told: list[Record], number: int, *names: str
) -> tuple[Path, list[Record]]:
    """A fork as Codex 0.171 writes it: it points to the first lines of another rollout. Gives its file and the
    whole conversation's lines."""
    own_bytes = _file(folder, parent)
    base = {
        "thread_id": parent,
        "end_ordinal_exclusive": len(told),
        "end_byte_offset": own_bytes.stat().st_size if own_bytes.exists() else 0,
    }
    records = [_meta(session, number, forked_from_id=parent, history_base=base)]
    for at, name in enumerate(names, number):
        records += _turn(at, name)
    return write(_file(folder, session), *records), [*told, *records]


def test_a_fork_is_the_whole_conversation(cache: Cache, tmp_path: Path) -> None:
    """What was said before comes from the session it left, up to where it left it; its file is in it as it is."""
    told = [_meta(), *_turn(1, "1"), *_turn(2, "2")]
    parent = write(_file(tmp_path, ID), *told)
    fork, _ = _forked(tmp_path, FORK, ID, told, 10, "f")
    append(parent, *_turn(3, "after the fork"))
    report = capture(cache, tmp_path)
    assert report.lacking == []
    assert report.entries == (1 + 3 * 7) + (1 + 7) + len(told)
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask 2", "say 2", "ask f", "say f"]
    first, *rest = fork.read_bytes().splitlines(keepends=True)
    assert exported(cache, FORK) == first + text_of(told) + b"".join(rest)
    assert rows(cache)[FORK].first_message == "ask 1"
    assert rows(cache)[FORK].parent == ID
    assert exported(cache, ID) == parent.read_bytes()
    append(fork, *_turn(12, "g"))
    assert capture(cache, tmp_path).entries == 7
    assert _open(cache, FORK)[-2:] == ["ask g", "say g"]
    again = capture(cache, tmp_path)
    assert (again.entries, again.unchanged) == (0, 2)


def test_a_fork_without_anything_of_its_own(cache: Cache, tmp_path: Path) -> None:
    """Opens where it was made."""
    told = [_meta(), *_turn(1, "1")]
    write(_file(tmp_path, ID), *told)
    _forked(tmp_path, FORK, ID, told, 10)
    capture(cache, tmp_path)
    assert _open(cache, FORK) == ["ask 1", "say 1"]


def test_a_fork_whose_session_is_not_here(cache: Cache, tmp_path: Path) -> None:
    """Is named, shows what it has, and is made whole when the session appears, half or whole."""
    told = [_meta(), *_turn(1, "1"), *_turn(2, "2")]
    fork, _ = _forked(tmp_path, FORK, ID, told, 10, "f")
    for _ in range(2):
        report = capture(cache, tmp_path)
        assert [(one.session, one.parent) for one in report.lacking] == [(FORK, ID)]
        assert _open(cache, FORK) == ["ask f", "say f"]
    assert exported(cache, FORK) == fork.read_bytes()
    parent = write(_file(tmp_path, ID), *told[:5])
    assert len(capture(cache, tmp_path).lacking) == 1
    append(parent, *told[5:])
    append(fork, *_turn(12, "g"))
    assert capture(cache, tmp_path).lacking == []
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask 2", "say 2", "ask f", "say f", "ask g", "say g"]
    parent.unlink()
    fork.unlink()
    assert capture(cache, tmp_path).lacking == []


def test_the_order_they_come_in_does_not_matter(cache: Cache, tmp_path: Path) -> None:
    """A fork of a fork, its file first: the same entries as with the oldest first."""
    told = [_meta(), *_turn(1, "1")]
    paths = [write(_file(tmp_path, ID), *told)]
    fork, told = _forked(tmp_path, FORK, ID, told, 10, "f")
    deep, _ = _forked(tmp_path, DEEP, FORK, told, 20, "d")
    paths += [fork, deep]
    found = []
    for order in (paths, paths[::-1], [fork, deep, paths[0]]):
        with transaction(cache.connection):
            for table in ("entries", "files", "sessions"):
                cache.connection.execute(f"DELETE FROM session_{table}")
        for path in order:
            capture(cache, path)
        assert _open(cache, DEEP) == ["ask 1", "say 1", "ask f", "say f", "ask d", "say d"]
        found.append(
            {
                name: {(s.entry.id, s.entry.parent, s.entry.pos) for s in entries.read(cache, row.key)}
                for name, row in rows(cache).items()
            }
        )
    assert found[0] == found[1] == found[2]


def test_a_fork_of_a_session_that_went_two_ways(cache: Cache, tmp_path: Path) -> None:
    """Of two copies that went on apart, the one whose bytes the fork points into is what was said before it."""
    common = [_meta(), *_turn(1, "1")]
    here = [*common, *_turn(2, "here")]
    there = [*common, *_turn(3, "over there")]
    write(_file(tmp_path / "a", ID), *here)
    write(_file(tmp_path / "b", ID), *there)
    for folder, told, name in (("a", here, "here"), ("b", there, "over there")):
        _forked(tmp_path / folder, FORK if folder == "a" else DEEP, ID, told, 10, "f")
        capture(cache, tmp_path)
        session = FORK if folder == "a" else DEEP
        assert _open(cache, session) == ["ask 1", "say 1", f"ask {name}", f"say {name}", "ask f", "say f"]


def test_turns_taken_back_in_a_fork(cache: Cache, tmp_path: Path) -> None:
    """Also those of the session it left; and what was taken back before the fork stays so in it."""
    told = [_meta(), *_turn(1, "1"), *_turn(2, "2"), _back(3, 1), *_turn(4, "4")]
    write(_file(tmp_path, ID), *told)
    fork, _ = _forked(tmp_path, FORK, ID, told, 10, "f")
    capture(cache, tmp_path)
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask 4", "say 4", "ask f", "say f"]
    append(fork, _back(11, 2), *_turn(12, "g"))
    capture(cache, tmp_path)
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask g", "say g"]


def test_an_older_fork_and_an_export_of_a_new_one(cache: Cache, tmp_path: Path) -> None:
    """A history that is written out in the file is not looked for elsewhere."""
    told = [_meta(), *_turn(1, "1")]
    base = {"thread_id": ID, "end_ordinal_exclusive": len(told), "end_byte_offset": 1}
    old = write(
        _file(tmp_path, FORK), _meta(FORK, 10, forked_from_id=ID, history_base=base), *told, *_turn(10, "f")
    )
    assert capture(cache, tmp_path).lacking == []
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask f", "say f"]
    assert exported(cache, FORK) == old.read_bytes()
    assert [entry.pos for entry in map(_entry, entries.read(cache, rows(cache)[FORK].key))] == list(range(16))


def test_a_first_line_that_came_early(cache: Cache, tmp_path: Path) -> None:
    """A fork seen between its first line and the next, or in the middle of either, ends as the same."""
    told = [_meta(), *_turn(1, "1")]
    write(_file(tmp_path, ID), *told)
    fork, _ = _forked(tmp_path, FORK, ID, told, 10, "f")
    content = fork.read_bytes()
    first = content.index(b"\n")
    second = content.index(b"\n", first + 1)
    fork.write_bytes(b"")
    for at in (50, first, first + 1, first + 30, second, second + 1, len(content)):
        append(fork, content[fork.stat().st_size : at])
        capture(cache, tmp_path)
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask f", "say f"]
    lines = exported(cache, FORK).splitlines()
    assert lines == [content[:first], *map(raw, told), *content[first + 1 :].splitlines()]


def test_a_deleted_session_lends_nothing(cache: Cache, tmp_path: Path) -> None:
    """What a person deleted does not come back through a fork."""
    told = [_meta(), *_turn(1, "1")]
    write(_file(tmp_path, ID), *told)
    capture(cache, tmp_path)
    with transaction(cache.connection):
        sessions.mark_deleted(cache, the_row(cache).key)
    _forked(tmp_path, FORK, ID, told, 10, "f")
    assert [one.parent for one in capture(cache, tmp_path).lacking] == [ID]
    assert _open(cache, FORK) == ["ask f", "say f"]


def test_whole_forks_are_not_looked_at_again(cache: Cache, tmp_path: Path) -> None:
    """A watch asks after each change of a Codex session; what has its beginning, or needs none, is remembered."""
    told = [_meta(), *_turn(1, "1")]
    _forked(tmp_path, FORK, ID, told, 10, "f")
    write(_file(tmp_path, DEEP), _meta(DEEP, 20, forked_from_id=ID), *_turn(21, "old"))
    capture(cache, tmp_path)
    whole: set[int] = set()
    assert [one.session for one in forks.complete(cache, whole=whole)] == [FORK]
    assert whole == {rows(cache)[DEEP].key}
    write(_file(tmp_path, ID), *told)
    capture(cache, _file(tmp_path, ID))
    assert forks.complete(cache, whole=whole) == []
    assert whole == {rows(cache)[name].key for name in (DEEP, FORK)}
    asked: list[str] = []
    cache.connection.set_trace_callback(asked.append)
    assert forks.complete(cache, whole=whole) == []
    cache.connection.set_trace_callback(None)
    assert len(asked) == 1


def test_killed_while_a_line_is_given_its_place(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before it is in the cache then, and the line itself is read again as the same one."""
    told = [_meta(), *_turn(1, "1"), *_turn(2, "2"), _back(3, 1), *_turn(4, "4")]
    write(_file(tmp_path, ID), *told)
    fork, _ = _forked(tmp_path, FORK, ID, told, 10, "f")
    append(fork, _back(11, 2), *_turn(12, "g"))

    class KilledError(Exception):
        pass

    real_place, real_fill = rollbacks.kept_above, forks.fill
    kills = [0, 0]

    def killing(number: int, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            kills[number] += 1
            if kills[number] % 2:
                raise KilledError
            return real(*arguments)

        return call

    monkeypatch.setattr(placing, "kept_above", killing(0, real_place))
    monkeypatch.setattr(forks, "fill", killing(1, real_fill))
    for _ in range(3):
        with pytest.raises(KilledError):
            capture(cache, tmp_path)
    capture(cache, tmp_path)
    assert kills == [4, 2]
    assert exported(cache, ID) == text_of(told)
    first, *rest = fork.read_bytes().splitlines(keepends=True)
    assert exported(cache, FORK) == first + text_of(told) + b"".join(rest)
    assert _open(cache, FORK) == ["ask 1", "say 1", "ask g", "say g"]
