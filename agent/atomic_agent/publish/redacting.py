"""A session made fit for publishing, on this machine: what is not meant for others left out, secrets and
home paths replaced (D4)."""

import getpass
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_sessions.bundle import VERSION, Bundle
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats import codex
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.upgrade import encode, members
from atomic_sessions.redact import Redactor, Report, publishable, withheld


class Fit(Struct, frozen=True):
    """A session ready to be published. `left_out` counts the lines that are not meant for others."""

    bundle: Bundle
    summary: str
    report: Report
    left_out: int

    def __repr__(self) -> str:
        return f"<Fit {self.left_out} left out>"


def redactor() -> Redactor:
    """Knows this machine's home and user; those of other machines are found by their shape."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    users = (user,) if len(user) > 3 and user not in {"root", "user", "admin"} else ()
    return Redactor(home=(str(Path.home()),), users=users)


def fit(store: Store, row: Row, now: int) -> Fit:
    """The session as it may be published."""
    work = redactor()
    view = viewer(row.facts.agent, internal=row.facts.internal)
    found: list[Entry] = []
    left_out = 0
    for entry in store.read(row.key):
        kept: Entry | None = entry
        said = view(entry.raw)
        if not publishable(said):
            left_out += 1
            kept = withheld(entry)
        elif said.kind == "compaction":
            kept = _without_prompt(entry)
        elif said.kind == "compacted":
            kept = msgspec.structs.replace(entry, raw=codex.without_instructions(entry.raw))
        if kept is not None:
            found.append(work.entry(kept))
    facts = without_places(row.facts, work)
    title = _text(work, row.label)
    bundle = Bundle(VERSION, facts, title, store.leaf(row.key), now, found)
    return Fit(bundle, _text(work, row.summary), work.report(), left_out)


def _text(work: Redactor, text: str) -> str:
    """A title or the like, redacted by the same rules as the line it comes from."""
    if not text:
        return ""
    line = msgspec.json.encode({"type": "session_info", "name": text})
    redacted = work.entry(Entry("title", None, 0, 0, line)).raw
    return str(msgspec.json.decode(redacted, type=dict[str, str])["name"])


def without_places(facts: Facts, work: Redactor) -> Facts:
    """The facts of a session as others may see them."""
    header = work.entry(Entry("header", None, 0, 0, _placeless(facts.header))).raw if facts.header else b""
    parent = "" if "/" in facts.parent or "\\" in facts.parent else facts.parent
    return msgspec.structs.replace(facts, cwd="", project="", scope="", parent=parent, header=header)


def _without_prompt(entry: Entry) -> Entry:
    """A compaction without the system prompt that pi repeats in it."""
    parts = members(entry.raw)
    if parts is None or "systemMessage" not in parts:
        return entry
    return msgspec.structs.replace(
        entry, raw=encode({k: v for k, v in parts.items() if k != "systemMessage"})
    )


def _placeless(header: bytes) -> bytes:
    """A format 4 header without the folder and project it names."""
    parts = members(header)
    if parts is None:
        return header
    kept = {key: value for key, value in parts.items() if key not in {"project", "parentSession"}}
    return encode(kept | {"cwd": msgspec.Raw(b'""')})
