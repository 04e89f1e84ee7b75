"""The command that leads back to a store: it selects the same one, and shows no secret."""

import os
import shlex
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atomic_agent.config.paths import Folders
from atomic_agent.config.precedence import Flags, Sources, StorageFile, sessions
from atomic_agent.config.selection import (
    AtomSelection,
    CacheSelection,
    DriverSelection,
    FolderSelection,
    MemorySelection,
    OwnSelection,
    Selection,
    SqliteSelection,
)
from atomic_agent.config.way_back import command, flags, quoted, resume_arguments

FOLDERS = Folders("/h/.atomic", "/w", "/h")
CACHE = "/h/.atomic/workflows/journal.sqlite"


def _read(arguments: tuple[str, ...]) -> Selection:
    """What these flags select, with nothing else set."""
    if arguments == ("--no-session",):
        return sessions(Sources(FOLDERS, Flags(no_session=True))).selection
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    file = given.get("--storage-file")
    return sessions(
        Sources(
            FOLDERS,
            Flags(
                session_dir=given.get("--session-dir"),
                session_store=given.get("--session-store"),
                session_prefix=given.get("--session-prefix"),
                storage=given.get("--storage"),
                storage_file=StorageFile(file, '{"driver":"pg","options":{"p":"x"}}') if file else None,
            ),
        )
    ).selection


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00/"), min_size=1, max_size=9)
PATHS = NAMES.filter(lambda name: name not in {".", ".."}).map(lambda name: f"/d/{name}")
SELECTIONS: st.SearchStrategy[Selection] = st.one_of(
    st.just(CacheSelection(CACHE, earlier=False)),
    st.builds(SqliteSelection, PATHS, st.sampled_from(["", "p_", "Project"])),
    st.builds(FolderSelection, PATHS),
    st.just(MemorySelection()),
    st.builds(AtomSelection, PATHS),
    st.just(DriverSelection("pg", {"port": 1, "dsn": {"env": "PG"}, "on": [True, None, 1.5]})),
    st.just(DriverSelection("pg", {"p": "x"}, "/d/file.json")),
)


@given(SELECTIONS)
def test_there_and_back(selection: Selection) -> None:
    """The flags of a selection select it again, whatever settings say."""
    found = flags(selection)
    assert found is not None
    assert _read(found) == selection


def test_the_default_store_has_flags_too() -> None:
    """A generated command never leans on a default (B6)."""
    assert flags(CacheSelection(CACHE)) == ("--session-store", CACHE)
    assert flags(SqliteSelection("/s")) == ("--session-store", "/s")
    assert flags(SqliteSelection("/s", "p_")) == ("--session-store", "/s", "--session-prefix", "p_")


@pytest.mark.parametrize(
    "options",
    [
        {"password": "x"},
        {"a": {"env": ["x"]}},
        {"a": {"env": "X", "b": "y"}},
        {"a": [1, "x"]},
        {"a": {"b": "x"}},
    ],
)
def test_options_that_may_be_secret_are_not_printed(options: dict[str, object]) -> None:
    """A driver with text in its options has no command, unless a file names it."""
    assert flags(DriverSelection("pg", options)) is None
    assert resume_arguments(DriverSelection("pg", options), "s") is None
    assert flags(DriverSelection("pg", options, "/f.json")) == ("--storage-file", "/f.json")


def test_nothing_leads_back_to_what_was_not_kept() -> None:
    """Unsaved sessions and a program's own store have no command."""
    assert resume_arguments(MemorySelection(), "s") is None
    assert resume_arguments(OwnSelection(object()), "s") is None


@pytest.mark.parametrize(
    ("selection", "session", "expected"),
    [
        (
            SqliteSelection("/A B/s", "p_"),
            "s",
            "atomic --session-store '/A B/s' --session-prefix p_ --session s",
        ),
        (FolderSelection("/it's"), "", "atomic --session-dir '/it'\"'\"'s' --session \"\""),
        (CacheSelection(CACHE), "-x", f"atomic --session-store {CACHE} --session=-x"),
        (
            FolderSelection("/a\x1b[31m\n\\'"),
            "s",
            "atomic --session-dir \"$(printf '/a\\033[31m\\012\\134\\047')\" --session s",
        ),
        (FolderSelection("/\udcff"), "s", "atomic --session-dir \"$(printf '/\\377')\" --session s"),
        (AtomSelection("/a"), "s", 'atomic --storage \'{"atom": "/a"}\' --session s'),
    ],
)
def test_the_command(selection: Selection, session: str, expected: str) -> None:
    """Quoted for the shell and safe to show: no escapes, no broken characters, `""` for an empty id."""
    arguments = resume_arguments(selection, session)
    assert arguments is not None
    assert command(arguments) == expected


@pytest.mark.parametrize("shell", ["sh", "bash"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=12).map(lambda raw: os.fsdecode(raw.replace(b"\x00", b""))), min_size=1, max_size=8
    )
)
def test_a_shell_reads_what_was_meant(shell: str, words: list[str]) -> None:
    """It splits the quoted words into exactly those, any bytes in them; line ends at their end need bash."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    if shell == "sh":
        words = [word.rstrip("\n") for word in words]
    script = "printf '%s\\0' " + " ".join(quoted(word) for word in words)
    done = subprocess.run([shell, "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in words)
    assert all(character.isprintable() for character in script)


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=20))
def test_printable_words_need_no_special_shell(text: str) -> None:
    """What can be shown is quoted in the way every POSIX shell reads."""
    if text.isprintable():
        assert shlex.split(quoted(text)) == [text]
