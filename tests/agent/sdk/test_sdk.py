"""The door for programs: which store and session, whose they stay, how a turn ends, what is never shown."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.sdk.conftest import Shelf
from agent.sdk.scripted import Model, answer, told, user
from agent.stores.port.children import ended, living
from agent.turns.machines import CANARY
from atomic_agent import sdk
from atomic_agent.demo.provider import DemoProvider
from atomic_agent.sdk import (
    AmbiguousError,
    AtomicError,
    BadSessionFileError,
    BusyError,
    Event,
    Marking,
    NotFoundError,
    ProviderError,
    Request,
    SessionExistsError,
    SessionManager,
    StoreWriteError,
    Text,
    TextDelta,
    UnsupportedError,
    UsageError,
    create_agent_session,
    now_ms,
    open_session_store,
)
from atomic_agent.stores.jsonl import JsonlStore
from atomic_agent.stores.memory import MemoryStore
from atomic_sessions import compose
from atomic_sessions.errors import CacheRefusedError

SECRET = "the word is zebra"


class Watched(MemoryStore):
    """Tells whether it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def settings(at: Path, value: Mapping[str, Any]) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(json.dumps(value))


# Turns.


def test_a_conversation_and_its_next_day(shelf: Shelf) -> None:
    """A turn is in the store when `prompt` returns; the next program goes on with all of it."""
    model, heard = Model(), list[Event]()
    with create_agent_session(session_store=shelf.store, stream=model, name="greeting") as session:
        turn = session.prompt("hello", heard.append)
        assert (turn.text, session.manager.leaf) == ("answer 1 to: hello", turn.entry)
        assert TextDelta("answer 1 to: hello") in heard
        assert session.manager.name == "greeting"
    with create_agent_session(session_store=shelf.again(), stream=model, continue_recent=True) as again:
        assert again.id == session.id
        assert again.prompt("more").text == "answer 2 to: more"


def test_a_real_provider_over_http(provider: DemoProvider) -> None:
    """`environ` holds its key and address; it is sent the whole conversation."""
    environ = {"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": provider.openai_url}
    with create_agent_session(session_store={"memory": True}, environ=environ) as session:
        session.prompt("one")
        turn = session.prompt("two")
        assert turn.text == "Answer 2: 2 user, 1 assistant, 0 tool; you said: two"
        assert (turn.provider, session.manager.context().settings.provider) == ("openai", "openai")


def test_what_falls_back_is_told(provider: DemoProvider) -> None:
    """A model of the session that cannot be asked here is named to `notify`, and another answers."""
    environ = {"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": provider.openai_url}
    said: list[str] = []
    manager = SessionManager.create(MemoryStore())
    manager.append_message(answer("hi"))
    with create_agent_session(session_manager=manager, environ=environ, notify=said.append) as session:
        assert session.prompt("hello").provider == "openai"
    assert (len(said), "ANTHROPIC_API_KEY" in said[0]) == (1, True)


def test_a_failed_turn_leaves_nothing(shelf: Shelf, provider: DemoProvider) -> None:
    """ProviderError with its status; nothing is entered or in flight, and the next prompt works."""
    environ = {"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": provider.openai_url}
    with create_agent_session(session_store=shelf.store, environ=environ) as session:
        with pytest.raises(ProviderError) as refused:
            session.prompt("[[status: 400]]")
        assert refused.value.status == 400
        assert (list(shelf.store.listed()), shelf.store.pending()) == ([], [])
        assert session.prompt("again").text.startswith("Answer 2: 1 user")


def test_what_a_listener_raises_ends_the_turn(shelf: Shelf) -> None:
    """A program's own error comes through, and nothing of the turn stays."""

    def stop(_: Event) -> None:
        raise LookupError("enough")

    with create_agent_session(session_store=shelf.store, stream=Model()) as session:
        with pytest.raises(LookupError):
            session.prompt("hello", stop)
        assert (session.manager.saved, shelf.store.pending()) == (False, [])
        assert session.prompt("hello").text == "answer 1 to: hello"


