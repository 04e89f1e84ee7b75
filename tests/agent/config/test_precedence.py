"""Which store wins: every pair of sources, what is refused, and that what loses is not looked at."""

import contextlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_agent.config.errors import SelectionError, SettingsError
from atomic_agent.config.paths import Folders
from atomic_agent.config.precedence import (
    DEFAULT,
    Flags,
    Sources,
    StorageFile,
    place,
    runs,
    sessions,
)
from atomic_agent.config.selection import (
    AtomSelection,
    CacheSelection,
    DriverSelection,
    FolderSelection,
    MemorySelection,
    OwnSelection,
    SqliteSelection,
)
from atomic_agent.config.settings import SettingsFile

FOLDERS = Folders("/h/.atomic", "/w", "/h")
CACHE = "/h/.atomic/workflows/journal.sqlite"
SECRET = "hunter2-in-a-selection"


class Parts:
    """Sources in the making."""

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        self.environ: dict[str, str] = {}
        self.project: dict[str, Any] = {}
        self.everywhere: dict[str, Any] = {}
        self.sdk: object = None

    def sources(self) -> Sources:
        return Sources(
            FOLDERS,
            Flags(**self.flags),
            self.environ,
            SettingsFile("/w/.atomic/settings.json", self.project),
            SettingsFile("/h/.atomic/agent/settings.json", self.everywhere),
            self.sdk,
        )


def _sdk(parts: Parts, value: str) -> None:
    parts.sdk = {"kind": "jsonl", "dir": value}


def _no_session(parts: Parts, value: str) -> None:
    parts.flags["no_session"] = True


def _flag(name: str) -> Callable[[Parts, str], None]:
    return lambda parts, value: parts.flags.update({name: value})


def _storage(parts: Parts, value: str) -> None:
    parts.flags["storage"] = json.dumps({"dir": value})


def _storage_file(parts: Parts, value: str) -> None:
    parts.flags["storage_file"] = StorageFile("/f.json", json.dumps({"dir": value}))


def _variable(name: str) -> Callable[[Parts, str], None]:
    return lambda parts, value: parts.environ.update({name: json.dumps({"dir": value})})


def _folder_variable(parts: Parts, value: str) -> None:
    parts.environ["ATOMIC_CODING_AGENT_SESSION_DIR"] = value


def _setting(file: str, *, sessions: bool) -> Callable[[Parts, str], None]:
    def put(parts: Parts, value: str) -> None:
        members: dict[str, Any] = getattr(parts, file)
        members.update({"sessions": {"storage": {"dir": value}}} if sessions else {"storage": {"dir": value}})

    return put


ORDER: dict[str, Callable[[Parts, str], None]] = {
    "sdk": _sdk,
    "--no-session": _no_session,
    "--session-dir": _flag("session_dir"),
    "--session-store": _flag("session_store"),
    "--storage": _storage,
    "--storage-file": _storage_file,
    "ATOMIC_SESSIONS_STORAGE": _variable("ATOMIC_SESSIONS_STORAGE"),
    "ATOMIC_CODING_AGENT_SESSION_DIR": _folder_variable,
    "ATOMIC_STORAGE": _variable("ATOMIC_STORAGE"),
    "project sessions.storage": _setting("project", sessions=True),
    "global sessions.storage": _setting("everywhere", sessions=True),
    "project storage": _setting("project", sessions=False),
    "global storage": _setting("everywhere", sessions=False),
}
"""Row B11, first to last; the two settings of one key stand in the order project, global."""

REFUSED = [
    {"--session-dir", "--session-store"},
    {"--no-session", "--session-store"},
    {"--storage", "--storage-file"},
    {"ATOMIC_SESSIONS_STORAGE", "ATOMIC_CODING_AGENT_SESSION_DIR"},
]
SHARED = ("--storage", "--storage-file", "ATOMIC_STORAGE", "project storage", "global storage")
PAIRS = list(itertools.combinations(ORDER, 2))


