"""Sessions of a store: made, found, listed, deleted."""

import pytest

from agent.stores.port.conftest import Stand
from agent.stores.port.kinds import NOW, needs
from agent.stores.port.said import HERE, OTHER, THERE, UUID, facts, made, message, raws, turn
from atomic_agent.stores import folders
from atomic_agent.stores.port import Store
from atomic_sessions.errors import AmbiguousError, NotFoundError, SessionExistsError
from atomic_sessions.ids import SessionKey

NEAR = UUID[:-1] + "1"


@needs("many")
def test_a_new_store_is_empty(store: Store) -> None:
    """Nothing is listed and nothing found in a store that nothing was put into."""
    assert list(store.listed()) == []
    assert store.get(SessionKey("atomic", UUID)) is None
    with pytest.raises(NotFoundError):
        store.find(UUID, "")


@needs("reopened", "many")
def test_made_sessions_stay(stand: Stand) -> None:
    """Another opening of the store lists the same row and reads the same lines."""
    key = made(stand.store, turns=3)
    other = stand.again()
    assert list(other.listed()) == list(stand.store.listed()) == [stand.store.get(key)]
    assert raws(other, key) == raws(stand.store, key)
    assert other.leaf(key) == "a2.1"


def test_a_row_says_what_a_list_shows(store: Store) -> None:
    """Folder, project, times, counts and the first prompt come from header and entries."""
    row = store.create(facts(store), [*turn(0, None), *turn(1, "a0.1")])
    assert (row.facts.id, row.facts.cwd, row.facts.project) == (UUID, HERE, folders.project_of(HERE))
    assert (row.facts.created_at, row.newest_at, row.newest_id) == (NOW, NOW + 1001, "a1.1")
    assert (row.messages, row.first_message, row.label, row.partial) == (4, "prompt 0", "prompt 0", False)


@needs("many")
def test_a_session_without_entries_is_listed_by_its_beginning(store: Store) -> None:
    """A header alone is a session, whose time is that of its header."""
    row = store.create(facts(store))
    assert (row.messages, row.newest_at, row.newest_id) == (0, NOW, None)
    assert [one.key for one in store.listed()] == [row.key]
    assert store.leaf(row.key) is None
    assert list(store.read(row.key)) == []


def test_an_id_that_is_there_is_not_replaced(store: Store) -> None:
    """SessionExistsError, and the session is as it was, whatever the second one would have held."""
    key = made(store)
    before = raws(store, key)
    with pytest.raises(SessionExistsError):
        store.create(facts(store, at=NOW + 5), [message("x", None, "other")])
    assert raws(store, key) == before


@needs("many")
def test_nothing_is_half_made(store: Store) -> None:
    """A source that fails in its middle leaves no session and no row."""

    def failing() -> list[object]:
        raise RuntimeError("the disk it came from")

    with pytest.raises(RuntimeError):
        store.create(facts(store), (entry for entry in [*turn(0, None), failing()]))  # type: ignore[misc]  # it fails
    assert list(store.listed()) == []
    made(store)


@needs("many")
def test_listed_by_the_newest_message(store: Store) -> None:
    """Neither the order of making nor that of ids: the newest message is first, pages follow each other."""
    keys = [made(store, f"s{n}", at=NOW + (n * 7 % 5) * 10_000) for n in range(5)]
    assert [keys.index(row.key) for row in store.listed()] == [2, 4, 1, 3, 0]
    assert [keys.index(row.key) for row in store.listed(limit=2, offset=1)] == [4, 1]
    assert list(store.listed(limit=0)) == []
    store.append(keys[0], [message("late", "a0.1", "late", at=NOW + 99_000)])
    assert next(store.listed(limit=1)).key == keys[0]


@needs("many")
def test_listed_by_project(store: Store) -> None:
    """A project's list holds its sessions only; a session without a folder is in no project's."""
    here, there = made(store, "h"), made(store, "t", cwd=THERE)
    made(store, "nowhere", cwd="")
    found = list(store.listed(project=store.project_of(HERE), folder=HERE))
    assert [row.key for row in found] == [here]
    assert [row.key for row in store.listed(project=store.project_of(THERE))] == [there]
    assert list(store.listed(project="", folder="")) == []
    assert len(list(store.listed())) == 3


