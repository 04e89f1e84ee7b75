"""What only the Postgres store has to bear: servers that go, secrets in URLs, other programs' text, many at once."""

import asyncio
import os
import random
import signal
import socket
import string
import threading
import time
import traceback
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.stores import running_postgres
from agent.stores.port.children import ended, forked, status
from agent.stores.port.kinds import NOW
from agent.stores.port.said import OTHER, UUID, facts, ids, made, message, turn
from atomic_agent.cache.turns import Begun
from atomic_agent.config.errors import SelectionError
from atomic_agent.config.selection import DriverSelection
from atomic_agent.stores import postgres_entries
from atomic_agent.stores.drivers import open_driver
from atomic_agent.stores.port import branch
from atomic_agent.stores.postgres import PostgresStore, open_postgres
from atomic_agent.stores.postgres_connection import Database, Record
from atomic_agent.stores.postgres_errors import shown
from atomic_agent.stores.postgres_schema import prepare
from atomic_agent.stores.rows import newest_first
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import StoreUnavailableError, StoreWriteError
from atomic_sessions.ids import SessionKey

SECRET = "hunter2"
WHOLE = ["u0", "a0.1"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PostgresStore]:
    found = running_postgres.opened(tmp_path)
    yield found
    found.close()


@pytest.fixture
def admin() -> Iterator[Database]:
    """Another connection, which does to the server what the tests need."""
    found = Database(running_postgres.url(), "")
    yield found
    found.close()


def hang_up(store: PostgresStore, admin: Database) -> None:
    """The server ends the store's connection."""
    found = store.database.one("SELECT pg_backend_pid()")
    assert found is not None
    admin.fetch("SELECT pg_terminate_backend($1, 5000)", found[0])


def refused(url: str, **more: str) -> StoreUnavailableError:
    with pytest.raises(StoreUnavailableError) as caught:
        open_postgres({"url": url, **more})
    shown_whole = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown_whole
    assert "somebody" not in caught.value.message
    return caught.value


def test_nothing_answers() -> None:
    """A port where nobody listens, or a host that is none: it cannot be reached, and is named without the login."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    error = refused(f"postgres://somebody:{SECRET}@127.0.0.1:{port}/mine")
    assert error.message == f"postgres://127.0.0.1:{port}/mine cannot be reached."
    refused(f"postgres://somebody:{SECRET}@/mine?host=/nowhere")


def test_a_wrong_password_and_a_wrong_database(admin: Database) -> None:
    """The login is refused in our words; the server's name the user."""
    server, folder = running_postgres.server(), running_postgres._running[0][1]
    rules = folder / "postgres" / "pg_hba.conf"
    rules.write_text("local all somebody scram-sha-256\n" + rules.read_text())
    admin.fetch("SELECT pg_reload_conf()")
    admin.run("CREATE ROLE somebody LOGIN PASSWORD 'right'")
    host = server.url("x", "y").partition("?")[2]
    right, wrong = (
        f"postgres://somebody:right@/postgres?{host}",
        f"postgres://somebody:{SECRET}@/postgres?{host}",
    )
    deadline = time.monotonic() + 10  # the rules are read again when the server comes to it
    while "refused the login" not in refused(wrong).message:
        assert time.monotonic() < deadline
    with pytest.raises(StoreWriteError, match="does not let this user write"):
        open_postgres({"url": right})
    assert "no such database" in refused(running_postgres.url().replace("/postgres?", "/nobodys?")).message


@pytest.mark.parametrize(
    "url",
    [
        f"postgres://somebody:{SECRET}@host:port/mine",
        f"postgres://somebody:x/{SECRET}@host/mine",
        f"postgres://somebody:x?{SECRET}@host/mine",
        f"postgres://somebody:x#{SECRET}@host/mine",
        f"postgres://somebody:{SECRET}@[broken/mine",
        f"postgres://somebody:{SECRET}@127.0.0.1:1/mine?sslmode=nonsense",
        f"postgres://127.0.0.1:1/mine?user=somebody&password={SECRET}",
    ],
)
def test_a_strange_url_shows_nothing(url: str) -> None:
    """However it is broken: neither the error nor what a store would be called holds the password."""
    refused(url)
    assert SECRET not in shown(url)
    assert "somebody" not in shown(url)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"url": 5},
        {"url": f"mysql://{SECRET}"},
        {"url": f"postgres://{SECRET}", "prefix": "1x"},
        {"url": f"postgres://{SECRET}", "prefix": "x" * 41},
        {"url": f"postgres://{SECRET}", "prefix": 'x"; DROP TABLE y'},
        {"url": f"postgres://{SECRET}", "password": SECRET},
    ],
)
def test_options_that_cannot_be(options: dict[str, object]) -> None:
    """They are refused before anything is connected to."""
    with pytest.raises(SelectionError) as caught:
        open_postgres(options)
    assert SECRET not in str(caught.value)