def _path(selection: object) -> str:
    return str(getattr(selection, "path", type(selection).__name__))


def _set(names: tuple[str, ...]) -> Sources:
    parts = Parts()
    for name in names:
        ORDER[name](parts, f"/{name.replace(' ', '-')}")
    return parts.sources()


def _expected(name: str) -> str:
    return "MemorySelection" if name == "--no-session" else f"/{name.replace(' ', '-')}"


@pytest.mark.parametrize("name", ORDER)
def test_each_source_alone_wins(name: str) -> None:
    """Against nothing every source wins, and what is shared takes workflow runs along."""
    sources = _set((name,))
    assert _path(sessions(sources).selection) == _expected(name)
    assert _path(runs(sources).selection) == (_expected(name) if name in SHARED else CACHE)


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("turned", [False, True])
def test_every_pair(first: str, second: str, turned: bool) -> None:
    """Of two sources the one of the higher rank wins whole, whichever was set first; two of one rank, and flags
    that exclude each other, are an error that names both."""
    sources = _set((second, first) if turned else (first, second))
    if {first, second} in REFUSED:
        with pytest.raises(SelectionError) as caught:
            sessions(sources)
        assert first in str(caught.value)
        assert second in str(caught.value)
        return
    assert _path(sessions(sources).selection) == _expected(first)
    shared = [name for name in (first, second) if name in SHARED]
    assert _path(runs(sources).selection) == (_expected(shared[0]) if shared else CACHE)


def test_nothing_set_is_the_cache() -> None:
    """Without any source both go to the default store, and only then earlier sessions are listed (B4)."""
    found = place(Sources(FOLDERS))
    assert found.sessions.selection == found.runs.selection == CacheSelection(CACHE, earlier=True)
    assert found.sessions.source == DEFAULT


@given(st.permutations(list(ORDER)), st.data())
def test_what_loses_changes_nothing(order: list[str], data: st.DataObject) -> None:
    """However sources are set and in whichever order, the highest rank wins, as if it were alone."""
    chosen = tuple(data.draw(st.lists(st.sampled_from(order), unique=True, min_size=1)))
    if any(pair <= set(chosen) for pair in REFUSED[:3]):
        return
    top = next(name for name in ORDER if name in chosen)
    if set(chosen) >= REFUSED[3] and top in REFUSED[3]:
        return
    assert sessions(_set(chosen)) == sessions(_set((top,)))


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"path": 1}', '{"dir": "a", "path": "b"}'])
def test_what_loses_is_not_looked_at(broken: str) -> None:
    """A broken variable or setting below the winner is no error, so a flag can always overrule it."""
    parts = Parts()
    parts.environ = {"ATOMIC_SESSIONS_STORAGE": broken, "ATOMIC_CODING_AGENT_SESSION_DIR": "x"}
    parts.everywhere = {"sessions": 5}
    parts.flags["session_dir"] = "s"
    assert sessions(parts.sources()) == sessions(_set_dir("s"))
    parts.flags.clear()
    with pytest.raises(SelectionError):
        sessions(parts.sources())


