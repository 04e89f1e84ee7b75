"""Earlier sessions that are opened: copied in whole or not at all, once, with their files as they were."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.stores.earlier_made import KEY, Earlier, format1, session, stage
from agent.stores.jsonl_made import header3, line, said
from agent.stores.port.children import Counter, ended
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, OTHER, THERE, UUID, facts, ids, message, raws, turn
from atomic_agent.cache.turns import Begun
from atomic_agent.stores import marks
from atomic_agent.stores.earlier import EarlierStore
from atomic_agent.stores.port import branch
from atomic_sessions.errors import (
    BadSessionFileError,
    BusyError,
    NotFoundError,
    SessionExistsError,
    StoreUnavailableError,
)
from atomic_sessions.formats.upgrade import read_header, upgrade
from atomic_sessions.ids import SessionKey

LONG = "x" * (1 << 20)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Earlier]:
    found = Earlier(tmp_path)
    yield found
    found.close()


CALLS: dict[str, Callable[[EarlierStore], object]] = {
    "open": lambda store: store.open(KEY),
    "read": lambda store: list(store.read(KEY)),
    "climb": lambda store: list(store.climb(KEY, "e2")),
    "leaf": lambda store: store.leaf(KEY),
    "ends": lambda store: store.ends(KEY),
    "entry": lambda store: store.entry(KEY, "e1"),
    "append": lambda store: store.append(KEY, turn(1, "e2")),
    "move": lambda store: store.move(KEY, "e1"),
    "claim": lambda store: store.claim(KEY, NOW),
    "number": lambda store: store.number(KEY),
    "begin": lambda store: store.begin("t", KEY, Begun(facts(store, OTHER), "p", NOW, turn(1, None))),
    "rename": lambda store: marks.rename(store, KEY, "named", NOW),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whatever_needs_its_entries_copies_it_in(
    place: Earlier, call: Callable[[EarlierStore], object]
) -> None:
    """And does then what it does with any session; the file stays as it was."""
    path = place.put("--p--/x.jsonl", *session(UUID, "one", "two"))
    before = place.everything()
    call(place.store())
    mine = place.database()
    assert mine.get(KEY) is not None
    lines = path.read_bytes().splitlines()
    assert raws(mine, KEY)[:2] == lines[1:]
    assert place.everything() == before


def test_a_list_copies_nothing_in(place: Earlier) -> None:
    """Rows, short names, finding and searching leave the session where it is."""
    place.put("--p--/x.jsonl", *session())
    before = place.everything()
    store = place.store()
    rows = list(store.listed())
    store.called(rows)
    assert store.find(UUID[:8], "") == store.get(KEY) == rows[0] == next(store.search("hello")).row
    store.holder(KEY)
    assert place.database().get(KEY) is None
    assert place.everything() == before


@pytest.mark.parametrize("version", ["1", "2", "3", "alpha", "4"])
def test_every_format_becomes_the_fourth(place: Earlier, version: str) -> None:
    """Ids and entries are those of the one upgrade that every machine makes; the database's copy says format 4."""
    head = {"type": "session", "id": UUID, "cwd": HERE, "kept": {"of": "the header"}}
    lines = {
        "1": format1(),
        "2": [
            line(**head, version=2, timestamp="2026-01-01T00:00:00.000Z"),
            *session(UUID, "one")[1:],
            said("h", "e1", "note", role="hookMessage"),
        ],
        "3": [header3(extra=[1]), *session(UUID, "one", "two")[1:]],
        "alpha": [line(**head, version=4, timestamp="2026-01-01T00:00:00.000Z"), *session(UUID, "one")[1:]],
        "4": [line(**head, version=4, createdAt="2026-01-01T00:00:00.000Z"), *session(UUID, "one")[1:]],
    }[version]
    place.put("a/x.jsonl", *lines)
    before = place.everything()
    plain = [raw.rstrip(b"\n") for raw in lines]
    header = read_header(plain[0])
    row = place.store().open(KEY)
    assert row.facts.header == header.raw
    assert b'"version":4' in row.facts.header.replace(b" ", b"")
    assert raws(place.store(), KEY) == list(upgrade(header, plain[1:]))
    assert row.first_message == "one"
    assert place.everything() == before


