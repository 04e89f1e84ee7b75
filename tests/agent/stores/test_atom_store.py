"""An Atom file as a store: one session and its open branch, and nothing that was there is ever lost."""

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.stores.port.children import Counter, ended, forked, living, status
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, OTHER, UUID, facts, ids, made, message, turn
from atomic_agent.cache.turns import Answered, Begun
from atomic_agent.stores import atom_record, marks
from atomic_agent.stores.atom import AtomStore
from atomic_agent.stores.port import branch
from atomic_sessions import compose
from atomic_sessions.context import Settings
from atomic_sessions.entry import Entry, Text, Usage
from atomic_sessions.errors import (
    CacheRefusedError,
    NotFoundError,
    SessionExistsError,
    StoreUnavailableError,
    StoreWriteError,
    UnsupportedError,
)
from atomic_sessions.ids import SessionKey

KEY = SessionKey("atomic", UUID)
CHANGING = ("open", "write", "fsync", "replace", "unlink", "link", "rename", "ftruncate", "chmod", "mkdir")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".atom" / "session.json"


def _open(path: Path) -> AtomStore:
    return AtomStore(path, lambda: NOW)


def _file(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def _said(path: Path) -> list[str]:
    return [one["content"] for one in _file(path)["history"]]


def _answer(identity: str, parent: str, text: str, *, at: int = NOW, tokens: int = 10) -> Entry:
    used = Usage(tokens, 2 * tokens, 3, 4, 0.5)
    said = compose.assistant(at, [Text(text)], provider="zen", model="big", usage=used, stop="stop")
    return Entry(identity, parent, 0, at, compose.message(identity, parent, at, said))


def _theirs(path: Path, *texts: str) -> None:
    """What another program leaves there."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    history = [{"role": "user" if n % 2 == 0 else "assistant", "content": t} for n, t in enumerate(texts)]
    path.write_bytes(json.dumps({"version": 1, "history": history, "theme": "dark"}).encode())
    path.chmod(0o600)


def _names(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir() if not one.name.startswith("."))


def test_opening_writes_nothing(path: Path) -> None:
    """A store that was only looked at leaves no file and no folder."""
    store = _open(path)
    assert store.get(KEY) is None
    assert list(store.listed(limit=1)) == []
    assert (store.notice, store.notices(), store.pending()) == ("", (), [])
    store.release(KEY)
    store.drop("t")
    assert not path.parent.exists()


def test_the_file_has_the_one_shape(path: Path) -> None:
    """Version, picks, mode, totals, history and turns, and no member of ours."""
    store = _open(path)
    opening = [
        Entry("m", None, 0, NOW, compose.model_change("m", None, NOW, "zen", "big")),
        Entry("t", "m", 0, NOW, compose.thinking_level_change("t", "m", NOW, "high")),
        message("u", "t", "hello"),
        _answer("a", "u", "hi"),
    ]
    store.create(facts(store), opening)
    value = _file(path)
    assert list(value) == [
        "version", "savedAt", "provider", "model", "effort", "mode", "usageTotals", "history", "turns",
    ]  # fmt: skip
    assert (value["provider"], value["model"], value["effort"], value["mode"]) == (
        "zen", "big", "high", "normal",
    )  # fmt: skip
    assert value["history"] == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    assert value["turns"] == [{"role": "user", "text": "hello"}, {"role": "assistant", "text": "hi"}]
    assert store.picks == Settings("zen", "big", "high")


def test_a_session_keeps_its_name_ids_and_times(path: Path) -> None:
    """Another opening has the same session: id, folder, entries, times, also lines the file has no place for."""
    store = _open(path)
    key = made(store, turns=3)
    marks.rename(store, key, "named", NOW + 9000)
    model = Entry(
        "mc", store.leaf(key), 0, NOW + 9001, compose.model_change("mc", store.leaf(key), NOW, "p", "m2")
    )
    store.append(key, [model, *turn(4, "mc")])
    other = _open(path)
    assert other.open(key) == store.open(key)
    assert other.find(UUID[:8], "").facts == facts(store)
    assert other.open(key).name == "named"
    assert [(e.id, e.parent, e.pos, e.stamp) for e in other.read(key)] == [
        (e.id, e.parent, e.pos, e.stamp) for e in store.read(key)
    ]
    assert other.leaf(key) == "a4.1"
    assert other.picks == Settings("p", "m2")
    for entry in other.read(key):
        assert json.loads(entry.raw)["id"] == entry.id
        assert json.loads(entry.raw)["parentId"] == entry.parent
    other.append(key, turn(5, "a4.1"))
    assert ids(list(store.read(key)))[-2:] == ["u5", "a5.1"]
    assert ids(branch(store, key, "u1")) == ["u0", "a0.1", "u1"]
    assert store.ends(key) == 1


def test_totals_grow(path: Path) -> None:
    """Each answer's use is added to what the file had, in this process and in the next; a new session begins at 0."""
    store = _open(path)
    key = store.create(facts(store), [message("u", None, "hello"), _answer("a", "u", "hi")]).key
    again = _open(path)
    again.append(key, [message("u2", "a", "more"), _answer("a2", "u2", "yes", tokens=5)])
    assert again.usage == _open(path).usage == store.usage == Usage(15, 30, 6, 8, 1.0)
    again.append(key, [message("u2", "a", "more"), _answer("a2", "u2", "yes", tokens=5)])
    assert again.usage == Usage(15, 30, 6, 8, 1.0)
    again.create(facts(store, OTHER), [message("u", None, "x"), _answer("a", "u", "y", tokens=1)])
    assert _file(path)["usageTotals"]["input"] == 1


def test_a_compaction_holds(path: Path) -> None:
    """After one the file has what a model is sent, once; ids behind it stay, and a turn goes on from it."""
    store = _open(path)
    key = made(store, turns=2)
    marks.rename(store, key, "named", NOW)
    above = store.leaf(key)
    kept = {
        "summary": "S",
        "firstKeptEntryId": "u1",
        "tokensBefore": 9,
        "details": {"strategy": "verbatim-lines"},
    }
    store.append(
        key, [Entry("c", above, 0, NOW + 5000, compose.entry("compaction", "c", above, NOW, **kept))]
    )
    store.append(key, turn(3, "c"))
    first, *rest = _said(path)
    assert "S" in first
    assert "prompt 1" in first
    assert rest == ["prompt 3", "answer 3 1"]
    again = _open(path)
    assert ids(list(again.read(key)))[-3:] == ["c", "u3", "a3.1"]
    assert again.open(key).name == "named"
    again.append(key, turn(4, "a3.1"))
    assert _said(path) == [first, *rest, "prompt 4", "answer 4 1"]


REFUSED: list[tuple[str, Callable[[AtomStore], object]]] = [
    ("list", lambda s: s.listed()),
    ("page", lambda s: s.listed(limit=1, offset=1)),
    ("search", lambda s: s.search("prompt")),
    ("move", lambda s: s.move(KEY, "u0")),
    ("move away", lambda s: s.move(KEY, None)),
    ("branch", lambda s: s.append(KEY, turn(7, "u0"))),
    ("root", lambda s: s.append(KEY, turn(7, None))),
    ("unknown parent", lambda s: s.append(KEY, turn(7, "nobody"))),
    ("late branch", lambda s: s.append(KEY, [*turn(7, "a1.1"), message("x", "u7", "x")])),
    ("label", lambda s: marks.label(s, KEY, "u0", "x", NOW)),
    ("loose", lambda s: s.append(KEY, [Entry("l", None, 0, NOW, b"no json", loose=True)])),
    ("clash", lambda s: s.append(KEY, [message("u0", None, "other")])),
    ("tree", lambda s: s.create(facts(s, OTHER), [*turn(0, None), *turn(1, "u0")])),
    ("empty", lambda s: s.create(facts(s, OTHER))),
    ("other agent", lambda s: s.create(replace(facts(s), agent="codex"), turn(0, None))),
]


@pytest.mark.parametrize("call", [call for _, call in REFUSED], ids=[name for name, _ in REFUSED])
def test_what_it_cannot_hold(path: Path, call: Callable[[AtomStore], object]) -> None:
    """A typed error with a sentence and a mend, and nothing is changed."""
    store = _open(path)
    made(store, turns=2)
    before, seen = path.read_bytes(), _names(path)
    with pytest.raises(UnsupportedError) as caught:
        call(store)
    assert caught.value.message.startswith("An Atom file holds")
    assert caught.value.mend
    assert (path.read_bytes(), _names(path)) == (before, seen)
    assert ids(list(store.read(KEY))) == ["u0", "a0.1", "u1", "a1.1"]


def test_where_it_stands_is_no_move(path: Path) -> None:
    """Going to the leaf is allowed, and one for whom the session is not there is told so."""
    store = _open(path)
    store.move(made(store), "a0.1")
    with pytest.raises(NotFoundError):
        store.move(SessionKey("atomic", OTHER), None)


def test_the_newest_is_the_one(path: Path) -> None:
    """What --continue asks is answered from every folder; an internal one only when it is asked for."""
    store = _open(path)
    key = made(store)
    for project in (None, store.project_of(HERE), store.project_of("/elsewhere")):
        assert [row.key for row in store.listed(project=project, limit=1)] == [key]
    assert store.called(list(store.listed(limit=1))) == [UUID[:8]]
    store.create(facts(store, OTHER, internal=True), turn(0, None))
    assert list(store.listed(limit=1)) == []
    assert len(list(store.listed(limit=1, internal=True))) == 1


def test_a_new_conversation_keeps_the_former(path: Path) -> None:
    """Each one that is replaced lies beside the file under a name of its own, private, and is named once."""
    store = _open(path)
    made(store)
    first = path.read_bytes()
    store.create(facts(store, OTHER), turn(1, None))
    second = path.read_bytes()
    (notice,) = store.notices()
    assert "kept as session.json.former" in notice
    assert store.notices() == ()
    assert store.get(KEY) is None
    _open(path).create(facts(store, "third"), turn(2, None))
    assert path.with_name("session.json.former").read_bytes() == first
    assert path.with_name("session.json.former-2").read_bytes() == second
    assert stat.S_IMODE(path.with_name("session.json.former").stat().st_mode) == 0o600
    assert _said(path)[0] == "prompt 2"


def test_an_id_that_is_there_is_not_replaced(path: Path) -> None:
    """Neither by the store that made it nor by another opening."""
    store = _open(path)
    made(store)
    before = path.read_bytes()
    for one in (store, _open(path)):
        with pytest.raises(SessionExistsError):
            one.create(facts(one), turn(3, None))
    assert path.read_bytes() == before


def test_another_programs_file(path: Path) -> None:
    """It is a session with an id that stays while the conversation grows, in no folder; its members stay."""
    _theirs(path, "hello", "hi")
    store = _open(path)
    (row,) = store.listed(limit=1)
    assert (row.facts.cwd, row.facts.project, row.messages) == ("", "", 2)
    before = ids(list(store.read(row.key)))
    store.append(row.key, [message("u", store.leaf(row.key), "more"), _answer("a", "u", "yes")])
    again = _open(path)
    assert ids(list(again.read(row.key))) == [*before, "u", "a"]
    assert _file(path)["theme"] == "dark"
    value = _file(path)
    value["history"] += [
        {"role": "user", "content": "theirs"},
        {"role": "assistant", "content": "theirs too"},
    ]
    path.write_text(json.dumps(value))
    assert ids(list(again.read(row.key)))[:4] == [*before, "u", "a"]
    assert again.open(row.key).messages == 6
    assert again.find(row.facts.id[:8], "").key == row.key


def test_what_another_program_put_there_meanwhile(path: Path) -> None:
    """Ours goes on whole in its place; theirs is kept beside it. A damaged one too, and once."""
    store = _open(path)
    key = made(store)
    _theirs(path, "other", "thing")
    assert store.leaf(key) == "a0.1"
    store.append(key, turn(1, "a0.1"))
    assert _said(path) == ["prompt 0", "answer 0 1", "prompt 1", "answer 1 1"]
    assert _said(path.with_name("session.json.other")) == ["other", "thing"]
    path.write_bytes(b"{")
    store.append(key, turn(2, "a1.1"))
    assert len(_said(path)) == 6
    assert _names(path) == ["session.json", "session.json.corrupt", "session.json.other"]
    assert len(store.notices()) == 2


def test_another_writer_went_on_with_it(path: Path) -> None:
    """The turn of who had it open is saved, on the branch it was made on; the other's lie beside it."""
    key = made(_open(path))
    mine, other = _open(path), _open(path)
    leaf = mine.open(key).newest_id
    mine.claim(key, NOW)
    other.open(key)
    other.append(key, turn(5, leaf))
    mine.append(key, turn(1, leaf))
    assert _said(path) == ["prompt 0", "answer 0 1", "prompt 1", "answer 1 1"]
    assert _said(path.with_name("session.json.other")) == ["prompt 0", "answer 0 1", "prompt 5", "answer 5 1"]
    assert len(mine.notices()) == 1
    for from_nowhere in (mine, other):
        with pytest.raises(UnsupportedError):
            from_nowhere.append(key, turn(2, "nowhere"))


def test_a_corrupt_file(path: Path) -> None:
    """One line to say, a fresh start, and the bad file is kept aside before the first save, not before."""
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b'{"version":1,"history":[{"role":"user","content":"sk-secret')
    store = _open(path)
    assert "is corrupt" in store.notice
    assert "\n" not in store.notice
    assert "sk-secret" not in store.notice + repr(store)
    assert list(store.listed(limit=1)) == []
    store.begin("t", None, Begun(facts(store), "p", NOW, turn(0, None)[:1]))
    assert _names(path) == ["session.json"]
    made(store)
    assert _names(path) == ["session.json", "session.json.corrupt"]
    assert "session.json.corrupt" in store.notices()[0]
    assert _open(path).notice == ""


