"""Documents for tests of rendering: one small one for every kind of entry, and builders for larger ones."""

from typing import Any

from atomic_sessions.document import Document
from atomic_sessions.entry import (
    Block,
    Image,
    Node,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    View,
)

START = 1_796_040_000_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def node(
    entry_id: str,
    parent: str | None,
    *blocks: Block,
    minute: int = 0,
    **view: Any,  # fields of View
) -> Node:
    """One entry; a message of the user unless `view` says otherwise."""
    at = START + minute * 60_000
    view.setdefault("kind", "message")
    if view["kind"] == "message":
        view.setdefault("role", "user")
    return Node(entry_id, parent, at, View(id=entry_id, parent=parent, at=at, blocks=blocks, **view))


def document(
    *nodes: Node, leaf: str | None = "", labels: dict[str, str] | None = None, title: str = "A session"
) -> Document:
    """A document of these nodes; it opens at the last one unless `leaf` is given."""
    last = nodes[-1].id if nodes else None
    return Document(
        id="11111111-2222-4333-8444-555555555555",
        agent="atomic",
        title=title,
        cwd="~/work/parser",
        created_at=START,
        leaf=last if leaf == "" else leaf,
        nodes=nodes,
        labels=labels or {},
    )


def chain(*nodes: Node) -> tuple[Node, ...]:
    """The nodes one below the other."""
    linked: list[Node] = []
    for at in nodes:
        parent = linked[-1].id if linked else None
        linked.append(Node(at.id, parent, at.stamp, at.view))
    return tuple(linked)


DIFF = "--- a/parser.py\n+++ b/parser.py\n@@ -1,3 +1,3 @@\n def f(x):\n-    return x\n+    return x + 1\n # end <tag>"
MARKDOWN = """# Plan

Fix the **flaky** test in `tests/test_parser.py` and *then* tell [why](https://example.com/a?b=1&c=2).
See https://example.com/docs (or mailto:ana@example.com).

1. read
   ```python
   def f(x):
       return x < 1
   ```
2. write
   - nested
   - ~~no~~ yes

> quoted *text*
> second line

| name | value |
|------|------:|
| a    | `1`   |

---
"""


