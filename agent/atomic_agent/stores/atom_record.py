"""What is known of the session in an Atom file and does not stand in it: whose it is, and its entries' ids.

Lies in a folder beside the file, never in it: its shape is not ours. A record tells by the history which
conversation it is of, so one for a save that a kill kept from happening means nothing, and a file that another
program wrote is read without one.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent import private_files
from atomic_agent.stores.jsonl_files import SIDE, read_side
from atomic_sessions import compose
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.formats import atom_lines
from atomic_sessions.formats.atom import Document
from atomic_sessions.formats.atom_history import opening_id, session_id
from atomic_sessions.formats.atom_lines import Kept
from atomic_sessions.unreadable import UNREADABLE

NAME = "session"


class Record(Struct, frozen=True):
    """A session as a save left it. `whole` and `opening` are made of its history, see `atom_history`."""

    facts: Facts
    whole: str
    opening: str
    kept: tuple[Kept, ...]

    def __repr__(self) -> str:
        return f"Record({self.facts.id!r})"


_RECORDS = msgspec.json.Decoder(tuple[Record, ...])


def place(file: Path) -> Path:
    """The folder for all that lies beside an Atom file."""
    return file.with_name(f".{file.name}.atomic")


def path(file: Path) -> Path:
    return place(file) / SIDE / NAME


def record(facts: Facts, entries: Sequence[Entry], history: Sequence[str]) -> Record:
    """What to keep of a session that a file holds as this history."""
    said = Document({}, tuple(history))
    return Record(facts, session_id(said), opening_id(said), atom_lines.kept(entries, history))


def read(file: Path) -> tuple[Record, ...]:
    """The records beside a file; none where they cannot be read, for the conversation is whole without."""
    try:
        return _RECORDS.decode(read_side(path(file)))
    except (OSError, *UNREADABLE):
        return ()


def write(file: Path, records: Sequence[Record]) -> None:
    """Only for the holder of the folder's lock."""
    private_files.write(path(file), msgspec.json.encode(tuple(records)))


def of(records: Sequence[Record], document: Document) -> Record | None:
    """The record of a conversation: of just these messages, else of one that began like it and went on elsewhere."""
    whole, opening = session_id(document), opening_id(document)
    for one in reversed(records):
        if one.whole == whole:
            return one
    return next((one for one in reversed(records) if one.opening == opening), None)


def facts_of(document: Document) -> Facts:
    """What a file tells of its session by itself: no folder, so no project, and an id made from how it began."""
    identity = opening_id(document)
    header = compose.header(identity, document.saved_at, "")
    return Facts("atomic", identity, "", "", "", document.saved_at, header=header)
