"""An Atom file as a session of its own: what an import makes of it. Pure."""

from msgspec.structs import replace

from atomic_sessions import compose
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats.atom import Corrupt, Document, Loaded, load
from atomic_sessions.formats.atom_history import entries, session_id


def is_atom(raw: bytes) -> bool:
    """Whether these bytes, a whole file of at most `atom.MAX_BYTES`, are an Atom file."""
    return isinstance(load(raw), Loaded)


def session(raw: bytes, cwd: str, project: str, now: int) -> tuple[Facts, list[Entry]]:
    """What a file is, and its lines: the same id from the same conversation on every machine. It names no folder, so
    it is of the one it is imported in; its time is not believed beyond now.

    Raises BadSessionFileError for what is no Atom file, or one in which nobody has spoken.
    """
    state = load(raw)
    if not isinstance(state, Loaded):
        why = state.why if isinstance(state, Corrupt) else "it is not there"
        raise BadSessionFileError(f"That is no Atom file: {why}.", "Name another file.")
    document = state.document
    if not document.history:
        raise BadSessionFileError("Nobody has spoken in that Atom file.", "Name another file.")
    bounded = replace(document, saved_at=min(document.saved_at or now, now))
    return _facts(bounded, cwd, project), entries(bounded)


def _facts(document: Document, cwd: str, project: str) -> Facts:
    identity, at = session_id(document), document.saved_at
    return Facts(
        "atomic",
        identity,
        "",
        cwd,
        project,
        at,
        header=compose.header(identity, at, cwd, project=project),
    )
