"""What a session's row says of its entries, folded one entry at a time.

The result depends on the set of entries alone, never on the order they came in, so every machine that
has the same entries lists the same session.
"""

from msgspec import Struct

from atomic_agent.cache.cache import Cache
from atomic_sessions.clock import order, tag
from atomic_sessions.entry import Entry, View

FIRST_MESSAGE_CHARS = 200
NEVER = 1 << 62


class Digest(Struct):
    """The derived columns of a session row."""

    name: str = ""
    name_stamp: int = -1
    title: str = ""
    title_stamp: int = -1
    first_message: str = ""
    first_pos: int = NEVER
    summary: str = ""
    summary_stamp: int = -1
    messages: int = 0
    next_pos: int = 0
    newest_at: int = 0
    newest_tag: bytes = b""
    newest_id: str | None = None
    cwd: str = ""

    def __repr__(self) -> str:
        return f"<Digest of {self.messages}>"

    def fold(self, entry: Entry, view: View, received: int | None) -> None:
        """Take one more entry into account."""
        if entry.file:
            return
        if entry.pos >= self.next_pos:
            self.next_pos = entry.pos + 1
        self.messages += view.counts
        if view.cwd and not self.cwd:
            self.cwd = view.cwd
        match view.kind:
            case "session_info":
                self.name, self.name_stamp = _later(self.name, self.name_stamp, view.text, entry.stamp)
            case "title":
                self.title, self.title_stamp = _later(self.title, self.title_stamp, view.text, entry.stamp)
            case "session_summary" | "branch_summary":
                # What was left by a branch summary is no longer what the session is about (section 8.4).
                text = view.text if view.kind == "session_summary" else ""
                self.summary, self.summary_stamp = _later(self.summary, self.summary_stamp, text, entry.stamp)
        if view.decides:
            at, _ = order(entry.stamp, b"", received)
            if self.newest_id is None or at >= self.newest_at:
                mark = tag(entry.id)
                if self.newest_id is None or (at, mark) > (self.newest_at, self.newest_tag):
                    self.newest_at, self.newest_tag, self.newest_id = at, mark, entry.id
            if view.role == "user" and view.typed and entry.pos <= self.first_pos:
                self._first(entry.pos, view)

    def _first(self, pos: int, view: View) -> None:
        said = one_line(view.spoken(), FIRST_MESSAGE_CHARS)
        if said and (pos, said) < (self.first_pos, self.first_message):
            self.first_pos, self.first_message = pos, said


def _later(text: str, stamp: int, other: str, other_stamp: int) -> tuple[str, int]:
    return (other, other_stamp) if (other_stamp, other) > (stamp, text) else (text, stamp)


def one_line(text: str, limit: int) -> str:
    """Text on one line of at most `limit` characters."""
    flat = " ".join(text[: limit * 8].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


_FIELDS = Digest.__struct_fields__


def load_digest(cache: Cache, session: int) -> Digest:
    """The digest a session's row holds."""
    values = cache.connection.execute(
        cache.sql(f"SELECT {', '.join(_FIELDS)} FROM {{p}}session_sessions WHERE key = ?"), (session,)
    ).fetchone()
    return Digest(*values)


def save_digest(cache: Cache, session: int, digest: Digest) -> None:
    """Write the digest to the session's row; a known folder stays."""
    assignments = ", ".join(f"{field} = ?" for field in _FIELDS[:-1])
    cache.connection.execute(
        cache.sql(
            f"UPDATE {{p}}session_sessions SET {assignments}, cwd = CASE cwd WHEN '' THEN ? ELSE cwd END WHERE key = ?"
        ),
        (*(getattr(digest, field) for field in _FIELDS), session),
    )