def test_no_key_is_a_provider_error() -> None:
    """Told which variables would do."""
    with (
        create_agent_session(session_store={"memory": True}, environ={}) as session,
        pytest.raises(ProviderError, match="OPENAI_API_KEY"),
    ):
        session.prompt("hello")


def test_models_and_efforts_are_written_down() -> None:
    """`set_model` holds from the next prompt on, and what it leaves out stays."""
    model = Model()
    with create_agent_session(
        session_store={"memory": True}, stream=model, provider="mine", model="a"
    ) as session:
        session.prompt("one")
        session.set_model(model="b", effort="high")
        session.prompt("two")
        said = session.manager.context().settings
        assert (said.provider, said.model, said.effort) == ("mine", "b", "high")
        assert [request.model for request in model.requests] == ["a", "b"]
        with create_agent_session(session_manager=session.manager, stream=model) as again:
            again.prompt("three")
        assert model.requests[-1].effort == "high"


def test_a_programs_model_is_not_what_a_person_picked(tmp_path: Path) -> None:
    """Nothing is written to the picks of the next launch."""
    with create_agent_session(session_store={"dir": "kept"}, stream=Model()) as session:
        session.prompt("hello")
    assert not (tmp_path / "home" / ".atomic" / "picks.json").exists()


# Which session.


def test_selectors(shelf: Shelf) -> None:
    """Each by the rules of the flag of its name."""
    given: dict[str, Any] = {"session_store": shelf.store, "stream": Model()}
    with create_agent_session(session_id="nightly", **given) as made:
        made.prompt("hello")
    with create_agent_session(session_id="nightly", **given) as same:
        assert same.manager.leaf == made.manager.leaf
    with create_agent_session(session="nightly", **given) as same:
        assert same.id == "nightly"
    with create_agent_session(fork="nightly", session_id="copy", name="mine", **given) as copy:
        assert (copy.id, copy.manager.name) == ("copy", "mine")
        assert copy.prompt("more").text == "answer 2 to: more"
    with pytest.raises(SessionExistsError):
        create_agent_session(fork="nightly", session_id="copy", **given)
    with pytest.raises(NotFoundError):
        create_agent_session(session="nobody", **given)


def test_a_short_id_that_fits_two(shelf: Shelf) -> None:
    """AmbiguousError with both."""
    for tail in ("70af-aa13-6f2a524f0b20", "70af-aa13-6f2a524f0b21"):
        with SessionManager.create(shelf.store, session_id=f"01a22c81-7192-{tail}") as manager:
            manager.append_message(user("hello"))
    with pytest.raises(AmbiguousError, match="4f0b21"):
        create_agent_session(session="01a22c81", session_store=shelf.store)


def test_import_file(shelf: Shelf, tmp_path: Path) -> None:
    """Under its own id, which must be free; what is no session file is refused by name."""
    file = tmp_path / "one.jsonl"
    manager = SessionManager.create(MemoryStore(), session_id="brought")
    manager.append_message(user("hello"))
    manager.append_message(answer("hi"))
    file.write_bytes(b"\n".join([manager.header, *(entry.raw for entry in manager.entries())]) + b"\n")
    with create_agent_session(import_file=file, session_store=shelf.store, stream=Model()) as session:
        assert session.id == "brought"
        assert [e.raw for e in session.manager.entries()] == [e.raw for e in manager.entries()]
        assert session.prompt("more").text == "answer 2 to: more"
    with pytest.raises(SessionExistsError):
        create_agent_session(import_file=file, session_store=shelf.store)
    file.write_text("not a session")
    with pytest.raises(BadSessionFileError):
        create_agent_session(import_file=file, session_store=shelf.store)


