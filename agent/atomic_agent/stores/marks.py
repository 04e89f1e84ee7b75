"""Names and labels: lines at the end of a session's open branch. They never move where it opens."""

import secrets
from collections.abc import Callable

from atomic_agent.stores.port import Store
from atomic_sessions import compose
from atomic_sessions.clock import stamp
from atomic_sessions.entry import Entry
from atomic_sessions.errors import NotFoundError
from atomic_sessions.ids import SessionKey

Made = Callable[[str, str | None, int], bytes]


def rename(store: Store, session: SessionKey, name: str, now: int) -> Entry:
    """Give a session a name; an empty one takes it away."""
    return _append(store, session, lambda i, p, at: compose.session_info(i, p, at, name), now)


def label(store: Store, session: SessionKey, target: str, text: str, now: int) -> Entry:
    """Put a bookmark on an entry; an empty text takes it away. NotFoundError for an entry that is not there."""
    if store.entry(session, target) is None:
        raise NotFoundError(
            f"There is no entry '{target[:64]}' in this session.", "See: atomic show --json ID"
        )
    return _append(store, session, lambda i, p, at: compose.label(i, p, at, target, text), now)


def _append(store: Store, session: SessionKey, make: Made, now: int) -> Entry:
    leaf = store.leaf(session)
    before = store.entry(session, leaf) if leaf is not None else None
    identity = compose.entry_id(lambda i: store.entry(session, i) is not None, secrets.token_bytes)
    raw = make(identity, leaf, now)
    entry = Entry(identity, leaf, 0, stamp(now, before.stamp if before else 0, now), raw)
    store.append(session, [entry])
    return entry
