"""Which entry of a session opens: the newest message's branch, what stayed when turns of it were taken back, or where
the person moved (C4)."""

from atomic_agent.cache import entries
from atomic_agent.cache.cache import Cache
from atomic_sessions.clock import order
from atomic_sessions.entry import Node, View
from atomic_sessions.formats import codex
from atomic_sessions.formats.codex_log import ROLLED_BACK, rolled_back
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
    since an entry's place is always before its children's. Where turns were taken back since, the end of what
    hangs below the line that says so: it stands where the conversation is after it."""
    newest_id, newest_at, agent = cache.connection.execute(
        cache.sql("SELECT newest_id, newest_at, agent FROM {p}session_sessions WHERE key = ?"), (session,)
    ).fetchone()
    values = cache.connection.execute(
        cache.sql(
            "SELECT id, parent, stamp, received, role, kind, pos FROM {p}session_entries"
            " WHERE session = ? AND file = '' AND loose = 0"
            " AND pos >= coalesce((SELECT pos FROM {p}session_entries WHERE session = ? AND id = ?), 0)"
        ),
        (session, session, newest_id),
    ).fetchall()
    received = {v[0]: v[3] for v in values if v[3] is not None}
    tail = [Node(v[0], v[1], v[2], View(kind="message" if v[4] else "other", role=v[4])) for v in values]
    if agent in codex.NAMES and newest_id is not None:
        said = max((v[6] for v in values if v[0] == newest_id), default=0)
        backs = sorted((order(v[2], b"", v[3])[0], v[6], v[0]) for v in values if v[5] == ROLLED_BACK)
        for at, pos, back in reversed(backs):
            if at >= newest_at and pos > said and _takes_back(cache, session, back):
                return tree_leaf(build(_below(tail, back)), received)
    return tree_leaf(build(tail), received)


def _takes_back(cache: Cache, session: int, entry_id: str) -> bool:
    entry = entries.one(cache, session, entry_id)
    return entry is not None and rolled_back(entry.raw) > 0


def _below(nodes: list[Node], top: str) -> list[Node]:
    """An entry and what hangs below it."""
    tree = build(nodes)
    found = [top]
    for at in found:
        found.extend(tree.children.get(at, ()))
    return [tree.nodes[at] for at in found]


def move(cache: Cache, session: int, to: str | None) -> None:
    """Stand at another entry on this machine; call inside a transaction."""
    cache.connection.execute(
        cache.sql(
            "UPDATE {p}session_sessions SET moved_leaf = ?, moved_over = newest_at, moved_tag = newest_tag"
            " WHERE key = ?"
        ),
        (to, session),
    )