def test_chosen_by_its_name(tmp_path: Path) -> None:
    """A selection with a variable opens it; the flags lead back, the name shows no login."""
    options = {"url": {"env": "MY_URL"}}
    environ = {"MY_URL": running_postgres.url()}
    store = open_driver(DriverSelection("postgres", options), environ)
    try:
        assert isinstance(store, PostgresStore)
        assert store.flags == ("--storage", '{"driver": "postgres", "options": {"url": {"env": "MY_URL"}}}')
        assert store.name == "postgres:///postgres"
        assert not store.syncs
    finally:
        store.close()
    prefixed = running_postgres.opened(tmp_path)
    assert prefixed.name == f"postgres:///postgres ({running_postgres.prefix(tmp_path)})"
    prefixed.close()


def test_many_first_openings_at_once(tmp_path: Path) -> None:
    """The tables are made once, and everybody can write."""

    def first(number: int) -> None:
        made(running_postgres.opened(tmp_path), f"s{number}")

    running_postgres.server()
    children = [forked(lambda number=number: first(number)) for number in range(4)]  # type: ignore[misc]  # bound per child
    assert [status(child) for child in children] == [0] * 4
    store = running_postgres.opened(tmp_path)
    assert len(list(store.listed())) == 4
    store.close()


def test_a_first_opening_waits_for_another(tmp_path: Path, admin: Database) -> None:
    """Until the other has made the tables, which it then finds."""
    other = Database(running_postgres.url(), running_postgres.prefix(tmp_path))
    opened: list[PostgresStore] = []
    second = threading.Thread(target=lambda: opened.append(running_postgres.opened(tmp_path)))
    with other.transaction():
        prepare(other)
        second.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        deadline = time.monotonic() + 10
        while not (found := admin.one(waiting)) or not found[0]:
            assert time.monotonic() < deadline
    second.join(10)
    other.close()
    (store,) = opened
    assert list(store.listed()) == []
    store.close()


def test_prefixes_are_stores_of_their_own(tmp_path: Path) -> None:
    """In one database; big and small letters are two prefixes."""
    url = running_postgres.url()
    stores = [open_postgres({"url": url, "prefix": prefix}) for prefix in ("Own_", "own_", "own_2_")]
    try:
        for store in stores:
            made(store)
        stores[0].delete(SessionKey("atomic", UUID))
        assert [len(list(store.listed())) for store in stores] == [0, 1, 1]
    finally:
        for store in stores:
            store.close()


def test_newer_and_foreign_tables_are_refused(tmp_path: Path, admin: Database, store: PostgresStore) -> None:
    """Both are left as they are."""
    key = made(store)
    store.database.run('UPDATE "{p}session_meta" SET value = 2')
    assert "newer version" in refused(running_postgres.url(), prefix=store.database.prefix).message
    assert ids(list(store.read(key))) == WHOLE
    for number, columns in enumerate(("x int", "name text, value bigint")):
        admin.run(f'CREATE TABLE "foreign{number}_session_meta" ({columns})')
        error = refused(running_postgres.url(), prefix=f"foreign{number}_")
        assert "not those that we make" in error.message


def test_hung_up_between_two_calls(store: PostgresStore, admin: Database) -> None:
    """The next call connects again, whether it reads or writes."""
    key = made(store)
    hang_up(store, admin)
    assert ids(list(store.read(key))) == WHOLE
    hang_up(store, admin)
    store.append(key, turn(1, "a0.1"))
    hang_up(store, admin)
    assert store.leaf(key) == "a1.1"


def test_hung_up_unnoticed(store: PostgresStore, admin: Database) -> None:
    """A statement that meets the end of the connection first is asked again."""
    key = made(store)
    loop, noticing = store.database._loop, threading.Event()
    assert loop is not None
    pid = store.database.one("SELECT pg_backend_pid()")
    assert pid is not None
    loop.call_soon_threadsafe(noticing.wait)
    admin.fetch("SELECT pg_terminate_backend($1, 5000)", pid[0])
    threading.Timer(0.1, noticing.set).start()
    assert store.leaf(key) == "a0.1"


