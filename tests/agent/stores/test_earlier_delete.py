"""Earlier sessions that were deleted: in no list again, whatever becomes of their files, which stay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.stores.earlier_made import KEY, Earlier, session, stage
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, OTHER, UUID, facts, turn
from atomic_agent.cache import outbox, sessions
from atomic_agent.cache.open import transaction
from atomic_agent.stores.earlier import EarlierStore
from atomic_sessions.errors import NotFoundError, SessionExistsError
from atomic_sessions.ids import SessionKey, wire_id


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Earlier]:
    found = Earlier(tmp_path)
    yield found
    found.close()


def is_gone(store: EarlierStore, key: SessionKey) -> bool:
    """Neither listed nor found nor opened."""
    assert key not in [row.key for row in store.listed(internal=True)]
    assert store.get(key) is None
    assert store.deleted(key)
    assert list(store.search("hello")) == []
    for call in (lambda: store.find(key.id, ""), lambda: store.open(key), lambda: store.delete(key)):
        with pytest.raises(NotFoundError):
            call()
    return True


@pytest.mark.parametrize("opened", [False, True], ids=["never-opened", "opened"])
def test_deleted_for_ever(place: Earlier, *, opened: bool) -> None:
    """The file stays byte for byte; it is not listed when it grows, is replaced, copied or moved."""
    path = place.put("a/x.jsonl", *session())
    other = place.put("a/x (conflicted copy).jsonl", *session(at=NOW - 5))
    store = place.store()
    if opened:
        store.open(KEY)
    before = place.everything()
    store.delete(KEY)
    assert place.everything() == before
    assert is_gone(store, KEY)
    assert is_gone(place.store(), KEY)
    path.write_bytes(path.read_bytes() + session(UUID, "a", "b", "c", at=NOW + 9000)[-1])
    other.rename(place.folder.path / "moved.jsonl")
    place.put("b/x.jsonl", *session(UUID, "another", at=NOW + 99_000))
    assert is_gone(place.store(), KEY)


def test_a_deleted_one_is_not_made_again(place: Earlier) -> None:
    """As of any deleted session of this store: its id is used up."""
    place.put("a/x.jsonl", *session())
    store = place.store()
    store.delete(KEY)
    with pytest.raises(SessionExistsError):
        store.create(facts(store), turn(0, None))


def test_a_custom_id_is_deleted_in_its_project_only(place: Earlier) -> None:
    """And stays deleted when its folder gets another project."""
    place.put("a/x.jsonl", *session("notes"))
    place.put("b/x.jsonl", *session("notes", cwd="/elsewhere"))
    store = place.store()
    key = store.find("notes", store.project_of(HERE)).key
    store.delete(key)
    (left,) = store.listed()
    assert left.facts.cwd == "/elsewhere"
    later = place.store()
    later._projects._found[HERE] = "git:h.x/o/p"
    assert [row.key for row in later.listed()] == [left.key]


@pytest.mark.parametrize("opened", [False, True], ids=["never-opened", "opened"])
def test_stages_go_with_their_session(place: Earlier, *, opened: bool) -> None:
    """As sub-agents' sessions do in the database, whichever of them was opened."""
    place.put("a/x.jsonl", *session())
    place.put("a/s.jsonl", *stage(OTHER, UUID))
    store = place.store()
    if opened:
        store.open(KEY)
    store.delete(KEY)
    assert is_gone(place.store(), SessionKey("atomic", OTHER))
    assert list(place.store().listed(internal=True)) == []


def test_what_is_not_there_is_not_deleted(place: Earlier) -> None:
    """NotFoundError, and nothing is hidden by it."""
    store = place.store()
    with pytest.raises(NotFoundError):
        store.delete(KEY)
    place.put("a/x.jsonl", *session())
    assert [row.key for row in store.listed()] == [KEY]


def test_deleted_on_another_machine(place: Earlier) -> None:
    """The account's deletions count for files too: of a session that was here, and of one that never was."""
    place.put("a/x.jsonl", *session())
    place.put("a/y.jsonl", *session(OTHER))
    id_key = bytes(range(32))
    store = place.store(id_key=id_key)
    store.open(KEY)
    wires = [wire_id(id_key, SessionKey("atomic", identity)) for identity in (UUID, OTHER)]
    sessions.fill_wires(store.cache, id_key)
    with transaction(store.cache.connection):
        sessions.bury(store.cache, wires[0])
        store.cache.connection.executemany(
            "INSERT INTO session_tombstones VALUES (?, 1)", [(wire,) for wire in wires]
        )
    assert list(place.store(id_key=id_key).listed()) == []
    assert [row.facts.id for row in place.store(id_key=bytes(32)).listed()] == [OTHER]


def test_its_deletion_reaches_the_account(place: Earlier) -> None:
    """A session that was never opened here may be on another machine: its tombstone waits to be sent."""
    place.put("a/x.jsonl", *session())
    store = place.store()
    store.delete(KEY)
    assert len(sessions.doomed(store.cache)) == 1
    assert outbox.waiting_tombstones(store.cache, 9) == []