def test_deleted(path: Path) -> None:
    """The conversation and what is in flight for it are gone from the file and from beside it; picks stay."""
    store = _open(path)
    key = store.create(facts(store), [message("u", None, "hello"), _answer("a", "u", "secret thing")]).key
    marks.rename(store, key, "secret name", NOW)
    store.begin("t1", key, Begun(facts(store), "p", NOW, []))
    store.begin("t2", None, Begun(facts(store, OTHER), "p", NOW, []))
    other = _open(path)
    store.delete(key)
    assert [flight.turn for flight in other.pending()] == ["t2"]
    assert other.get(key) is None
    gone: tuple[Callable[[], object], ...] = (
        lambda: store.append(key, turn(1, "a")),
        lambda: store.delete(key),
        lambda: store.leaf(key),
    )
    for call in gone:
        with pytest.raises(NotFoundError):
            call()
    assert store.picks == Settings("zen", "big")
    everything = b"".join(one.read_bytes() for one in path.parent.rglob("*") if one.is_file())
    assert b"secret" not in everything
    assert not atom_record.path(path).exists()
    made(store)


def test_an_exit_saves_the_picks(path: Path) -> None:
    """The conversation stays as it was, in this opening with all that it knows of it; without one there is none."""
    store = _open(path)
    store.save_picks(Settings("openai", "m", "low"))
    assert list(store.listed(limit=1)) == []
    assert store.picks == Settings("openai", "m", "low")
    key = store.create(facts(store), [message("u", None, "hello"), _answer("a", "u", "hi")]).key
    lines = [entry.raw for entry in store.read(key)]
    store.save_picks(Settings("openai", "m3", "high"))
    assert [entry.raw for entry in store.read(key)] == lines
    assert _open(path).picks == Settings("openai", "m3", "high")
    assert _open(path).open(key).messages == 2
    assert _names(path) == ["session.json"]


