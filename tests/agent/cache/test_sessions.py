"""Sessions are found as people name them, listed newest first, and deleted without a trace."""

import json

import pytest

from agent.cache.stored import NOW, UUID, ensure, facts, lines_of, put, said
from atomic_agent.cache import claims, entries, files, machines, outbox, sessions, turns
from atomic_agent.cache.cache import Cache
from atomic_agent.cache.open import transaction
from atomic_agent.stores.sqlite import SqliteStore
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import AmbiguousError, NotFoundError
from atomic_sessions.formats.scan import ScanState
from atomic_sessions.ids import SessionKey, session_key, wire_id

CANARY = "pelican-7f3a9-canary"
HERE, THERE = "git:h/here", "git:h/there"
TWIN = UUID[:-1] + "1"


def _made(cache: Cache, *those: tuple[str, str, str]) -> None:
    """Sessions by (agent, id, project)."""
    for agent, session, project in those:
        key = session_key(agent, session, project)
        ensure(cache, Facts(agent, session, key.scope, "/p", project, NOW))


def find(cache: Cache, wanted: str, project: str) -> Facts:
    return SqliteStore(cache).find(wanted, project).facts


def test_an_exact_id_comes_before_a_prefix(cache: Cache) -> None:
    """A session called like the first eight characters of another's UUID is the one that is meant."""
    _made(cache, ("pi", UUID, HERE), ("pi", UUID[:8], HERE))
    assert find(cache, UUID[:8], HERE).id == UUID[:8]
    assert find(cache, UUID, HERE).id == UUID


def test_a_prefix_is_eight_characters_of_a_uuid(cache: Cache) -> None:
    """Upper and lower case alike; seven or nine characters, and ids that are no UUID, do not match."""
    _made(cache, ("pi", UUID, HERE), ("pi", "deadbeef-notes", HERE))
    assert find(cache, UUID[:8].upper(), THERE).id == UUID
    for wanted in (UUID[:7], UUID[:9], "deadbeef", "%", "________", UUID[:8] + " "):
        with pytest.raises(NotFoundError):
            find(cache, wanted, HERE)


def test_the_project_is_looked_in_first(cache: Cache) -> None:
    """One name in two projects: here it is this one, elsewhere both are listed."""
    _made(cache, ("pi", "notes", HERE), ("pi", "notes", THERE))
    assert find(cache, "notes", HERE).project == HERE
    assert find(cache, "notes", THERE).project == THERE
    with pytest.raises(AmbiguousError):
        find(cache, "notes", "git:h/third")


def test_collisions_are_listed(cache: Cache) -> None:
    """A prefix that fits two sessions names both, with their agents."""
    _made(cache, ("pi", UUID, HERE), ("claude-code", TWIN, HERE))
    with pytest.raises(AmbiguousError) as ambiguous:
        find(cache, UUID[:8], HERE)
    assert UUID in ambiguous.value.message
    assert f"{TWIN} (claude-code, 0 messages)" in ambiguous.value.message


def test_the_same_id_of_two_agents(cache: Cache) -> None:
    """Two agents may use one id; neither is taken in silence."""
    _made(cache, ("pi", UUID, HERE), ("atomic", UUID, HERE))
    with pytest.raises(AmbiguousError, match="atomic"):
        find(cache, UUID, HERE)


@pytest.mark.parametrize("name", ["", "a.b-c_d", "x\x00y", "'", "%", "deadbeef"])
def test_custom_and_empty_ids(cache: Cache, name: str) -> None:
    """Any id a file carried is found by itself, the empty one too."""
    _made(cache, ("pi", name, HERE), ("pi", "other", HERE))
    assert find(cache, name, HERE).id == name


@pytest.mark.parametrize("path", ["./x.jsonl", "/a/b", "x.jsonl", "C:\\x"])
def test_paths_are_told_from_ids(cache: Cache, path: str) -> None:
    """A path gets the sentence about --import."""
    with pytest.raises(NotFoundError, match="path"):
        find(cache, path, HERE)


def test_a_subagent_is_found_by_its_own_id(cache: Cache) -> None:
    """Its id holds a slash and is no path; the parent's prefix means the parent."""
    _made(cache, ("claude-code", UUID, HERE), ("claude-code", f"{UUID}/agent-1", HERE))
    assert find(cache, f"{UUID}/agent-1", HERE).id == f"{UUID}/agent-1"
    assert find(cache, UUID[:8], HERE).id == UUID