@pytest.mark.parametrize(
    "given",
    [
        {"session": "a", "continue_recent": True},
        {"fork": "a", "session": "b"},
        {"session_id": "a", "session": "b"},
        {"import_file": "f", "fork": "a"},
        {"session_manager": SessionManager.create(MemoryStore()), "session_store": {"memory": True}},
        {"session_manager": SessionManager.create(MemoryStore()), "session": "a"},
        {"session": "a", "stage": Marking("r", "s", "n")},
        {"session_manager": SessionManager.create(MemoryStore()), "stage": Marking("r", "s", "n")},
        {"session_id": "a/b", "session_store": {"memory": True}},
        {"stage": Marking("r", " ", "n"), "session_store": {"memory": True}},
        {"session_store": "kept"},
        {"session_store": {"kind": "tape"}},
        {"session_store": {"kind": "jsonl"}},
        {"session_store": {"dir": "a", "path": "b"}},
    ],
    ids="-".join,
)
def test_what_cannot_go_together(given: dict[str, Any]) -> None:
    """UsageError before anything is opened or made."""
    with pytest.raises(UsageError):
        create_agent_session(**given)
    assert list(Path.cwd().iterdir()) == []


def test_stage_sessions_are_internal(shelf: Shelf) -> None:
    """Not listed and not continued; opened by id."""
    given: dict[str, Any] = {"session_store": shelf.store, "stream": Model()}
    with create_agent_session(stage=Marking("run", "one", "First"), **given) as session:
        session.prompt("hello")
    assert list(shelf.store.listed()) == []
    with create_agent_session(continue_recent=True, **given) as other:
        assert other.id != session.id
    with create_agent_session(session=session.id, **given) as again:
        assert again.prompt("more").text == "answer 2 to: more"


# Whose the store is, and which one.


def test_a_store_that_was_handed_in_stays_its_owners() -> None:
    """It is used as it is and never closed, whether the call works or fails."""
    store = Watched()
    assert open_session_store(store) is store
    with create_agent_session(session_store=store, stream=Model()) as session:
        session.prompt("hello")
    with pytest.raises(NotFoundError):
        create_agent_session(session_store=store, session="nobody")
    assert store.closed == 0
    assert len(list(store.listed())) == 1


