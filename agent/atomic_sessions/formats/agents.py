"""Which module reads which agent's lines."""

from collections.abc import Callable

import msgspec

from atomic_sessions.entry import View
from atomic_sessions.errors import BadSessionFileError
from atomic_sessions.formats import claude, codex, pi

_VIEWS: dict[str, Callable[[bytes], View]] = {
    **dict.fromkeys(pi.NAMES, pi.view),
    **dict.fromkeys(claude.NAMES, claude.view),
    **dict.fromkeys(codex.NAMES, codex.view),
}


def _as_main(view: View) -> View:
    return msgspec.structs.replace(view, side=False) if view.side else view


def viewer(agent: str, *, internal: bool = False) -> Callable[[bytes], View]:
    """The function that reads a line of this agent; BadSessionFileError for an agent nobody knows.

    In an `internal` session (a sub-agent's own file) the records marked as side chain are the
    conversation itself.
    """
    try:
        view = _VIEWS[agent]
        return (lambda raw: _as_main(view(raw))) if internal else view
    except KeyError:
        raise BadSessionFileError(
            f"Sessions of '{agent[:40]}' are not known to this version.", "Update atomic-sessions."
        ) from None
