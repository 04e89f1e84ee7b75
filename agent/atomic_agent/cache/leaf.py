"""Which entry of a session opens: the newest message's branch, or where the person moved (C4)."""

from atomic_agent.cache.cache import Cache
from atomic_sessions.entry import Node, View
from atomic_sessions.tree import build
from atomic_sessions.tree import leaf as tree_leaf


def leaf(cache: Cache, session: int) -> str | None:
    """The id of the entry that opens, None for an empty conversation.

    A move on this machine holds until a later message arrives.
    """
    moved_leaf, moved_over, moved_tag, newest_at, newest_tag = cache.connection.execute(
        cache.sql(
            "SELECT moved_leaf, moved_over, moved_tag, newest_at, newest_tag FROM {p}session_sessions WHERE key = ?"
        ),
        (session,),
    ).fetchone()
    if moved_over is not None and (moved_over, bytes(moved_tag)) >= (newest_at, bytes(newest_tag)):
        return moved_leaf if moved_leaf is None else str(moved_leaf)
    return newest_leaf(cache, session)


def newest_leaf(cache: Cache, session: int) -> str | None:
    """The end of the branch that holds the newest message: `tree.leaf` over the tail that can matter,
    since an entry's place is always before its children's."""
    row = cache.connection.execute(
        cache.sql("SELECT newest_id FROM {p}session_sessions WHERE key = ?"), (session,)
    ).fetchone()
    newest_id = row[0]
    values = cache.connection.execute(
        cache.sql(
            "SELECT id, parent, stamp, received, role FROM {p}session_entries"
            " WHERE session = ? AND file = '' AND loose = 0"
            " AND pos >= coalesce((SELECT pos FROM {p}session_entries WHERE session = ? AND id = ?), 0)"
        ),
        (session, session, newest_id),
    ).fetchall()
    received = {v[0]: v[3] for v in values if v[3] is not None}
    tail = [Node(v[0], v[1], v[2], View(kind="message" if v[4] else "other", role=v[4])) for v in values]
    return tree_leaf(build(tail), received)


def move(cache: Cache, session: int, to: str | None) -> None:
    """Stand at another entry on this machine; call inside a transaction."""
    cache.connection.execute(
        cache.sql(
            "UPDATE {p}session_sessions SET moved_leaf = ?, moved_over = newest_at, moved_tag = newest_tag"
            " WHERE key = ?"
        ),
        (to, session),
    )