def test_the_database_is_read_from_then_on(place: Earlier) -> None:
    """What is said later in either place stays there: the file's growth changes no list and no session."""
    path = place.put("a/x.jsonl", *session(UUID, "one", "two"))
    store = place.store()
    store.open(KEY)
    store.append(KEY, [message("mine", "e2", "mine", at=NOW + 5000)])
    with path.open("ab") as stream:
        stream.write(said("theirs", "e2", "theirs", NOW + 90_000))
    for again in (store, place.store()):
        (row,) = again.listed()
        assert (row.newest_id, row.messages, row.place) == ("mine", 3, "")
        assert ids(branch(again, KEY, again.leaf(KEY))) == ["e1", "e2", "mine"]
    path.unlink()
    assert raws(place.store(), KEY) == raws(place.database(), KEY) == raws(store, KEY)


def test_what_the_database_has_hides_the_file(place: Earlier) -> None:
    """A session that was captured or imported, under either agent's name, is listed once, as it is there."""
    place.put("a/x.jsonl", *session(UUID, "file", at=NOW + 9000))
    place.put("a/y.jsonl", *session(OTHER, "file", at=NOW + 9000))
    mine = place.database()
    mine.create(facts(mine), turn(0, None))
    pi = facts(mine, OTHER)
    mine.create(type(pi)("pi", OTHER, "", HERE, pi.project, NOW), turn(0, None))
    store = place.store()
    assert [(row.facts.agent, row.first_message) for row in store.listed()] == [
        ("pi", "prompt 0"),
        ("atomic", "prompt 0"),
    ] or {row.first_message for row in store.listed()} == {"prompt 0"}
    assert len(list(store.listed())) == 2
    assert store.open(KEY).first_message == "prompt 0"


def test_an_id_that_a_file_has_is_taken(place: Earlier) -> None:
    """It is in the list, so another session of that id is refused as any would be."""
    place.put("a/x.jsonl", *session())
    store = place.store()
    with pytest.raises(SessionExistsError):
        store.create(facts(store), turn(0, None))
    assert store.open(KEY).first_message == "hello"


def test_the_copy_with_the_newest_message_is_opened(place: Earlier) -> None:
    """That one is copied in, the others stay as they are and come back in no list."""
    place.put("a/x.jsonl", *session(UUID, "one"))
    place.put("a/x (conflicted copy).jsonl", *session(UUID, "one", "newest", at=NOW + 1000))
    place.put("b/x.sync-conflict-20260101-120000-ABCDEFG.jsonl", *session(UUID, "a", "b", "c", at=NOW - 9))
    before = place.everything()
    row = place.store().open(KEY)
    assert (row.messages, row.newest_at) == (2, NOW + 1000)
    assert [one.key for one in place.store().listed()] == [KEY]
    place.put("b/x (another copy).jsonl", *session(UUID, "even newer", at=NOW + 99_000))
    assert [one.newest_at for one in place.store().listed()] == [NOW + 1000]
    place.folder.path.joinpath("b", "x (another copy).jsonl").unlink()
    assert {path: state[2] for path, state in place.everything().items()} == {
        path: state[2] for path, state in before.items()
    }


def test_a_custom_id_stays_one_session(place: Earlier) -> None:
    """Its project is part of its identity; when its folder gets another one, the file does not come back."""
    place.put("a/x.jsonl", *session("notes"))
    store = place.store()
    row = store.find("notes", "")
    store.open(row.key)
    later = place.store()
    later._projects._found[HERE] = "git:h.x/o/p"
    assert [one.key for one in later.listed()] == [row.key]