@needs("many")
def test_internal_sessions_are_hidden_and_found(store: Store) -> None:
    """A workflow stage's session is listed when asked for, and opens by its id."""
    stage = store.create(facts(store, OTHER, internal=True), turn(0, None)).key
    plain = made(store)
    assert [row.key for row in store.listed()] == [plain]
    assert {row.key for row in store.listed(internal=True)} == {plain, stage}
    assert store.find(OTHER, "").facts.internal


def test_found_by_id(store: Store) -> None:
    """A whole id in any case of its prefix; fewer or more characters than eight are no prefix."""
    key = made(store)
    project = store.project_of(HERE)
    assert store.find(UUID, project).key == store.find(UUID[:8], "").key == key
    assert store.find(UUID[:8].upper(), project).key == key
    for wrong in (UUID[:7], UUID[:9], "ffffffff", "", f"/x/{UUID}", f"{UUID}.jsonl"):
        with pytest.raises(NotFoundError) as caught:
            store.find(wrong, project)
        assert not isinstance(caught.value, AmbiguousError)


@needs("many")
def test_a_colliding_prefix_names_the_ids(store: Store) -> None:
    """Two ids with one prefix: the project's own one, or an error that lists both."""
    here, there = made(store), made(store, NEAR, cwd=THERE)
    assert store.find(UUID[:8], store.project_of(HERE)).key == here
    assert store.find(UUID[:8], store.project_of(THERE)).key == there
    with pytest.raises(AmbiguousError) as caught:
        store.find(UUID[:8], "")
    assert UUID in caught.value.message
    assert NEAR in caught.value.message


@needs("many")
def test_custom_ids_come_before_prefixes(store: Store) -> None:
    """Eight hex characters that are a whole id mean that session; a custom id has no prefix."""
    made(store)
    custom = made(store, UUID[:8])
    made(store, "abcdef01-notes")
    assert store.find(UUID[:8], "").key == custom
    with pytest.raises(NotFoundError):
        store.find("abcdef01", "")


@needs("many")
def test_one_custom_id_in_two_projects(store: Store) -> None:
    """They are two sessions; the project's own is meant, and outside of both it is not clear."""
    here, there = made(store, "notes"), made(store, "notes", cwd=THERE, turns=2)
    assert here != there
    assert store.find("notes", store.project_of(HERE)).key == here
    assert store.find("notes", store.project_of(THERE)).key == there
    with pytest.raises(AmbiguousError):
        store.find("notes", store.project_of("/elsewhere"))


@pytest.mark.parametrize("session", ["", "a/b", "..", "x" * 300, "ünï", "CON", "a:b*?"])
@needs("many")
def test_any_id_is_kept(store: Store, session: str) -> None:
    """Imported ids are kept as they are, an empty one too, and found again."""
    key = made(store, session)
    assert (key.id, store.find(session, "").key) == (session, key)
    made(store)
    assert store.find(session, "").key == key
    assert store.leaf(key) == "a0.1"


@needs("many")
def test_deleted(store: Store) -> None:
    """It is in no list, answers no id and takes no turn; another session stays."""
    key, other = made(store), made(store, OTHER)
    store.delete(key)
    assert [row.key for row in store.listed()] == [other]
    assert store.get(key) is None
    for call in (
        lambda: store.find(UUID, ""),
        lambda: store.append(key, turn(1, "a0.1")),
        lambda: list(store.read(key)),
        lambda: store.leaf(key),
        lambda: store.open(key),
        lambda: store.move(key, None),
        lambda: store.delete(key),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert store.get(key) is None
    assert raws(store, other)


@needs("never revived")
def test_what_syncs_is_not_revived(store: Store) -> None:
    """In a store whose deletions travel, a deleted id does not come back."""
    store.delete(made(store))
    with pytest.raises(SessionExistsError):
        made(store)


@needs("flags")
def test_flags_lead_back(stand: Stand) -> None:
    """They name the place whole, so that they mean the same from any folder."""
    flags = stand.store.flags
    assert flags[0] in {"--session-dir", "--session-store"}
    assert flags[1] == stand.store.name
    assert flags[1].startswith(str(stand.place))
    assert flags[2:] == (("--session-prefix", "mine_") if stand.kind.name == "sqlite" else ())
    assert not stand.store.syncs


def test_a_project_is_a_folder_where_nothing_syncs(store: Store) -> None:
    """Equal paths are one project, however they are written; no folder is none."""
    assert store.project_of("/a/b/../c/") == store.project_of("/a/c")
    assert store.project_of("/a/b") != store.project_of("/a/c")
    assert store.project_of("") == ""