def _set_dir(folder: str) -> Sources:
    return Sources(FOLDERS, Flags(session_dir=folder))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (Flags(session_prefix="a_"), "--session-prefix needs --session-store"),
        (Flags(session_prefix=""), "--session-prefix needs --session-store"),
        (Flags(no_session=True, session_prefix="a_"), "--session-prefix needs --session-store"),
        (Flags(session_store="s", session_prefix="1a"), "--session-prefix has to be letters"),
        (Flags(session_store="s", session_prefix="a-b"), "--session-prefix has to be letters"),
        (Flags(session_store="s", session_prefix="ä"), "--session-prefix has to be letters"),
        (Flags(session_store="s", session_prefix="a\n"), "--session-prefix has to be letters"),
        (Flags(session_store="s", session_prefix="sqlite_a"), "which SQLite keeps for itself"),
        (Flags(session_store="s", session_prefix="SqLiTe_a"), "which SQLite keeps for itself"),
        (Flags(session_store=""), "--session-store is empty"),
        (Flags(session_dir=""), "--session-dir is empty"),
        (Flags(session_dir="a\x00b"), "--session-dir holds a character that no path can have"),
        (Flags(session_dir="~bob/x"), "--session-dir names another person's home"),
        (Flags(storage=""), "--storage is empty"),
        (Flags(storage="{"), "--storage is not valid JSON (line 1, column 2)"),
        (Flags(storage="7"), "--storage has to be a JSON object"),
        (Flags(storage="{}"), "--storage names no store"),
        (Flags(storage='{"storage":{"dir":"a"}}'), "--storage takes the store itself"),
        (Flags(storage='{"path":"a","dir":"b"}'), '--storage names both "path" and "dir"'),
        (Flags(storage='{"path":"a","path":"b"}'), '--storage names "path" twice'),
        (Flags(storage='{"path":"a","extra":1}'), '--storage has "extra" beside "path"'),
        (Flags(storage='{"dir":"a","prefix":"b"}'), '--storage has "prefix" beside "dir"'),
        (Flags(storage='{"path":null}'), '"path" in --storage has to be text'),
        (Flags(storage='{"path":""}'), '"path" in --storage is empty'),
        (Flags(storage='{"path":"\\ud800"}'), '"path" in --storage holds a character'),
        (Flags(storage='{"path":"a","prefix":3}'), '"prefix" in --storage has to be letters'),
        (Flags(storage='{"memory":false}'), '"memory" in --storage can only be true'),
        (Flags(storage='{"memory":1}'), '"memory" in --storage can only be true'),
        (Flags(storage='{"atom":false}'), '"atom" in --storage has to be text'),
        (Flags(storage='{"driver":"../x"}'), '"driver" in --storage is no driver\'s name'),
        (Flags(storage='{"driver":"pg","options":[]}'), '"options" in --storage has to be a JSON object'),
        (Flags(storage="[" * 100_000), "--storage holds JSON beyond all measure"),
        (Flags(storage='{"a":' + "9" * 5000 + "}"), "--storage holds JSON beyond all measure"),
        (Flags(storage_file=StorageFile("/f", "{")), "The --storage-file /f is not valid JSON"),
        (Flags(storage_file=StorageFile("/f", " ")), "The --storage-file /f is empty"),
    ],
)
def test_what_is_refused_is_named(flags: Flags, said: str) -> None:
    """One sentence that names the flag or file and what is wrong, then the mend."""
    with pytest.raises(SelectionError) as caught:
        sessions(Sources(FOLDERS, flags))
    assert said in caught.value.message
    assert caught.value.mend
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"ATOMIC_CODING_AGENT_SESSION_DIR": ""}, CacheSelection(CACHE)),
        ({"ATOMIC_CODING_AGENT_SESSION_DIR": "d"}, FolderSelection("/w/d")),
        ({"ATOMIC_CODING_AGENT_SESSION_DIR": "~/d"}, FolderSelection("/h/d")),
        (
            {"ATOMIC_CODING_AGENT_SESSION_DIR": "", "ATOMIC_STORAGE": '{"dir":"d"}'},
            FolderSelection("/h/.atomic/d"),
        ),
        ({"ATOMIC_STORAGE": ""}, "ATOMIC_STORAGE is empty"),
        ({"ATOMIC_SESSIONS_STORAGE": ""}, "ATOMIC_SESSIONS_STORAGE is empty"),
        ({"ATOMIC_SESSIONS_STORAGE": " \n"}, "ATOMIC_SESSIONS_STORAGE is empty"),
    ],
)
def test_empty_variables(environ: Mapping[str, str], expected: object) -> None:
    """An empty folder variable is not set; an empty JSON variable is, and names no store."""
    sources = Sources(FOLDERS, environ=environ)
    if isinstance(expected, str):
        with pytest.raises(SelectionError, match=expected):
            sessions(sources)
    else:
        assert sessions(sources).selection == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"path":"s.sqlite"}', SqliteSelection("/h/.atomic/s.sqlite")),
        ('{"path":"/d/./s/../t.sqlite","prefix":"p_"}', SqliteSelection("/d/t.sqlite", "p_")),
        ('{"path":"~/s.sqlite"}', SqliteSelection("/h/s.sqlite")),
        ('{"path":"workflows/journal.sqlite"}', CacheSelection(CACHE, earlier=False)),
        ('{"path":"workflows/journal.sqlite","prefix":"p_"}', SqliteSelection(CACHE, "p_")),
        ('{"dir":"sessions"}', FolderSelection("/h/.atomic/sessions")),
        ('{"dir":"./~bob"}', FolderSelection("/h/.atomic/~bob")),
        ('{"memory":true}', MemorySelection()),
        ('{"atom":true}', AtomSelection("/h/.atom/session.json")),
        ('{"atom":"a.json"}', AtomSelection("/h/.atomic/a.json")),
        ('{"driver":"postgres"}', DriverSelection("postgres", {})),
        ('\ufeff{"driver":"pg","options":{"a":[1]}}', DriverSelection("pg", {"a": [1]})),
    ],
)
def test_every_store_in_json(text: str, expected: object) -> None:
    """Paths inside JSON count from the Atomic home, in the flag, the variables and the settings alike."""
    assert sessions(Sources(FOLDERS, Flags(storage=text))).selection == expected
    for name in ("ATOMIC_SESSIONS_STORAGE", "ATOMIC_STORAGE"):
        assert sessions(Sources(FOLDERS, environ={name: text})).selection == expected
    value = json.loads(text.removeprefix("\ufeff"))
    for members in ({"storage": value}, {"sessions": {"storage": value}}):
        file = SettingsFile("/s.json", members)
        assert sessions(Sources(FOLDERS, project=file)).selection == expected
        assert sessions(Sources(FOLDERS, everywhere=file)).selection == expected