def test_half_a_line_at_the_end_is_not_there_yet(place: Earlier) -> None:
    """The program that writes it has not written it; damage elsewhere is kept byte for byte."""
    place.put("a/x.jsonl", header3(), b"{dam\x00age\n", said("a", None, "one"), said("b", "a", "two")[:-9])
    store = place.store()
    store.open(KEY)
    assert raws(store, KEY) == [b"{dam\x00age", said("a", None, "one").rstrip(b"\n")]
    assert store.leaf(KEY) == "a"


def test_a_leaf_line_tells_where_it_opens(place: Earlier) -> None:
    """A move that stands at the end of the file holds in the database too."""
    place.put("a/x.jsonl", *session(UUID, "one", "two"), line(type="leaf", leafId="e1", timestamp=NOW))
    assert place.store().leaf(KEY) == "e1"


class Disturbed:
    """A clock that does something when it is asked, as another program would meanwhile. It is asked once the first
    MiB of a file was read."""

    def __init__(self) -> None:
        self.do: Callable[[], object] = lambda: None
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        self.do()
        return NOW


@pytest.mark.parametrize("texts", [("one", "two"), ("one", LONG, LONG)], ids=["small", "large"])
def test_a_file_that_grows_meanwhile(place: Earlier, texts: tuple[str, ...]) -> None:
    """What was there when the reading began is copied in, without what was added."""
    path = place.put("a/x.jsonl", *session(UUID, *texts))
    clock = Disturbed()
    store = place.store(clock=clock)
    list(store.listed())

    def grow() -> None:
        with path.open("ab") as stream:
            stream.write(said("more", "e2", "more", NOW + 1))

    clock.do = grow
    store.number(KEY)
    assert [entry.id for entry in store.read(KEY)] == [f"e{n}" for n in range(1, len(texts) + 1)]


@pytest.mark.parametrize("texts", [("one", "two"), ("one", LONG, LONG)], ids=["small", "large"])
def test_a_file_that_is_rewritten_meanwhile(place: Earlier, texts: tuple[str, ...]) -> None:
    """It is read again: never the beginning of one and the end of another."""
    path = place.put("a/x.jsonl", *session(UUID, *texts))
    clock = Disturbed()
    store = place.store(clock=clock)
    list(store.listed())
    changed = b"".join([header3(), *(said(f"n{n}", None, LONG.replace("x", "y")) for n in range(3))])

    def rewrite() -> None:
        clock.do = lambda: None
        path.write_bytes(changed)

    clock.do = rewrite
    store.number(KEY)
    assert [entry.id for entry in store.read(KEY)] == ["n0", "n1", "n2"]
    assert b"".join(raw + b"\n" for raw in raws(store, KEY)) == changed.split(b"\n", 1)[1]


def test_a_file_that_never_rests(place: Earlier) -> None:
    """The person is told after a few tries, and nothing is half in."""
    path = place.put("a/x.jsonl", *session(UUID, "one", LONG))
    clock = Disturbed()
    store = place.store(clock=clock)
    list(store.listed())

    def rewrite() -> None:
        path.write_bytes(b"".join(session(UUID, f"try {clock.asked}", LONG)))

    clock.do = rewrite
    with pytest.raises(BusyError):
        store.number(KEY)
    assert place.database().get(KEY) is None
    assert list(place.database().listed(internal=True)) == []
    clock.do = lambda: None
    assert store.number(KEY)


def test_a_file_that_goes_or_becomes_another(place: Earlier) -> None:
    """No session by that id is there then; one that may not be read says so."""
    path = place.put("a/x.jsonl", *session())
    store = place.store()
    assert store.get(KEY) is not None
    path.write_bytes(b"".join(session(OTHER)))
    with pytest.raises(NotFoundError):
        store.open(KEY)
    assert store.open(SessionKey("atomic", OTHER)).messages == 1
    path.unlink()
    with pytest.raises(NotFoundError):
        store.leaf(KEY)


