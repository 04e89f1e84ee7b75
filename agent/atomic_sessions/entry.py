"""An entry keeps its raw line byte for byte; a view is what can be read from it. No I/O, no agent.

Every agent's lines are read into the same `View`, so that trees, lists, search, contexts and pages
know one shape. Views are derived and can be made again at any time; raw lines are the truth. None of these
can be part of a cycle, so the garbage collector need not look at them: a session is many thousands.
"""

from typing import Literal

from msgspec import Struct

from atomic_sessions.ids import SessionKey

Role = Literal["user", "assistant", "tool", "system", "bash", "custom", "summary", ""]
"""Who speaks. Only `user` and `assistant` decide what is newest (C4); "" is no message at all."""


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One immutable node or loose line of a session.

    `pos` is its line number in the file it came from (turns count on from the last), `stamp` its
    time in ms (`clock.stamp`). `parent` None means a root, or a loose line when `loose` is set.
    `file` is empty for lines of the session itself, else the relative path of a side file that
    travels with the session, whose whole content is `raw`.
    """

    id: str
    parent: str | None
    pos: int
    stamp: int
    raw: bytes
    loose: bool = False
    file: str = ""

    def __repr__(self) -> str:
        return f"<Entry {self.id!r} below {self.parent!r} at {self.pos}>"


class Text(Struct, frozen=True, tag=True, gc=False):
    """Markdown or plain text."""

    text: str


class Thinking(Struct, frozen=True, tag=True, gc=False):
    """Reasoning that was shown; empty text when the provider kept it back.

    `signature` is the provider's proof that goes back to it unchanged, never shown.
    """

    text: str
    signature: str = ""
    redacted: bool = False


class ToolCall(Struct, frozen=True, tag=True, gc=False):
    """`arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True, tag=True, gc=False):
    """The answer to a ToolCall of the same id. `diff` is a unified diff when the tool made one."""

    call: str
    name: str
    content: tuple["Text | Image", ...]
    is_error: bool = False
    diff: str = ""


class Image(Struct, frozen=True, tag=True, gc=False):
    """`data` is base64 as found, unchecked."""

    mime: str
    data: str


class Shell(Struct, frozen=True, tag=True, gc=False):
    """A command the person ran themselves."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False


Block = Text | Thinking | ToolCall | ToolResult | Image | Shell


class Usage(Struct, frozen=True, gc=False):
    """Tokens and cost (US dollars) of one answer; a field an agent does not record is 0."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0


class View(Struct, frozen=True, gc=False):
    """What one line says.

    `kind` is `message` for anything somebody said, else the agent's own type name. `id` None: the
    line carries none. `at` is the agent's own time in ms. `typed` is False for user messages that a
    program injected. `text` carries the payload of the non-message kinds: a name, a label, a
    summary, a model's name. `target` is the entry a label or summary speaks of. `in_context` is
    False for what is never sent to a model. `group` joins lines that are parts of one answer.
    """

    kind: str
    role: Role = ""
    id: str | None = None
    parent: str | None = None
    at: int | None = None
    blocks: tuple[Block, ...] = ()
    typed: bool = True
    text: str = ""
    target: str = ""
    model: str = ""
    provider: str = ""
    usage: Usage | None = None
    stop: str = ""
    error: str = ""
    cwd: str = ""
    in_context: bool = True
    side: bool = False
    group: str = ""
    damaged: bool = False

    def __repr__(self) -> str:
        return f"<View {self.kind} {self.role}>"

    @property
    def counts(self) -> bool:
        """True for what `messages` in a list counts: any message, tool results included."""
        return self.kind == "message" and not self.side

    @property
    def decides(self) -> bool:
        """True for a message that can be the newest (C4)."""
        return self.role in {"user", "assistant"} and self.counts

    def spoken(self) -> str:
        """The text of a user or assistant message, blocks joined by a space; thinking left out."""
        texts = [block.text for block in self.blocks if isinstance(block, Text) and block.text]
        return texts[0] if len(texts) == 1 else " ".join(texts)


class Node(Struct, frozen=True, gc=False):
    """An entry with its view and its resolved place, as trees, contexts and pages take it."""

    id: str
    parent: str | None
    stamp: int
    view: View

    def __repr__(self) -> str:
        return f"<Node {self.id!r} {self.view!r}>"


class Facts(Struct, frozen=True):
    """What identifies and places a session; travels sealed with each of its records.

    `agent` is the format of its lines (`atomic`, `pi`, `claude-code`, `codex`), `scope` see `ids.SessionKey`,
    `project` the key of design.md section 6, `parent` the native id of the session it came from.
    `header` is the raw header line of a format 4 session, empty for captured ones, whose header is a
    line like any other.
    """

    agent: str
    id: str
    scope: str
    cwd: str
    project: str
    created_at: int
    parent: str = ""
    internal: bool = False
    header: bytes = b""

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.agent, self.id, self.scope)