def _kinds() -> dict[str, Document]:
    assistant: dict[str, Any] = {"role": "assistant", "model": "claude-x", "stop": "stop"}  # fields of View
    call = ToolCall("c1", "bash", '{"command": "pytest -q", "description": "run the tests"}')
    lines = "\n".join(f"line {n}" for n in range(1, 31))
    usage = Usage(1200, 340, 9000, 100, 0.0213)
    return {
        "user": document(node("u1", None, Text('Please fix the test.\nIt fails <sometimes> & "often".'))),
        "markdown": document(node("u1", None, Text(MARKDOWN))),
        "assistant": document(
            *chain(
                node("u1", None, Text("hi")),
                node("a1", None, Text("hello"), minute=1, usage=usage, **assistant),
                node("a2", None, Text("still me"), minute=2, usage=usage, **assistant),
            )
        ),
        "thinking": document(
            node("a1", None, Thinking("let me <see>"), Thinking("", "sig"), Text("done"), **assistant)
        ),
        "tool": document(
            *chain(
                node("a1", None, Text("running"), call, **assistant),
                node("r1", None, ToolResult("c1", "bash", (Text(lines),)), minute=1, role="tool"),
            )
        ),
        "tool-failed": document(
            *chain(
                node(
                    "a1",
                    None,
                    ToolCall("c1", "read", '{"path":"/x/y.py","offset":10,"limit":20}'),
                    **assistant,
                ),
                node(
                    "r1", None, ToolResult("c1", "read", (Text("no such file"),), is_error=True), role="tool"
                ),
                node("a2", None, ToolCall("c2", "custom_tool", '{"a":{"b":[1,2]},"c":"x\\ny"}'), **assistant),
                node("a3", None, ToolCall("c3", "broken", '{"a":'), **assistant),
            )
        ),
        "tool-edit": document(
            *chain(
                node(
                    "a1",
                    None,
                    ToolCall("c1", "edit", '{"path":"parser.py","oldText":"a\\nb","newText":"a\\nc"}'),
                    **assistant,
                ),
                node("r1", None, ToolResult("c1", "edit", (Text("Edited."),), diff=DIFF), role="tool"),
                node(
                    "a2",
                    None,
                    ToolCall("c2", "Edit", '{"file_path":"p.py","old_string":"a\\nb","new_string":"a\\nc"}'),
                    **assistant,
                ),
                node(
                    "a3", None, ToolCall("c3", "write", '{"path":"n.txt","content":"one\\ntwo"}'), **assistant
                ),
            )
        ),
        "tool-orphan": document(node("r1", None, ToolResult("gone", "grep", (Text("a:1: b"),)), role="tool")),
        "image": document(
            node(
                "u1",
                None,
                Text("look"),
                Image("image/png", PIXEL),
                Image("image/svg+xml", PIXEL),
                Image("image/png", "@"),
            )
        ),
        "shell": document(
            *chain(
                node("b1", None, Shell("ls -la", "a\nb"), role="bash"),
                node("b2", None, Shell("false", "", 1), role="bash"),
                node("b3", None, Shell("sleep 9", "", None, cancelled=True), role="bash"),
            )
        ),
        "endings": document(
            *chain(
                node("a1", None, role="assistant", stop="error", error="overloaded <now>"),
                node("a2", None, Text("half"), role="assistant", stop="aborted"),
                node("a3", None, Text("long"), role="assistant", stop="length"),
                node("a4", None, role="assistant", stop="refusal"),
            )
        ),
        "summaries": document(
            *chain(
                node("u1", None, Text("hi")),
                node(
                    "c1", None, Text("**Goal** fix"), kind="compaction", role="summary", text="**Goal** fix"
                ),
                node("b1", None, kind="branch_summary", role="summary", text="tried something else"),
                node("s1", None, Text("as injected"), role="summary"),
            )
        ),
        "events": document(
            *chain(
                node("m1", None, kind="model_change", text="claude-x"),
                node("t1", None, kind="thinking_level_change", text="high"),
                node("n1", None, kind="session_info", text="A <name>"),
                node("u1", None, Text("hi")),
                node("l1", None, kind="label", text="mark", target="u1"),
                node("x1", None, kind="unheard_of", text="what?"),
                node("d1", None, kind="damaged", damaged=True),
                node("u2", None, Text("on")),
            ),
            labels={"u1": "mark"},
        ),
        "extension": document(
            *chain(
                node("e1", None, Text("shown by an extension"), role="custom", text="todo-list", typed=False),
                node("i1", None, Text("<system-reminder>be kind</system-reminder>"), typed=False),
                node("p1", None, Text("You are a helpful agent. " * 80), role="system"),
            )
        ),
        "branches": document(
            node("u1", None, Text("first")),
            node("a1", "u1", Text("answer one"), minute=1, role="assistant"),
            node("u2", "a1", Text("left behind"), minute=2),
            node("a2", "u2", Text("its answer"), minute=3, role="assistant"),
            node("u2b", "u2", Text("a branch of the branch"), minute=4),
            node("u3", "a1", Text("the other way"), minute=5),
            node("q1", "a1", kind="label", text="side", target="a1", minute=6),
            node("z1", None, Text("another root"), minute=7, side=True),
            leaf="u3",
        ),
        "empty": document(leaf=None),
        "strange": document(
            node(
                'we"ird<id>&\u202e',
                None,
                Text(
                    "a\x00b \x1b[31mred\x1b[0m \u202edesrever\u202c \ud800 "
                    "\x1b]8;;http://x\x07link\x1b]8;;\x07 \x9b \r\nnew\rline"
                ),
            ),
            title="T\x1b[1mitle </title><script>alert(1)</script>",
        ),
    }


KINDS = _kinds()


