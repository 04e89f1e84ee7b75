"""Sessions in from files and out to files."""

import json
import secrets
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atomic_agent.cache.cache import Cache
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.publish.exporting import Rendering, export
from atomic_agent.publish.importing import import_file
from atomic_agent.publish.redacting import fit
from atomic_agent.stores.port import Store, branch
from atomic_agent.stores.rows import Row
from atomic_agent.stores.sqlite import SqliteStore
from atomic_sessions.errors import SessionExistsError, UsageError
from atomic_sessions.formats.upgrade import read_header, upgrade
from strategies import json_values

HEADER = {
    "type": "session",
    "version": 3,
    "id": "own-id",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/p",
}


def message(identity: str, parent: str | None, role: str, text: str, **more: object) -> dict[str, Any]:
    return {
        "type": "message",
        "id": identity,
        "parentId": parent,
        "timestamp": "2026-01-01T00:00:01.000Z",
        "message": {
            "role": role,
            "content": [{"type": "text", "text": text}],
            "timestamp": 1_767_225_601_000,
        },
        **more,
    }


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def _exported(store: Store, row: Row) -> bytes:
    return b"".join(Rendering(store, row, "jsonl").pieces())


def test_unknown_fields_and_kinds_survive_byte_for_byte(store: Store, tmp_path: Path) -> None:
    """Row B28: entry lines come out as they went in."""
    lines = [
        HEADER | {"futureHeader": [1, 2]},
        message("a", None, "user", "one", futureField={"deep": [1.0, None]}),
        {
            "type": "kind-of-tomorrow",
            "id": "b",
            "parentId": "a",
            "timestamp": "2026-01-01T00:00:02.000Z",
            "x": "\u2028",
        },
    ]
    row = import_file(store, write(tmp_path / "in.jsonl", lines), "/p")
    out = _exported(store, row).splitlines(keepends=True)
    assert out[1:] == (tmp_path / "in.jsonl").read_bytes().splitlines(keepends=True)[1:]
    header = json.loads(out[0])
    assert (header["version"], header["futureHeader"]) == (4, [1, 2])


@given(
    bodies=st.lists(json_values, max_size=5),
    version=st.sampled_from([1, 2, 3, 4]),
    session=st.sampled_from(["", "custom.id", "01a22c81-7192-70af-aa13-6f2a524f0b20"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_import_then_export_is_the_upgraded_file(bodies: list[Any], version: int, session: str) -> None:
    """Any session of any format keeps ids, order and unknown content; importing the export again gives
    the same file (B9, B28)."""
    head = HEADER | {"version": version, "id": session}
    if version == 4:
        head = {k: v for k, v in head.items() if k != "timestamp"} | {"createdAt": "2026-01-01T00:00:00.000Z"}
    lines = [
        head,
        *({"type": "custom", "id": f"e{n}", "parentId": None, "data": b} for n, b in enumerate(bodies)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        path = write(root / "in.jsonl", lines)
        raw = path.read_bytes().split(b"\n")[:-1]
        header = read_header(raw[0])
        expected = b"".join(line + b"\n" for line in [header.raw, *upgrade(header, raw[1:])])
        for name in ("one", "two"):
            home, key = Home(root / name), LocalKey(secrets.token_bytes(32))
            with Cache.open(home.cache, key, home.keyinfo) as cache:
                store = SqliteStore(cache)
                row = import_file(store, path, "/p")
                assert row.facts.id == session
                assert _exported(store, row) == expected
            path = root / "again.jsonl"
            path.write_bytes(expected)


def test_an_import_is_all_or_nothing(store: Store, tmp_path: Path) -> None:
    """The second import of an id changes nothing and is told apart from a first one."""
    path = write(tmp_path / "in.jsonl", [HEADER, message("a", None, "user", "one")])
    row = import_file(store, path, "/p")
    write(path, [HEADER, message("z", None, "user", "other")])
    with pytest.raises(SessionExistsError):
        import_file(store, path, "/p")
    assert store.get(row.key) == row


def test_the_worked_example_opens_at_its_last_entry(store: Store, tmp_path: Path) -> None:
    """A format 1 file: first message, count and leaf as its notes say."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "id": "s", "timestamp": "2025-12-03T14:00:00.000Z", "cwd": "/p"},
        {"type": "message", "message": {"role": "user", "content": "one", "timestamp": 1}},
        {
            "type": "message",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "two"}], "timestamp": 2},
        },
        {"type": "message", "message": {"role": "user", "content": "three", "timestamp": 4}},
    ]
    row = import_file(store, write(tmp_path / "in.jsonl", lines), "/p")
    assert (row.first_message, row.messages) == ("one", 3)
    assert [e.pos for e in branch(store, row.key, store.leaf(row.key))] == [0, 1, 2]


def test_exports_are_private_files_and_never_replace(store: Store, tmp_path: Path) -> None:
    """0600, whole or not at all, and an existing file needs --force."""
    row = import_file(store, write(tmp_path / "in.jsonl", [HEADER, message("a", None, "user", "one")]), "/p")
    for ending in (".html", ".md", ".jsonl"):
        path = tmp_path / f"out{ending}"
        export(store, row, path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert b"one" in path.read_bytes()
        with pytest.raises(UsageError):
            export(store, row, path)
        export(store, row, path, replace=True)
    with pytest.raises(UsageError):
        export(store, row, tmp_path / "out.pdf")


def test_branch_and_redact_narrow_an_export(store: Store, tmp_path: Path) -> None:
    """`--branch` leaves other branches out, `--redact` secrets and homes."""
    key = "AKIA" + "QQ7EXAMPLE4ZZ7YT"
    lines = [
        HEADER,
        message("a", None, "user", f"in /home/ann/x with {key}"),
        message("b", "a", "assistant", "the old way") | {"timestamp": "2026-01-01T00:00:02.000Z"},
        message("c", "a", "assistant", "the new way"),
    ]
    lines[3]["message"]["timestamp"] += 5
    row = import_file(store, write(tmp_path / "in.jsonl", lines), "/p")
    narrow = b"".join(Rendering(store, row, "jsonl", branch=True).pieces()).decode()
    assert "the new way" in narrow
    assert "the old way" not in narrow
    rendering = Rendering(store, row, "html", redact=True)
    clean, report = b"".join(rendering.pieces()), rendering.report
    assert key not in clean.decode()
    assert "/home/ann" not in clean.decode()
    assert report is not None
    assert key not in repr(report) + "".join(report.summary_lines())


def test_what_is_published_keeps_the_tree_and_drops_the_place(store: Store, tmp_path: Path) -> None:
    """A bundle holds every message and branch, and neither folder nor project."""
    lines = [
        HEADER | {"cwd": "/srv/secret-project"},
        message("s", None, "system", "you are a prompt that nobody should read"),
        message("a", "s", "user", "one"),
        message("b", "a", "assistant", "two"),
        {
            "type": "compaction",
            "id": "c",
            "parentId": "b",
            "timestamp": "2026-01-01T00:00:03.000Z",
            "summary": "so far",
            "systemMessage": {"content": "a second copy nobody should read"},
        },
    ]
    row = import_file(store, write(tmp_path / "in.jsonl", lines), "/p")
    ready = fit(store, row, 1)
    packed = b"".join(e.raw for e in ready.bundle.entries) + ready.bundle.facts.header
    assert b"secret-project" not in packed
    assert b"nobody should read" not in packed
    assert [(e.id, e.parent) for e in ready.bundle.entries] == [
        ("s", None),
        ("a", "s"),
        ("b", "a"),
        ("c", "b"),
    ]
    assert b"so far" in packed
    assert ready.left_out == 1
