"""Attacks 4 to 6: a database module without a cipher, a key of another size, another key."""

import os
import sqlite3
from pathlib import Path

import pytest
import sqlcipher3.dbapi2 as sealed_sqlite

from agent.cache.stored import Place
from atomic_agent.cache import open as opening
from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import CacheRefusedError, KeyMissingError
from attacks.stage import one_sentence
from system.machines import Machine, MakeMachine

KEY = LocalKey(bytes(range(32)))
# Run before the program in its process: `sqlcipher3` is the standard library's module from then on.
PLAIN_MODULE = """
import sqlite3, sys, types
fake = types.ModuleType("sqlcipher3"); fake.dbapi2 = sqlite3
sys.modules["sqlcipher3"], sys.modules["sqlcipher3.dbapi2"] = fake, sqlite3
"""
NO_CIPHER = """
import sqlite3, sqlcipher3.dbapi2
sqlcipher3.dbapi2.connect = sqlite3.connect
"""


def _state(machine: Machine) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in machine.cache.parent.iterdir()}


@pytest.mark.parametrize(
    ("code", "said"), [(PLAIN_MODULE, "module is missing"), (NO_CIPHER, "cannot encrypt")]
)
def test_a_module_that_cannot_encrypt(machine: MakeMachine, code: str, said: str) -> None:
    """Attack 4: a whole command over the standard library's SQLite: exit 5, and no table, no row, no text."""
    laptop = machine("laptop")
    site = laptop.home / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(code)
    line = one_sentence(laptop.atomic("capture", code=5, PYTHONPATH=str(site)))
    assert said in line
    left = [path for path in laptop.home.rglob("journal.*") if path.stat().st_size]
    assert left == []
    laptop.atomic("capture")
    assert laptop.sessions("--all") == []


@pytest.mark.parametrize("where", ["module", "connect"])
def test_refused_before_any_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Attack 4: refused before any CREATE, and without the module before any file."""
    place = Place(tmp_path)
    said: list[str] = []

    def connect(*arguments: object, **named: object) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **named)  # type: ignore[call-overload]  # passed on as it came
        connection.set_trace_callback(said.append)
        return connection  # type: ignore[no-any-return]  # of an untyped call

    if where == "module":
        monkeypatch.setattr(opening, "sqlite", sqlite3)
    else:
        monkeypatch.setattr(sealed_sqlite, "connect", connect)
    with pytest.raises(CacheRefusedError):
        place.open(KEY)
    assert not [statement for statement in said if statement.split()[0] != "PRAGMA"]
    assert place.folder.exists() == (where == "connect")
    if place.db.exists():
        assert place.db.read_bytes() == b""


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32, bytearray(32), None])
def test_a_key_of_another_size(secret: bytes) -> None:
    """Attack 5: only 32 bytes are a key; text of 32 characters is none."""
    with pytest.raises(KeyMissingError):
        LocalKey(secret)
    with pytest.raises(ValueError, match="32 bytes"):
        opening._pragma_key(secret)


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32])
def test_a_key_that_derives_wrongly_seals_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: bytes
) -> None:
    """Attack 5: should the database key ever have another size, nothing is written under it."""
    place = Place(tmp_path)
    monkeypatch.setattr(LocalKey, "database_key", lambda _: secret)
    with pytest.raises(ValueError, match="32 bytes"):
        place.open(KEY)
    assert not place.db.exists() or place.db.read_bytes() == b""


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_key_file_of_another_size(machine: MakeMachine, size: int) -> None:
    """Attack 5: as a whole command: exit 4, the file is named and not shown, and no cache is made."""
    import base64

    laptop = machine("laptop")
    text = base64.b64encode(os.urandom(size)).decode()
    laptop.key_file.write_text(text)
    line = one_sentence(laptop.atomic("capture", code=4))
    assert str(laptop.key_file) in line
    assert not text or len(text) < 4 or text not in line
    assert not laptop.cache.exists()


def test_another_key(machine: MakeMachine) -> None:
    """Attack 6: exit 4, both keys named, no noise of the database, every byte as before, doctor tells as much."""
    laptop, other = machine("laptop"), machine("other")
    laptop.atomic("capture")
    mine = laptop.status()["key"]
    before = _state(laptop)
    for words in (["sessions"], ["capture"], ["status"]):
        done = laptop.atomic(*words, ATOMIC_KEY_FILE=str(other.key_file), code=4)
        line = one_sentence(done)
        assert mine in line
        assert line.count("k1:") == 2
        assert done.err.count("\n") == 1
    assert _state(laptop) == before
    assert mine in laptop.atomic("doctor", ATOMIC_KEY_FILE=str(other.key_file), code=1).out
    laptop.atomic("sessions")