def test_listed_newest_message_first(cache: Cache) -> None:
    """By newest message, empty sessions by their creation; projects, limits and internal ones apart."""
    old = ensure(cache, Facts("pi", "old", HERE, "/", HERE, 1))
    new = ensure(cache, Facts("pi", "new", THERE, "/", THERE, 1))
    ensure(cache, Facts("pi", "empty", HERE, "/", HERE, 50))
    ensure(cache, Facts("pi", "stage", HERE, "/", HERE, 1000, internal=True))
    put(cache, old, [said("a", None, "x", pos=0, stamp=40)])
    put(cache, new, [said("a", None, "x", pos=0, stamp=60)])
    assert [r.id for r in sessions.listed(cache)] == ["new", "empty", "old"]
    assert [r.id for r in sessions.listed(cache, project=HERE)] == ["empty", "old"]
    assert [r.id for r in sessions.listed(cache, internal=True, limit=2)] == ["stage", "new"]
    assert [r.id for r in sessions.listed(cache, limit=1, offset=2)] == ["old"]


def test_names_titles_and_first_messages(cache: Cache) -> None:
    """A session is called by its latest name, else its title, else how it began; clearing a name counts."""
    session = ensure(cache, facts(agent="claude-code"))

    def line(kind: str, member: str, text: str, pos: int) -> Entry:
        return Entry(f"l{pos}", None, pos, pos, json.dumps({"type": kind, member: text}).encode(), loose=True)

    def label() -> str:
        return sessions.get(cache, session).label

    assert label() == "(no messages)"
    question = b'{"type":"user","uuid":"q","message":{"role":"user","content":"  how \\n it began "}}'
    put(cache, session, [Entry("q", None, 5, 5, question)], agent="claude-code")
    assert label() == "how it began"
    put(cache, session, [line("ai-title", "aiTitle", "Titled", 6)], agent="claude-code")
    assert label() == "Titled"
    put(cache, session, [line("custom-title", "customTitle", "Named", 8)], agent="claude-code")
    put(cache, session, [line("custom-title", "customTitle", "Named before", 7)], agent="claude-code")
    assert label() == "Named"
    put(cache, session, [line("custom-title", "customTitle", "", 9)], agent="claude-code")
    assert label() == "Titled"


def _full(cache: Cache) -> int:
    """A session with its canary in every table that can hold it."""
    of = Facts("pi", UUID, "", f"/{CANARY}", f"git:{CANARY}/p", NOW, header=CANARY.encode())
    session = ensure(cache, of)
    put(
        cache,
        session,
        [
            said("a", None, CANARY, pos=0, stamp=1),
            Entry("n", "a", 1, 2, f'{{"type":"session_info","id":"n","name":"{CANARY}"}}'.encode()),
            Entry("s", "a", 2, 3, f'{{"type":"session_summary","id":"s","summary":"{CANARY}"}}'.encode()),
            Entry("file:x", None, 0, 4, CANARY.encode(), loose=True, file="x"),
        ],
    )
    title = Entry("t", None, 3, 4, f'{{"type":"ai-title","aiTitle":"{CANARY}"}}'.encode(), loose=True)
    put(cache, session, [title], agent="claude-code")
    assert sessions.get(cache, session).title == CANARY
    with transaction(cache.connection):
        row = sessions.get(cache, session)
        wire = sessions.wire_of(cache, row, bytes(32))
        outbox.put(cache, session, wire, b"r" * 32, CANARY.encode(), ["a"])
        outbox.put_upload(cache, b"o" * 32, wire, CANARY.encode())
        files.put(cache, files.FileMark(f"/{CANARY}", session, 1, 1, 1, 1, 0, b"", ScanState(last=CANARY)))
        begun = turns.Begun(of, CANARY, NOW, [said("p", "a", CANARY, pos=9, stamp=9)])
        turns.begin(cache, "t1", claims.name_of(of.key), session, begun)
        claims.take(cache, claims.name_of(of.key), session, claims.Process("h", 1, "1"), NOW)
    return session


def test_a_deleted_session_leaves_no_text(cache: Cache) -> None:
    """After deletion no table holds a word of it; only its identity stays."""
    session = _full(cache)
    seen = {name for name, rows in lines_of(cache).items() if CANARY in repr(rows)}
    assert {
        "session_sessions",
        "session_entries",
        "session_outbox",
        "session_uploads",
        "session_files",
    } <= seen
    with transaction(cache.connection):
        row = sessions.get(cache, session)
        assert row.wire is not None
        sessions.mark_deleted(cache, session)
        outbox.drop_session(cache, row.wire)
    assert {name: rows for name, rows in lines_of(cache).items() if CANARY in repr(rows)} == {}
    assert cache.connection.execute("SELECT count(*) FROM session_search_docsize").fetchone() == (0,)
    assert sessions.is_deleted(cache, SessionKey("pi", UUID))
    assert list(sessions.listed(cache, internal=True)) == []
    with pytest.raises(NotFoundError):
        find(cache, UUID, "")