def test_hung_up_within_a_change(store: PostgresStore, admin: Database) -> None:
    """It raises and has changed nothing, and the next call works."""

    def entries() -> Iterator[Entry]:
        yield message("a", None, "x" * postgres_entries.MOST_BYTES)
        hang_up(store, admin)
        yield message("b", "a", "y")

    with pytest.raises(StoreUnavailableError, match="nothing was changed"):
        store.create(facts(store), entries())
    assert list(store.listed()) == []
    assert ids(list(store.read(made(store)))) == WHOLE


def test_hung_up_while_it_is_kept(store: PostgresStore, admin: Database) -> None:
    """Nobody can know what became of it, so that is said; doing it again enters it once."""
    key = made(store)
    prefix = store.database.prefix
    admin.run(
        f"CREATE FUNCTION {prefix}end() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        f' CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON "{prefix}session_entries"'
        f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {prefix}end()"
    )
    with pytest.raises(StoreUnavailableError, match="not known"):
        store.append(key, turn(1, "a0.1"))
    admin.run(f'DROP TRIGGER at_commit ON "{prefix}session_entries"')
    assert ids(list(store.read(key))) == WHOLE
    store.append(key, turn(1, "a0.1"))
    store.append(key, turn(1, "a0.1"))
    assert ids(list(store.read(key))) == [*WHOLE, "u1", "a1.1"]


def test_the_server_is_killed_and_comes_back(store: PostgresStore, tmp_path: Path) -> None:
    """While it is away every call says so; then the store goes on, with all that was entered."""
    key = made(store)
    dead = running_postgres.server().pid
    os.kill(dead, signal.SIGKILL)
    deadline = time.monotonic() + 60
    # What served this connection outlives the server it came from by a moment, so the new server is waited for first.
    while True:
        assert time.monotonic() < deadline
        try:
            if running_postgres.server().pid != dead:
                store.append(key, turn(1, "a0.1"))
                running_postgres.opened(tmp_path / "another").close()
                break
        except StoreUnavailableError:
            pass
        time.sleep(0.05)
    assert ids(list(store.read(key))) == [*WHOLE, "u1", "a1.1"]


def test_killed_in_the_middle_of_a_large_turn(store: PostgresStore, tmp_path: Path) -> None:
    """Whenever it is: the session has all of it or nothing."""
    key = made(store)
    large = [message(f"e{n}", f"e{n - 1}" if n else "a0.1", "x" * 500, at=NOW + n) for n in range(3000)]
    for milliseconds in range(0, 400, 40):
        child = forked(lambda: running_postgres.opened(tmp_path).append(key, large))
        time.sleep(milliseconds / 1000)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert len(list(store.read(key))) in {2, 2 + len(large)}
    store.append(key, large)
    assert ids(list(store.read(key))) == [*WHOLE, *ids(large)]
    row = store.get(key)
    assert row is not None
    assert row.messages == 2 + len(large)


def test_a_refused_write(store: PostgresStore) -> None:
    """A full disk or a server that only reads is told as a write that failed; nothing is changed."""
    key = made(store)
    prefix = store.database.prefix
    read_only = open_postgres(
        {"url": f"{running_postgres.url()}&default_transaction_read_only=on", "prefix": prefix}
    )
    assert ids(list(read_only.read(key))) == WHOLE
    with pytest.raises(StoreWriteError, match="can only be read"):
        read_only.append(key, turn(1, "a0.1"))
    read_only.close()
    store.database.run(
        f"CREATE FUNCTION {prefix}full() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'secret words' USING ERRCODE = '53100'; END $$;"
        f' CREATE TRIGGER full_now BEFORE INSERT ON "{prefix}session_entries"'
        f" EXECUTE FUNCTION {prefix}full()"
    )
    with pytest.raises(StoreWriteError, match=r"disk of .* is full") as caught:
        store.append(key, turn(1, "a0.1"), done=["t"])
    assert "secret words" not in "".join(traceback.format_exception(caught.value))
    assert ids(list(store.read(key))) == WHOLE


def test_text_of_any_kind(store: PostgresStore) -> None:
    """NULs and lone surrogates in ids, folders, names and prompts come back as they were, in lists too."""
    odd = "a\x00b\ud83d'\"{p}%s é\U0001f600"
    known = Facts("atomic", odd, odd, f"/{odd}", f"path:/{odd}", NOW, odd, header=b"\x00\xff")
    name = b'{"type":"session_info","id":"n","name":"x\\u0000y\\ud83d"}'
    entries = [
        Entry(odd, None, 0, NOW, message("m", None, odd).raw),
        Entry("n", odd, 1, NOW + 1, name),
        Entry("z", "gone\ud83d", 2, NOW + 2, b"\x00\xff no json", loose=True),
    ]
    row = store.create(known, entries)
    assert (row.facts, row.newest_id) == (known, odd)
    assert list(store.read(row.key)) == entries
    assert list(store.listed(project=known.project, folder=known.cwd)) == [row]
    assert branch(store, row.key, "n") == entries[:2]
    store.move(row.key, odd)
    assert store.leaf(row.key) == odd
    begun = Begun(known, odd, NOW, entries[:1])
    store.begin("t", row.key, begun)
    (flight,) = store.pending()
    assert (flight.source, flight.begun) == (row.key, begun)
    store.begin("its first", None, begun)
    assert store.claim(row.key, NOW) is None
    store.delete(row.key)
    assert store.pending() == []