# What people try: tags, attributes, addresses that run, escapes of the terminal and of text direction.
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><svg onload=alert(1)>",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>]]>",
    '" onmouseover="alert(1)',
    "' onmouseover='alert(1)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x) [x](//evil.example) [x](file:///etc/passwd) [x](/relative)",
    '[x](https://a.example/"onmouseover="alert(1))',
    "![x](https://evil.example/pixel.png)",
    "<https://a.example/<script>>",
    "`</code><script>alert(1)</script>`",
    "```<script>\n</code></pre><script>alert(1)</script>\n```",
    '```"onload=x\ncode\n```',
    "| <script> | b |\n|---|---|\n| </td><script> | c |",
    "# </h3><script>alert(1)</script>",
    "> > > > > > > > > > <script>",
    "- - - - - - - - - <script>",
    "**a*b**c*_d__e_~~f~~",
    "&lt;script&gt; &#60;script&#62; &amp;",
    "\u202egnp.exe \u2066x\u2069 \ud800 \x00 \x1b]0;title\x07 \x9b31m",
    "<iframe srcdoc='<script>parent.x=1</script>'></iframe>",
    "<style>*{background:url(https://evil.example)}</style>",
    "<base href=https://evil.example><meta http-equiv=refresh content=0;url=https://evil.example>",
    "<!doctype html><html><body onload=alert(1)>",
]


def everywhere(text: str) -> Document:
    """A document with this text in every field that a page shows."""
    everything = node(
        f"e{text}",
        None,
        Text(text),
        Thinking(text),
        ToolCall(text, text, text),
        ToolCall("c2", "bash", '{"command": 1, "x": null}'),
        ToolResult("none", text, (Text(text), Image(text, text)), diff=f"+{text}\n-{text}"),
        Image("image/png", text),
        Shell(text, text, 1),
        role="assistant",
        model=text,
        stop=text,
        error=f"x{text}",
    )
    event = node("x1", everything.id, kind=f"k{text}", text=text, target=text)
    label = node("x2", "x1", kind="label", text=text, target=text)
    model = node("x3", "x2", kind="model_change", text=text)
    summary = node("x4", "x3", kind="compaction", text=text)
    other = node("x5", everything.id, Text(text))
    return document(
        everything, event, label, model, summary, other, leaf="x4", labels={everything.id: text}, title=text
    )


def deep(count: int) -> Document:
    """A session of so many entries, one below the other."""
    return document(
        *(
            node(
                f"n{i}",
                f"n{i - 1}" if i else None,
                Text(f"say {i}"),
                minute=i,
                role="assistant" if i % 2 else "user",
            )
            for i in range(count)
        )
    )


def showcase() -> Document:
    """One of everything in one conversation, for looking at."""
    nodes: list[Node] = []
    parent: str | None = None
    for name, kind in KINDS.items():
        if name in {"empty", "strange", "branches"}:
            continue
        for at in kind.nodes:
            blocks = tuple(_renamed(block, name) for block in at.view.blocks)
            view = {f: getattr(at.view, f) for f in at.view.__struct_fields__}
            nodes.append(
                Node(
                    f"{name}-{at.id}",
                    parent,
                    at.stamp + len(nodes) * 60_000,
                    View(**{**view, "blocks": blocks}),
                )
            )
            parent = nodes[-1].id
    fork = nodes[2].id
    nodes.append(node("left", fork, Text("Try it another way: rewrite the parser."), minute=500))
    nodes.append(node("left2", "left", Text("I rewrote it."), minute=501, role="assistant"))
    return document(*nodes, leaf=parent, labels={"user-u1": "start here"}, title="Fix the flaky parser test")


def _renamed(block: Block, name: str) -> Block:
    if isinstance(block, ToolCall):
        return ToolCall(f"{name}-{block.id}", block.name, block.arguments)
    if isinstance(block, ToolResult):
        return ToolResult(f"{name}-{block.call}", block.name, block.content, block.is_error, block.diff)
    return block