def test_a_session_manager_bypasses_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever variables say, broken ones too; its claim is given back and its store stays open (B13)."""
    monkeypatch.setenv("ATOMIC_STORAGE", "not JSON")
    store = Watched()
    manager = SessionManager.create(store)
    with create_agent_session(session_manager=manager, stream=Model(), name="mine") as session:
        session.prompt("hello")
        assert (session.manager, session.store) == (manager, store)
    assert (store.closed, manager.name) == (0, "mine")
    assert manager.append_message(user("still open")) == manager.leaf
    with pytest.raises(UsageError):
        create_agent_session()


def test_a_store_we_opened_is_closed_with_the_session() -> None:
    """Closing twice is closing once, and a prompt afterwards is a UsageError."""
    session = create_agent_session(session_store={"path": "kept.sqlite"}, stream=Model())
    session.prompt("hello")
    session.close()
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.prompt("more")


@pytest.mark.parametrize(
    ("variables", "everywhere", "given", "goes"),
    [
        ({}, {}, None, "home/.atomic/workflows/journal.sqlite"),
        ({}, {"storage": {"dir": "shared"}}, None, "home/.atomic/shared"),
        ({}, {"storage": {"dir": "a"}, "sessions": {"storage": {"dir": "b"}}}, None, "home/.atomic/b"),
        (
            {"ATOMIC_CODING_AGENT_SESSION_DIR": "from-env"},
            {"sessions": {"storage": {"dir": "b"}}},
            None,
            "project/from-env",
        ),
        (
            {"ATOMIC_CODING_AGENT_SESSION_DIR": "from-env"},
            {},
            {"dir": "from-program"},
            "project/from-program",
        ),
    ],
    ids=["default", "storage", "sessions.storage", "variable over setting", "program over variable"],
)
def test_precedence(
    variables: Mapping[str, str],
    everywhere: Mapping[str, Any],
    given: Mapping[str, object] | None,
    goes: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first that is set decides (B11); the way back names where it went."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings(tmp_path / "home" / ".atomic" / "agent" / "settings.json", everywhere)
    with create_agent_session(session_store=given, stream=Model()) as session:
        assert session.resume_command is None  # nothing is kept yet
        session.prompt("hello")
        words = shlex.split(session.resume_command or "")
    flag = "--session-store" if goes.endswith(".sqlite") else "--session-dir"
    assert words == ["atomic", flag, str(tmp_path / goes), "--session", session.id]
    assert (tmp_path / goes).exists()


def test_what_is_not_kept_has_no_way_back() -> None:
    """Memory ends with the program."""
    with create_agent_session(session_store={"memory": True}, stream=Model()) as session:
        session.prompt("hello")
        assert session.resume_command is None


def test_a_projects_settings_count_once_it_is_trusted(project: Path) -> None:
    """Until then one line says that they are ignored (B5)."""
    settings(project / ".atomic" / "settings.json", {"sessions": {"storage": {"dir": "theirs"}}})
    told: list[str] = []
    store = open_session_store(notify=told.append)
    assert "journal.sqlite" in " ".join(store.flags)
    assert (len(told), "atomic trust" in told[0]) == (1, True)
    store.close()
    trusted = open_session_store(trust_project=True, notify=told.append)
    assert trusted.flags[0] == "--session-dir"
    assert len(told) == 1


@pytest.mark.parametrize(
    ("given", "error"),
    [({"dir": "file/below"}, StoreWriteError), ({"path": "file"}, CacheRefusedError)],
    ids=["folder", "sqlite"],
)
def test_a_store_that_cannot_be_opened_is_an_error(
    given: Mapping[str, object], error: type[AtomicError], project: Path
) -> None:
    """Never another store instead (B2), and what is there stays as it was."""
    (project / "file").write_text("x" * 5000)
    with pytest.raises(error):
        create_agent_session(session_store=given, stream=Model())
    assert [path.name for path in project.iterdir()] == ["file"]
    assert (project / "file").read_text() == "x" * 5000


def test_what_a_store_notices_is_told(project: Path) -> None:
    """A damaged Atom file is said in a line, and the conversation is fresh."""
    (project / "session.json").write_text("{")
    said: list[str] = []
    open_session_store({"atom": "session.json"}, notify=said.append).close()
    assert len(said) == 1


def test_a_failed_opening_closes_what_it_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of ours is not left open."""
    closed: list[object] = []
    monkeypatch.setattr(JsonlStore, "close", lambda store: closed.append(store))  # noqa: PLW0108  # a builtin does not bind
    with pytest.raises(NotFoundError):
        create_agent_session(session_store={"dir": "kept"}, session="nobody")
    assert len(closed) == 1


def test_another_process_has_it() -> None:
    """BusyError, until it is taken over; a failed opening leaves no claim."""
    with create_agent_session(session_store={"dir": "kept"}, stream=Model()) as session:
        session.prompt("hello")
    given: dict[str, Any] = {"session_store": {"dir": "kept"}, "session": session.id, "stream": Model()}
    with living(lambda: create_agent_session(**given)):
        with pytest.raises(BusyError):
            create_agent_session(**given)
        manager = SessionManager.open(open_session_store({"dir": "kept"}), session.id)
        with pytest.raises(BusyError):
            create_agent_session(session_manager=manager, stream=Model())
        with create_agent_session(take_over=True, **given) as taken:
            taken.prompt("mine")


