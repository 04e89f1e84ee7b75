"""Sessions and entries made for a store, exported from one and brought into another."""

import json
from collections.abc import Iterator
from typing import Any

from agent.stores.port.kinds import NOW
from atomic_agent.stores.port import Store
from atomic_sessions import compose
from atomic_sessions.entry import Entry, Facts, Text
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import read_header, upgrade
from atomic_sessions.ids import SessionKey, session_key

UUID = "01a22c81-7192-70af-aa13-6f2a524f0b20"
OTHER = "02b33d92-7192-70af-aa13-6f2a524f0b20"
HERE = "/work/here"
THERE = "/work/there"


def facts(
    store: Store, session: str = UUID, *, cwd: str = HERE, at: int = NOW, internal: bool = False
) -> Facts:
    """A session of format 4 in a folder."""
    project = store.project_of(cwd)
    scope = session_key("atomic", session, project).scope
    header = compose.header(session, at, cwd)
    if internal:
        flow = {"runId": "r", "stageId": "s", "stageName": "n"}
        header = compose.line(json.loads(header) | {"internal": True, "workflow": flow})
    return Facts("atomic", session, scope, cwd, project, at, internal=internal, header=header)


def message(
    identity: str, parent: str | None, text: str, *, role: str = "user", at: int = NOW, **more: Any
) -> Entry:
    """What a person or a model said at a time."""
    said: dict[str, Any] = {"role": role, "content": compose.content([Text(text)]), "timestamp": at, **more}
    return Entry(identity, parent, 0, at, compose.message(identity, parent, at, said))


def turn(number: int, parent: str | None, *, at: int | None = None, lines: int = 2) -> list[Entry]:
    """A prompt and answers to it, one below the other."""
    at = NOW + number * 1000 if at is None else at
    found = [message(f"u{number}", parent, f"prompt {number}", at=at)]
    for line in range(1, lines):
        below = found[-1].id
        found.append(
            message(f"a{number}.{line}", below, f"answer {number} {line}", role="assistant", at=at + line)
        )
    return found


def made(store: Store, session: str = UUID, *, turns: int = 1, cwd: str = HERE, at: int = NOW) -> SessionKey:
    """A session with some turns."""
    row = store.create(facts(store, session, cwd=cwd, at=at), turn(0, None, at=at))
    for number in range(1, turns):
        store.append(row.key, turn(number, store.leaf(row.key), at=at + number * 1000))
    return row.key


def ids(entries: list[Entry]) -> list[str]:
    return [entry.id for entry in entries]


def raws(store: Store, session: SessionKey) -> list[bytes]:
    """The lines of a session as an export has them."""
    return [entry.raw for entry in store.read(session)]


def exported(store: Store, session: SessionKey) -> list[bytes]:
    """Header and lines, as a file of them is."""
    row = store.get(session)
    assert row is not None
    return [row.facts.header, *raws(store, session)]


def brought_in(store: Store, lines: list[bytes]) -> SessionKey:
    """A session made from the lines of a file, as an import makes it."""
    header = read_header(lines[0])
    project = store.project_of(header.cwd)
    scope = session_key("atomic", header.id, project).scope
    found = Facts(
        "atomic",
        header.id,
        scope,
        header.cwd,
        project,
        header.created_at,
        header.parent,
        header.internal,
        header.raw,
    )
    scanner = Scanner("atomic", ScanState(linear=False), now=NOW, stamp_of=lambda _: 0)

    def entries() -> Iterator[Entry]:
        for raw in upgrade(header, lines[1:]):
            yield scanner.read(raw)[0]

    return store.create(found, entries()).key
