"""Identities on the wire and project keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.ids import SessionKey, line_id, remote_key, session_key, wire_id


@pytest.mark.parametrize(
    "url",
    [
        "git@Git.Example.com:team/Repo.git",
        "ssh://git@git.example.com/team/Repo.git",
        "ssh://git@git.example.com:2222/team/Repo",
        "https://user:pass@git.example.com/team/Repo.git/",
        "git.example.com:team//Repo",
    ],
)
def test_one_remote_has_one_key(url: str) -> None:
    """However the remote is written, the project is the same on every machine."""
    assert remote_key(url) == "git.example.com/team/Repo"


@pytest.mark.parametrize(
    "url", ["/srv/repo.git", "../repo", "file:///srv/repo", "C:/repo", "", "https://host"]
)
def test_a_local_path_is_no_project_key(url: str) -> None:
    """A path means nothing on another machine."""
    assert remote_key(url) is None


def test_identity_is_the_id_alone_only_when_it_is_a_uuid() -> None:
    """Row B8: two projects may both hold a session called `notes`."""
    assert session_key("atomic", "notes", "p1") != session_key("atomic", "notes", "p2")
    uuid = "01a22c81-7192-70af-aa13-6f2a524f0b20"
    assert session_key("atomic", uuid, "p1") == session_key("atomic", uuid, "p2")


@given(st.text(), st.text(), st.text(), st.binary(min_size=32, max_size=32))
def test_wire_ids_are_sixteen_bytes_for_any_identity(agent: str, native: str, scope: str, key: bytes) -> None:
    """Also for the empty id."""
    assert len(wire_id(key, SessionKey(agent, native, scope))) == 16


def test_wire_ids_need_the_key() -> None:
    """The service cannot guess a session's id from its native one."""
    key = SessionKey("pi", "x")
    assert wire_id(b"a" * 32, key) != wire_id(b"b" * 32, key)


def test_equal_lines_keep_their_number() -> None:
    """Repeated equal lines get ids of their own."""
    assert line_id("a", b"x", 0) != line_id("a", b"x", 1) != line_id("b", b"x", 1)