def test_an_answer_that_was_complete_when_its_process_died_is_entered() -> None:
    """The next program finds it in the session (A1)."""
    kept = {"dir": "kept"}

    def die() -> None:
        talk = SessionManager.create(open_session_store(kept), session_id="left").talk
        draft = talk.draft(now_ms())
        draft.add(lambda i, p, at: compose.message(i, p, at, compose.user(at, [Text("hello")])))
        talk.begin(draft, "hello", now_ms())
        talk.answered(draft.add(lambda i, p, at: compose.message(i, p, at, dict(answer("hi")))))

    assert ended(die) == 0
    with create_agent_session(session_store=kept, continue_recent=True, stream=Model()) as session:
        assert session.id == "left"
        assert session.prompt("more").text == "answer 2 to: more"


def test_another_agents_session_goes_on_in_a_new_one(shelf: Shelf, tmp_path: Path) -> None:
    """Its context is read and can be branched in; opening alone writes nothing. A folder of JSONL files, which takes no
    lines of other agents, refuses it and stays empty."""
    file = tmp_path / "0a1b2c3d-7192-40af-aa13-6f2a524f0b20.jsonl"
    lines: list[dict[str, Any]] = [
        {"uuid": "u1", "parentUuid": None, "type": "user", "message": {"role": "user", "content": "hello"}},
        {
            "uuid": "a1",
            "parentUuid": "u1",
            "type": "assistant",
            "message": {
                "id": "m",
                "role": "assistant",
                "model": "c",
                "content": [{"type": "text", "text": "hi"}],
            },
        },
    ]
    more = {"sessionId": file.stem, "cwd": "/work", "version": "2", "timestamp": "2026-11-30T20:00:00.000Z"}
    file.write_text("".join(json.dumps({**line, **more}) + "\n" for line in lines))
    if shelf.kind == "jsonl":
        with pytest.raises(UnsupportedError):
            create_agent_session(import_file=file, session_store=shelf.store, stream=Model())
        assert list(shelf.store.listed()) == []
        return
    with create_agent_session(import_file=file, session_store=shelf.store, stream=Model()) as session:
        manager = session.manager
        assert (manager.saved, session.id != file.stem) == (False, True)
        read = [("user", "hello"), ("assistant", "hi")]
        assert told(manager.context().messages) == read
        assert [entry.id for entry in manager.entries()] == [entry.id for entry in manager.path()]
        assert len(list(shelf.store.listed())) == 1
        last = manager.path()[-1].id
        assert (manager.select(last), manager.select(manager.path()[0].id)) == (None, "hello")
        manager.branch(last)
        assert session.prompt("more").text == "answer 2 to: more"
        assert told(manager.context(last).messages) == read


# What is never shown, and what it costs.


def test_nothing_is_printed_or_shown(shelf: Shelf, capfd: pytest.CaptureFixture[str]) -> None:
    """The SDK says nothing on stdout or stderr, and no `repr` or error holds what was said."""

    def broken(request: Request) -> Iterator[Event]:
        raise ProviderError("It failed.", status=500)
        yield

    shown: list[str] = []
    with create_agent_session(session_store=shelf.store, stream=Model()) as session:
        turn = session.prompt(SECRET)
        shown += [repr(session), repr(session.manager), repr(session.manager.context())]
        session._stream = broken
        with pytest.raises(ProviderError) as failed:
            session.prompt(SECRET)
        shown += [repr(failed.value), str(failed.value)]
    assert "zebra" in turn.text
    assert "zebra" not in "".join(shown)
    assert capfd.readouterr() == ("", "")


def test_it_is_light_to_import() -> None:
    """No client of a provider, no HTTP, no screen before they are needed."""
    code = (
        "import sys, atomic_agent.sdk;"
        "print({'anthropic','openai','httpx','textual','asyncpg','keyring'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout == "set()\n"


def test_what_is_exported_is_there() -> None:
    """Every name of the list, in order, and no clock that runs backwards."""
    assert [name for name in sdk.__all__ if not hasattr(sdk, name)] == []
    assert len(set(sdk.__all__)) == len(sdk.__all__)
    assert now_ms() > 1_700_000_000_000