def test_names_longer_than_an_index_takes(store: PostgresStore) -> None:
    """Ids and folders are other programs' text, of any length and of no pattern that could be packed."""
    long = "".join(random.Random(3).choices(string.printable, k=9000))
    known = Facts("atomic", long, long, long, long, NOW)
    entries = [Entry(long, None, 0, NOW, b"1"), Entry(long[1:], long, 1, NOW + 1, b"2")]
    row = store.create(known, entries)
    assert store.find(long, long) == row
    assert branch(store, row.key, long[1:]) == entries
    store.append(row.key, entries)
    assert list(store.read(row.key)) == entries


def test_lists_are_in_the_one_order(store: PostgresStore) -> None:
    """Equal times too: what SQL sorts is what `rows.newest_first` sorts."""
    for number in range(30):
        at = NOW + number % 3
        made(store, f"s{number * 7 % 30}é\ud800" if number % 2 else f"S{number}", at=at)
        if number % 5 == 0:
            store.create(facts(store, f"empty{number}", at=at))
    found = list(store.listed())
    assert len(found) == 36
    assert found == newest_first(reversed(found))


def test_a_large_session_is_read_in_pieces(store: PostgresStore) -> None:
    """Sixty megabytes pass through few at a time, up the branch too; so they do when they come in."""
    text = "x" * 1_000_000

    def entries() -> Iterator[Entry]:
        for n in range(60):
            yield message(f"e{n}", f"e{n - 1}" if n else None, text, at=NOW + n)

    tracemalloc.start()
    try:
        key = store.create(facts(store), entries()).key
        assert sum(len(entry.raw) for entry in store.read(key)) > 60_000_000
        assert sum(1 for _ in store.climb(key, "e59")) == 60
        assert [hit.row.key for hit in store.search("nothing")] == []
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_climb_asks_for_what_is_looked_at(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first entries of a deep branch cost one small question, all of it a few."""
    chain = (message(f"e{n}", f"e{n - 1}" if n else None, "x", at=NOW + n) for n in range(5000))
    key = store.create(facts(store), chain).key
    asked: list[int] = []
    fetch = store.database.fetch

    def counted(statement: str, *values: object) -> object:
        found = fetch(statement, *values)
        asked.append(len(found))
        return found

    monkeypatch.setattr(store.database, "fetch", counted)
    climb = store.climb(key, "e4999")
    assert [next(climb).id, next(climb).id] == ["e4999", "e4998"]
    assert len(asked) == 1
    assert asked[0] < 500
    assert sum(1 for _ in climb) == 4998
    assert len(asked) < 12
    assert store.ends(key) == 1


def test_a_search_reads_what_may_match(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many lines only those with all the words are sent, whatever their alphabet; a phrase is looked at here."""
    lines = [
        message(f"e{n}", None, f"common word{n} Größe日本{n} \U0001d4d0{n}", at=NOW + n) for n in range(300)
    ]
    key = store.create(facts(store), lines).key
    sent: list[Entry] = []
    make = postgres_entries._entry

    def made_of(found: Record) -> Entry:
        sent.append(make(found))
        return sent[-1]

    for number in range(5):
        made(store, f"other{number}")
    asked: list[str] = []
    fetch = store.database.fetch

    def counted(statement: str, *values: object) -> list[Record]:
        asked.append(statement)
        return fetch(statement, *values)

    monkeypatch.setattr(postgres_entries, "_entry", made_of)
    monkeypatch.setattr(store.database, "fetch", counted)
    for query in ("word77", "common WORD77", "größe日本77", "\U0001d4d077", '"common word77"'):
        sent.clear()
        assert [(hit.row.key, hit.entry) for hit in store.search(query)] == [(key, "e77")]
        assert ids(sent) == ["e77"]
    assert len(asked) <= 5 * 5, "the other sessions are not looked into"
    sent.clear()
    assert list(store.search('"word77 common"')) == []
    assert list(store.search("word777 common")) == []
    assert ids(sent) == ["e77"]


def test_words_that_no_index_takes(store: PostgresStore) -> None:
    """A word of any length, and a text of more words than fit, are found as any other."""
    long = "é日" * 3000
    many = " ".join(f"日日日{n}" for n in range(90_000))
    store.create(facts(store), [message("long", None, f"begin {long} end"), message("many", None, many)])
    assert [hit.entry for hit in store.search(long)] == ["long"]
    assert [hit.entry for hit in store.search(long[:5000])] == ["long"]
    assert list(store.search(f"{long[:5000]} end")) == []
    assert [hit.entry for hit in store.search("日日日89999 日日日5")] == ["many"]


def test_lines_with_one_id_in_any_order(store: PostgresStore) -> None:
    """The union is that of `merge` though it comes in parts, and the row is made anew when a line moved."""
    lines = [message("same", "u0", f"text {n}", at=NOW + 10 * n) for n in range(4)]
    keys = [made(store, f"s{n}") for n in range(4)]
    for shift, key in enumerate(keys):
        for entry in lines[shift:] + lines[:shift]:
            store.append(key, [entry])
    found = [{entry.id: entry.raw for entry in store.read(key)} for key in keys]
    assert all(one == found[0] for one in found)
    assert len(found[0]) == 6
    before = list(store.read(keys[0]))
    for entry in lines:
        store.append(keys[0], [entry])
    assert list(store.read(keys[0])) == before
    rows = [store.get(key) for key in keys]
    assert {(row.messages, row.newest_at, row.newest_id) for row in rows if row} == {
        (6, rows[0].newest_at, rows[0].newest_id) if rows[0] else None
    }


def test_many_threads_on_one_store(store: PostgresStore) -> None:
    """Each turn is whole; nobody waits for ever."""
    key = made(store)

    def write(who: int) -> None:
        for number in range(10):
            store.append(key, turn(who + number, "a0.1", lines=3))

    threads = [threading.Thread(target=write, args=(who,)) for who in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    order = ids(list(store.read(key)))
    assert len(order) == 2 + 3 * 10 * 3
    for at in range(2, len(order), 3):
        assert order[at : at + 3] == ids(turn(int(order[at][1:]), None, lines=3))


async def test_used_by_a_program_with_a_loop_of_its_own(store: PostgresStore) -> None:
    """A call from within a running event loop works as any other."""
    await asyncio.sleep(0)
    assert ids(list(store.read(made(store)))) == WHOLE


def test_copied_within_one_store(store: PostgresStore) -> None:
    """A session that is made from another's entries reads them while it is written."""
    key = made(store, turns=3)
    row = store.create(facts(store, OTHER), store.read(key))
    assert [entry.raw for entry in store.read(row.key)] == [entry.raw for entry in store.read(key)]


def test_a_forked_child_connects_itself(store: PostgresStore) -> None:
    """The parent's connection stays the parent's."""
    key = made(store)
    assert ended(lambda: store.append(key, turn(1, "a0.1"))) == 0
    store.append(key, turn(2, "a1.1"))
    assert ids(list(store.read(key))) == [*WHOLE, "u1", "a1.1", "u2", "a2.1"]


def test_interrupted_while_it_waits(store: PostgresStore, admin: Database) -> None:
    """Ctrl-C ends a call that waits for another, writing or reading; nothing is changed and the store goes on."""
    key = made(store)
    with admin.transaction():
        admin.run(f'LOCK TABLE "{store.database.prefix}session_sessions"')
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            store.get(key)
    assert store.leaf(key) == "a0.1"
    with admin.transaction():
        admin.run(f'UPDATE "{store.database.prefix}session_sessions" SET messages = messages')
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            store.append(key, turn(1, "a0.1"))
    assert ids(list(store.read(key))) == WHOLE
    store.append(key, turn(2, "a0.1"))
    assert ids(list(store.read(key))) == [*WHOLE, "u2", "a2.1"]


def test_kept_though_the_database_is_told_not_to_wait(tmp_path: Path) -> None:
    """Where commits return early for others, ours do not."""
    url = f"{running_postgres.url()}&synchronous_commit=off"
    store = open_postgres({"url": url, "prefix": running_postgres.prefix(tmp_path)})
    found = store.database.one("SHOW synchronous_commit")
    store.close()
    assert found is not None
    assert found[0] == "on"


def test_closed(store: PostgresStore) -> None:
    """A closed store answers nothing, and closing it again is nothing."""
    store.close()
    store.close()
    with pytest.raises(StoreUnavailableError, match="was closed"):
        store.get(SessionKey("atomic", UUID))