@pytest.mark.parametrize("lines", [None, session(OTHER)], ids=["gone", "another"])
def test_a_file_that_goes_just_before_it_is_read(
    place: Earlier, lines: list[bytes] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was listed a moment ago is not there; another session is never taken for it."""
    path = place.put("a/x.jsonl", *session())
    store = place.store()
    seen = store._files.sessions()
    monkeypatch.setattr(store._files, "sessions", lambda: seen)
    path.unlink() if lines is None else path.write_bytes(b"".join(lines))
    with pytest.raises(NotFoundError):
        store.open(KEY)
    assert list(place.database().listed()) == []


def test_a_file_that_may_not_be_read(place: Earlier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was listed before, opening it says what is wrong; nothing takes its place."""
    place.put("a/x.jsonl", *session())
    store = place.store()
    list(store.listed())

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("atomic_agent.stores.jsonl_files.open_for", refused)
    with pytest.raises(StoreUnavailableError, match="Permission denied"):
        store.open(KEY)
    assert place.database().get(KEY) is None


def test_a_line_beyond_all_measure(place: Earlier, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read to its end is not copied in up to there."""
    monkeypatch.setattr("atomic_sessions.formats.lines.MAX_LINE", 100_000)
    place.put("a/x.jsonl", *session(UUID, "one", LONG, LONG, "two"))
    store = place.store()
    with pytest.raises(BadSessionFileError):
        store.open(KEY)
    assert place.database().get(KEY) is None


def test_killed_while_it_is_copied_in(place: Earlier) -> None:
    """Whatever the instant: all of it is in the database or nothing, and the file stands for it until then."""
    place.put("a/x.jsonl", *session(UUID, *(f"text {n}" for n in range(5))))
    before = place.everything()
    at, states = 0, []
    while True:
        at += 1

        def victim(at: int = at) -> None:
            store = place.store()
            store.cache.connection.set_trace_callback(Counter(at))
            store.open(KEY)

        killed = ended(victim)
        found, mine = list(place.store().listed()), place.database().get(KEY)
        assert [(row.key, row.messages) for row in found] == [(KEY, 5)]
        states.append(mine is not None)
        assert mine is None or (mine.messages, len(list(place.database().read(KEY)))) == (5, 5)
        if not killed:
            break
        assert killed == signal.SIGKILL
        place.close()
        if mine is not None:
            break
    assert at > 10
    assert states == sorted(states)
    assert len(list(place.store().read(KEY))) == 5
    assert place.everything() == before


def test_two_processes_open_one(place: Earlier) -> None:
    """It is in the database once, whole."""
    place.put("a/x.jsonl", *session(UUID, *(f"text {n}" for n in range(50))))
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if place.store().open(KEY).messages == 50 else 2
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(list(place.store().read(KEY))) == 50


def test_a_stage_is_copied_in_as_one(place: Earlier) -> None:
    """Its marking stays, so that it is in no list afterwards either."""
    place.put("a/s.jsonl", *stage(OTHER, UUID))
    store = place.store()
    row = store.open(SessionKey("atomic", OTHER))
    assert (row.facts.internal, row.facts.parent) == (True, UUID)
    assert (list(store.listed()), len(list(store.listed(internal=True)))) == ([], 1)


def test_a_project_is_the_folders_wherever_it_is_opened(place: Earlier) -> None:
    """The header's folder places it, before it is opened and after."""
    place.put("a/x.jsonl", *session(cwd=THERE))
    store = place.store()
    before = store.get(KEY)
    after = store.open(KEY)
    assert before is not None
    assert before.facts == after.facts
    assert after.facts.project == store.project_of(THERE)


def test_a_header_without_a_time(place: Earlier) -> None:
    """Without any message either, a session is as old as its file, before it is opened and after."""
    place.put("a/x.jsonl", line(type="session", version=3, id=UUID, cwd=HERE), mtime=1_700_000_000)
    store = place.store()
    assert [row.newest_at for row in store.listed()] == [1_700_000_000_000]
    assert store.open(KEY).newest_at == 1_700_000_000_000