def test_private(path: Path) -> None:
    """All files 0600 and all folders 0700 whatever the umask, also those beside the file."""
    before = os.umask(0)
    try:
        store = _open(path)
        store.claim(KEY, NOW)
        store.begin("t", None, Begun(facts(store), "p", NOW, []))
        made(store)
    finally:
        os.umask(before)
    found = {one: stat.S_IMODE(one.stat().st_mode) for one in path.parent.rglob("*")}
    assert len(found) >= 6
    assert {mode for one, mode in found.items() if one.is_file()} == {0o600}
    assert {mode for one, mode in found.items() if one.is_dir()} == {0o700}


def test_what_is_not_opened(tmp_path: Path) -> None:
    """A link, wherever it leads, and a folder that others can write to."""
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreUnavailableError, match="symbolic link"):
        _open(tmp_path / "link.json")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CacheRefusedError, match="Others can write"):
        _open(tmp_path / "open" / "session.json")
    store = _open(tmp_path / "later" / "session.json")
    (tmp_path / "later").mkdir()
    (tmp_path / "later").chmod(0o777)
    refused: tuple[Callable[[], object], ...] = (
        lambda: made(store),
        lambda: store.claim(KEY, NOW),
        lambda: store.save_picks(Settings()),
    )
    for call in refused:
        with pytest.raises(CacheRefusedError):
            call()
    assert list((tmp_path / "later").iterdir()) == []