def test_the_atom_home() -> None:
    """ATOM_HOME takes the place of the person's home; a relative one counts from the working directory."""
    for named, expected in (
        ("/x", "/x/.atom/session.json"),
        ("x", "/w/x/.atom/session.json"),
        ("", "/h/.atom/session.json"),
    ):
        sources = Sources(FOLDERS, Flags(storage='{"atom":true}'), {"ATOM_HOME": named})
        assert sessions(sources).selection == AtomSelection(expected)


def test_flags_count_from_the_working_directory() -> None:
    """--session-dir and --session-store count from there; the default store by its path is that store (B1), without
    earlier sessions (B4)."""
    assert sessions(_set_dir("a/../b")).selection == FolderSelection("/w/b")
    store = Flags(session_store="s.sqlite", session_prefix="P_1")
    assert sessions(Sources(FOLDERS, store)).selection == SqliteSelection("/w/s.sqlite", "P_1")
    named = Flags(session_store="/h/.atomic/x/../workflows/journal.sqlite")
    assert sessions(Sources(FOLDERS, named)).selection == CacheSelection(CACHE, earlier=False)


class Store:
    """A store of a program's own."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kind": "sqlite", "path": "/data/s.sqlite"}, SqliteSelection("/data/s.sqlite")),
        ({"kind": "sqlite", "path": "s", "prefix": "p_"}, SqliteSelection("/w/s", "p_")),
        ({"kind": "jsonl", "dir": "/data/s"}, FolderSelection("/data/s")),
        ({"kind": "memory"}, MemorySelection()),
        ({"kind": "atom"}, AtomSelection("/h/.atom/session.json")),
        ({"kind": "atom", "path": "a"}, AtomSelection("/w/a")),
        ({"kind": "driver", "name": "pg", "options": {"a": 1}}, DriverSelection("pg", {"a": 1})),
        ({"path": "s"}, SqliteSelection("/w/s")),
        (SqliteSelection("s"), SqliteSelection("/w/s")),
        (SqliteSelection(CACHE), CacheSelection(CACHE, earlier=False)),
        (FolderSelection("d"), FolderSelection("/w/d")),
        (MemorySelection(), MemorySelection()),
        ({"kind": "mongo"}, '"kind" in session_store'),
        ({"kind": ["sqlite"]}, '"kind" in session_store'),
        ({"kind": "sqlite"}, '"path" is missing in session_store'),
        ({"kind": "driver"}, '"driver" is missing in session_store'),
        ({"kind": "sqlite", "path": "s", "x": 1}, 'session_store has "x" beside "path"'),
        ({1: 2}, "whose name is no text"),
        (SqliteSelection("s", "sqlite_x"), "which SQLite keeps for itself"),
        ("/data/s.sqlite", "session_store is neither a store nor a selection"),
        (True, "session_store is neither a store nor a selection"),
    ],
)
def test_what_a_program_passes(given: object, expected: object) -> None:
    """A selection in either spelling, its paths counting from the working directory; anything else is named."""
    sources = Sources(FOLDERS, sdk=given)
    if isinstance(expected, str):
        with pytest.raises(SelectionError, match=expected):
            sessions(sources)
    else:
        assert sessions(sources).selection == expected


def test_a_store_of_ones_own() -> None:
    """An open store passes through as it is."""
    store = Store()
    found = sessions(Sources(FOLDERS, sdk=store)).selection
    assert isinstance(found, OwnSelection)
    assert found.store is store


def test_settings_that_are_no_objects() -> None:
    """`sessions` has to be an object, and a setting of null is no way back to the default."""
    with pytest.raises(SettingsError, match=r'"sessions" in /s.json has to be a JSON object'):
        sessions(Sources(FOLDERS, everywhere=SettingsFile("/s.json", {"sessions": 5})))
    with pytest.raises(SelectionError, match=r'"storage" in /s.json has to be a JSON object'):
        sessions(Sources(FOLDERS, project=SettingsFile("/s.json", {"storage": None})))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"driver":"pg","options":{{"password":"{SECRET}"}},"x":1}}',
        f'{{"driver":"pg","options":"{SECRET}"}}',
        f'{{"driver":"{SECRET}/"}}',
        f'{{"driver":"pg","options":{{"password":"{SECRET}"',
        f'"{SECRET}"',
    ],
)
def test_no_error_repeats_a_secret(text: str) -> None:
    """What a selection holds stays out of errors and representations."""
    sources = Sources(FOLDERS, Flags(storage=text), {"ATOMIC_STORAGE": text})
    with pytest.raises(SelectionError) as caught:
        sessions(sources)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    kept = DriverSelection("pg", {"password": SECRET})
    shown = repr((sources, sources.flags, kept, StorageFile("/f", text), SettingsFile("/s", {"k": SECRET})))
    assert SECRET not in shown


PATHS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
    | st.sampled_from(["/", ".", "~", " ", "'"]),
    min_size=1,
    max_size=12,
).filter(lambda text: not (text.startswith("~") and text[1:2] not in {"", "/"}))


@given(PATHS)
def test_paths_are_absolute_and_settle(text: str) -> None:
    """Whatever is written becomes an absolute path, and that path, written again anywhere, is itself."""
    found = sessions(_set_dir(text)).selection
    assert isinstance(found, FolderSelection)
    assert found.path.startswith("/")
    assert "/../" not in found.path + "/"
    assert sessions(_set_dir(found.path)).selection == found
    inside = Flags(storage=json.dumps({"dir": found.path}))
    assert sessions(Sources(FOLDERS, inside)).selection == found


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_any_text_is_a_store_or_an_error(text: str) -> None:
    """Nothing a flag can hold raises anything but a SelectionError."""
    for flags in (
        Flags(storage=text),
        Flags(session_dir=text),
        Flags(session_store=text, session_prefix=text),
    ):
        with contextlib.suppress(SelectionError):
            sessions(Sources(FOLDERS, flags))