def test_a_deleted_session_is_doomed_until_its_tombstone_waits(cache: Cache) -> None:
    """The tombstone is to be sent once; one that came from elsewhere is not sent again."""
    session = _full(cache)
    wire = sessions.get(cache, session).wire
    assert wire is not None
    with transaction(cache.connection):
        sessions.mark_deleted(cache, session)
    assert sessions.doomed(cache) == [session]
    with transaction(cache.connection):
        outbox.put(cache, session, wire, b"t" * 32, b"tombstone", [])
    assert sessions.doomed(cache) == []
    with transaction(cache.connection):
        assert sessions.bury(cache, wire) == 0
        assert sessions.bury(cache, b"u" * 16) == 0
    assert sessions.doomed(cache) == []


def test_a_session_buried_from_elsewhere(cache: Cache) -> None:
    """A tombstone of the account takes the session out here, and counts it once."""
    session = _full(cache)
    wire = sessions.get(cache, session).wire
    assert wire is not None
    with transaction(cache.connection):
        assert sessions.bury(cache, wire) == 1
        assert sessions.bury(cache, wire) == 0
    assert sessions.is_deleted(cache, SessionKey("pi", UUID))
    assert list(entries.read(cache, session)) == []


def test_wire_ids_follow_the_account(cache: Cache) -> None:
    """Joining an account gives every session its new wire id."""
    _made(cache, ("pi", UUID, HERE), ("pi", "notes", HERE))
    for id_key in (b"a" * 32, b"b" * 32):
        sessions.rekey(cache, id_key)
        for key in (SessionKey("pi", UUID), SessionKey("pi", "notes", HERE)):
            row = sessions.by_key(cache, key)
            assert row is not None
            assert row.wire == wire_id(id_key, key)


def test_children_of_a_session(cache: Cache) -> None:
    """Sub-agents' sessions are those of the same agent that name it as their parent."""
    _made(cache, ("claude-code", UUID, HERE))
    ensure(cache, Facts("claude-code", f"{UUID}/agent-1", "", "/", HERE, 1, UUID, internal=True))
    ensure(cache, Facts("pi", "x", HERE, "/", HERE, 1, UUID, internal=True))
    ensure(cache, Facts("claude-code", TWIN, "", "/", HERE, 1, UUID))
    own = SessionKey("claude-code", UUID)
    assert [r.id for r in sessions.children(cache, own, THERE)] == [f"{UUID}/agent-1"]


def test_children_of_a_session_that_two_projects_have(cache: Cache) -> None:
    """A custom id is another session in another project, with sub-agents of its own."""
    _made(cache, ("atomic", "nightly", HERE), ("atomic", "nightly", THERE))
    for place in (HERE, THERE):
        ensure(cache, Facts("atomic", f"stage-{place}", place, "/", place, 1, "nightly", internal=True))
    found = sessions.children(cache, SessionKey("atomic", "nightly", HERE), HERE)
    assert [row.id for row in found] == [f"stage-{HERE}"]


def test_which_machines_wrote(cache: Cache) -> None:
    """This machine while something is unsealed, others by the name the ledger gives them."""
    session = ensure(cache)
    put(cache, session, [said("a", None, "x", pos=0, stamp=1)])
    row = sessions.get(cache, session)
    assert machines.machines_of(cache, row) == ["this machine"]
    sessions.rekey(cache, bytes(32))
    row = sessions.get(cache, session)
    cache.connection.execute(
        "INSERT INTO session_chains VALUES (?, ?, ?, 1, ?)", (row.wire, b"w", b"d2", b"")
    )
    cache.connection.execute(
        "INSERT INTO session_chains VALUES (?, ?, ?, 1, ?)", (row.wire, b"v", b"d3", b"")
    )
    machines.remember(cache, {b"d1": "laptop", b"d2": "desktop"}, b"d1")
    assert machines.machines_of(cache, row) == ["an unknown machine", "desktop", "laptop"]
    outbox.mark_sealed(cache, [stored.row for stored in entries.read(cache, session)])
    assert machines.machines_of(cache, row) == ["an unknown machine", "desktop"]