def test_nothing_is_written_through_a_link(path: Path, tmp_path: Path) -> None:
    """One that took the file's place while the store was open: no call replaces it or what it leads to."""
    store = _open(path)
    key = made(store)
    before = path.read_bytes()
    path.rename(tmp_path / "target.json")
    path.symlink_to(tmp_path / "target.json")
    refused: tuple[Callable[[], object], ...] = (
        lambda: store.append(key, turn(1, "a0.1")),
        lambda: store.delete(key),
        lambda: store.save_picks(Settings("p", "m")),
    )
    for call in refused:
        with pytest.raises(StoreWriteError, match="symbolic link"):
            call()
    assert path.is_symlink()
    assert (tmp_path / "target.json").read_bytes() == before


def test_a_disk_that_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the caller, the session is as it was for every reader, and the turn goes in again."""
    store = _open(path)
    key = made(store)
    before = path.read_bytes()
    real = os.fsync
    for allowed in range(3):
        left = [allowed]

        def fsync(handle: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(StoreWriteError):
            store.append(key, turn(1, "a0.1"))
        monkeypatch.setattr(os, "fsync", real)
        assert path.read_bytes() == before
        for one in (store, _open(path)):
            assert ids(list(one.read(key))) == ["u0", "a0.1"]
    store.append(key, turn(1, "a0.1"))
    assert ids(list(_open(path).read(key))) == ["u0", "a0.1", "u1", "a1.1"]


def _killing(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill this process before its n-th call that changes a file, or in the middle of a write."""
    counter = Counter(at)
    for name in CHANGING:
        real: Callable[..., Any] = getattr(os, name)

        def call(*values: Any, _name: str = name, _real: Callable[..., Any] = real, **more: Any) -> Any:
            if _name == "open" and not values[1] & (os.O_WRONLY | os.O_RDWR):
                return _real(*values, **more)
            if _name == "write" and counter.count + 1 == counter.at:
                _real(values[0], values[1][: len(values[1]) // 2])
            counter()
            return _real(*values, **more)

        monkeypatch.setattr(os, name, call)


def _lines() -> list[Entry]:
    """A turn before which a person chose another model."""
    model = Entry("mc", "a0.1", 0, NOW, compose.model_change("mc", "a0.1", NOW, "zen", "other"))
    return [model, *turn(1, "mc", lines=3)]


def _whole_turn(store: AtomStore) -> None:
    store.claim(KEY, NOW)
    model, prompt, *answers = _lines()
    store.begin("t1", KEY, Begun(facts(store), "prompt 1", NOW, [model, prompt]))
    store.answer("t1", Answered(answers, last=True))
    store.append(KEY, _lines(), done=["t1"])


def test_killed_at_every_step_of_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds all of the turn or nothing; what was kept of it goes in whole, once, whoever comes next."""
    at, stages = 0, []
    whole = ["u0", "a0.1", *ids(_lines())]
    while True:
        at += 1
        path = tmp_path / str(at) / "session.json"
        made(_open(path))

        def victim(at: int = at, path: Path = path) -> None:
            store = _open(path)
            _killing(at, monkeypatch)
            _whole_turn(store)

        killed = ended(victim)
        store = _open(path)
        seen = ids(list(store.read(KEY)))
        assert store.notice == ""
        assert seen in (whole[:2], whole), f"half a turn at {at}"
        waiting = store.pending()
        stages.append("entered" if len(seen) > 2 else "kept" if waiting and waiting[0].complete else "begun")
        if waiting and waiting[0].complete:
            store.append(KEY, waiting[0].entries, done=["t1"])
        else:
            store.append(KEY, _lines())
        assert ids(list(_open(path).read(KEY))) == whole
        assert len(_said(path)) == 5
        assert "session.json.other" not in _names(path)
        if not killed:
            break
        assert killed == signal.SIGKILL
    assert at > 10
    assert list(dict.fromkeys(stages)) == ["begun", "kept", "entered"]


def test_killed_while_a_new_conversation_takes_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every instant the former one is in the file or beside it, and each is wholly itself."""
    at = 0
    while True:
        at += 1
        path = tmp_path / str(at) / "session.json"
        made(_open(path))
        before = path.read_bytes()

        def victim(at: int = at, path: Path = path) -> None:
            store = _open(path)
            _killing(at, monkeypatch)
            store.create(facts(store, OTHER), turn(1, None))

        killed = ended(victim)
        store = _open(path)
        (row,) = store.listed(limit=1)
        assert row.facts.id in {UUID, OTHER}
        assert ids(list(store.read(row.key))) == (["u0", "a0.1"] if row.facts.id == UUID else ["u1", "a1.1"])
        if row.facts.id == UUID:
            store.create(facts(store, OTHER), turn(1, None))
        assert [path.with_name(name).read_bytes() for name in _names(path)[1:]] == [before]
        if not killed:
            break
    assert at > 5


def test_two_processes(path: Path) -> None:
    """Turns of both go in one behind the other where each looks first; a turn from an old leaf is refused."""
    store = _open(path)
    key = made(store)

    def write(who: int) -> None:
        mine = _open(path)
        count = 0
        while count < 5:
            try:
                mine.append(key, turn(who + count, mine.leaf(key)))
            except UnsupportedError:
                continue
            count += 1

    children = [forked(lambda who=who: write(who)) for who in (100, 200)]  # type: ignore[misc]  # bound per child
    assert [status(child) for child in children] == [0, 0]
    found = ids(list(store.read(key)))
    assert len(found) == len(set(found)) == 22
    with pytest.raises(UnsupportedError):
        store.append(key, turn(300, "a0.1"))
    assert _names(path) == ["session.json"]


def test_claimed(path: Path) -> None:
    """One writer, and a dead one holds nothing."""
    with living(lambda: _open(path).claim(KEY, NOW - 5)) as child:
        held = _open(path).claim(KEY, NOW)
        assert held is not None
        assert held.process.pid == child
        assert _open(path).holder(KEY) == held
    assert _open(path).holder(KEY) is None
    assert _open(path).claim(KEY, NOW) is None


def test_damage_beside_the_file_costs_no_word(path: Path) -> None:
    """Without a readable record the conversation is whole; only what the file does not hold is gone."""
    store = _open(path)
    made(store, turns=2)
    for record in (path.parent / ".session.json.atomic").rglob("session"):
        record.write_bytes(b"[{")
    (row,) = _open(path).listed(limit=1)
    assert row.messages == 4
    assert [one.spoken() for one in _views(_open(path), row.key)] == [
        "prompt 0",
        "answer 0 1",
        "prompt 1",
        "answer 1 1",
    ]


def _views(store: AtomStore, key: SessionKey) -> list[Any]:
    from atomic_sessions.formats import pi

    return [pi.view(entry.raw) for entry in store.read(key)]


STEPS = st.lists(st.sampled_from(["turn", "model", "name", "reopen", "picks", "same", "new"]), max_size=8)


@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_two_openings_agree(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Any order of turns, marks, picks and openings: another opening reads the same chain, with the same times."""
    path = tmp_path_factory.mktemp("atom") / "session.json"
    store = _open(path)
    key = made(store)
    for number, step in enumerate(steps, 1):
        leaf = store.leaf(key)
        match step:
            case "turn":
                store.append(key, turn(number, leaf))
            case "same":
                store.append(
                    key, [message(f"u{number}", leaf, "yes"), _answer(f"a{number}", f"u{number}", "ok")]
                )
            case "model":
                raw = compose.model_change(f"m{number}", leaf, NOW, "p", f"m{number}")
                store.append(key, [Entry(f"m{number}", leaf, 0, NOW, raw)])
            case "name":
                marks.rename(store, key, f"name {number}", NOW)
            case "picks":
                store.save_picks(Settings("p", str(number)))
            case "new":
                key = store.create(facts(store, f"s{number}"), turn(number, None)).key
            case _:
                store = _open(path)
        other = _open(path)
        assert other.open(key) == store.open(key)
        assert [(e.id, e.parent, e.stamp) for e in other.read(key)] == [
            (e.id, e.parent, e.stamp) for e in store.read(key)
        ]
