"""A tool call with its result inside it. Every argument and every line of output is in the page, once.

Known tools (read, write, edit, bash, grep, find, ls, whatever their agent calls them) get a heading
a person can read; everything else shows its arguments as they are. Runs nothing, trusts nothing.
"""

import difflib
import json
from typing import cast

from atomic_sessions.entry import Image, ToolCall, ToolResult
from atomic_sessions.html.escaping import anchor, clean, entities, escape, line
from atomic_sessions.html.pictures import picture

# The argument that says what a tool works on, by lower-case name of the tool.
_SUBJECT = {
    "bash": ("command", "cmd"),
    "shell": ("command", "cmd"),
    "exec_command": ("cmd", "command"),
    "read": ("file_path", "path"),
    "write": ("file_path", "path"),
    "edit": ("file_path", "path"),
    "multiedit": ("file_path", "path"),
    "notebookedit": ("notebook_path",),
    "grep": ("pattern",),
    "glob": ("pattern",),
    "find": ("pattern",),
    "ls": ("path",),
    "task": ("description",),
    "agent": ("description",),
    "webfetch": ("url",),
    "websearch": ("query",),
}
_OLD = ("old_string", "oldText", "old_str")
_NEW = ("new_string", "newText", "new_str")
_SHELLS = frozenset({"bash", "shell", "exec_command"})
_PREVIEW = {"read": 10, "write": 10, "ls": 20}
_LINES = 6


def tool(call: ToolCall, answer: tuple[str, ToolResult] | None) -> str:
    """One call; `answer` is the entry whose anchor the result carries, if any, and the result."""
    name = call.name.lower()
    arguments = _arguments(call.arguments)
    status = "wait" if answer is None else "bad" if answer[1].is_error else "ok"
    mark = f' id="{anchor(answer[0])}"' if answer and answer[0] else ""
    out = [f'<div class="tool {status}"{mark}>']
    if arguments is None:
        out.append(f"<p class=th><b>{escape(call.name) or 'tool'}</b></p>")
        out.append(folded(call.arguments, _LINES) if call.arguments.strip() else "")
    else:
        out.append(_called(call.name, name, arguments, answer[1].diff if answer else ""))
    if answer is not None:
        out.append(returned(answer[1], _PREVIEW.get(name, _LINES)))
    else:
        out.append("<p class=no>No result was recorded.</p>")
    out.append("</div>")
    return "".join(out)


def returned(result: ToolResult, preview: int = _LINES) -> str:
    """The output of a tool: diff, text, pictures."""
    out = [diff(result.diff)] if result.diff else []
    for part in result.content:
        if isinstance(part, Image):
            out.append(picture(part))
        elif part.text.strip():
            out.append(folded(part.text, preview))
    return "".join(out)


def folded(text: str, preview: int = _LINES, kind: str = "") -> str:
    """Preformatted text, the part beyond the preview folded away. A fold hides at least three lines."""
    text = entities(clean(text).strip("\n"))
    attribute = f" class={kind}" if kind else ""
    lines = text.count("\n") + 1
    cut = _cut(text, preview)
    if cut is None or (lines <= preview + 2 and len(text) < 4000):
        return f"<pre{attribute}>{text}</pre>"
    rest = text.count("\n", cut)
    label = f"{rest} more lines" if rest > 1 else f"{len(text) - cut} more characters"
    # The newline after <pre> is dropped by the parser, so one is put there on purpose.
    return (
        f"<pre{attribute}>{text[:cut]}</pre><details class=more><summary>{label}</summary>"
        f"<pre{attribute}>\n{text[cut:].removeprefix(chr(10))}</pre></details>"
    )


def _cut(text: str, preview: int) -> int | None:
    """Where the preview ends: after so many lines, or inside a very long line (never inside an entity)."""
    at = -1
    for _ in range(preview):
        at = text.find("\n", at + 1)
        if at < 0 or at > 2000:
            break
    if 0 <= at <= 2000:
        return at
    if len(text) <= 2400:
        return None
    amp = text.rfind("&", 1990, 2000)
    return amp if amp > 0 and text.find(";", amp, 2000) < 0 else 2000


def diff(text: str) -> str:
    """A unified diff, runs of added and removed lines coloured."""
    out = ["<pre class=diff>"]
    run: list[str] = []
    kind = ""

    def close() -> None:
        if run:
            body = entities("\n".join(run)) + "\n"
            out.append(f"<{kind}>{body}</{kind}>" if kind else body)
            run.clear()

    for row in clean(text).strip("\n").split("\n"):
        new = "b" if row[:4] in {"--- ", "+++ "} else {"+": "ins", "-": "del", "@": "b"}.get(row[:1], "")
        if new != kind:
            close()
            kind = new
        run.append(row)
    close()
    out.append("</pre>")
    return "".join(out)


def _arguments(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, object], value) if isinstance(value, dict) else None


def _called(shown: str, name: str, arguments: dict[str, object], made: str) -> str:
    """Heading, and below it every argument the heading does not say."""
    rest = dict(arguments)
    subject = ""
    for key in _SUBJECT.get(name, ()):
        if isinstance(rest.get(key), str):
            subject = str(rest.pop(key))
            break
    out: list[str] = []
    title = escape(shown) or "tool"
    if name in _SHELLS and subject:
        out.append(f"<p class=th><b>{title}</b> <span>{escape(line(_brief(rest), 200))}</span></p>")
        out.append(folded(subject, 12, "cmd"))
    else:
        short = len(subject) <= 300 and "\n" not in subject
        lines = _range(rest) if name == "read" else ""
        code = f" <code>{escape(subject)}</code>{lines}" if short and subject else ""
        out.append(f"<p class=th><b>{title}</b>{code}</p>")
        if not short:
            out.append(folded(subject))
    out.extend(_edits(rest, bool(made)))
    for key, value in rest.items():
        text = value if isinstance(value, str) else _json(value)
        if "\n" in text or len(text) > 120:
            out.append(f"<p class=arg>{escape(key)}</p>{folded(text)}")
        else:
            out.append(f"<p class=arg>{escape(key)}: {escape(text)}</p>")
    return "".join(out)


def _brief(rest: dict[str, object]) -> str:
    """A shell call's own description of itself, when it is one line."""
    value = rest.get("description")
    if isinstance(value, str) and len(value) <= 200 and "\n" not in value:
        del rest["description"]
        return value
    return ""


def _range(rest: dict[str, object]) -> str:
    """`offset` and `limit` of a read as `:10-29`."""
    first, length = rest.get("offset"), rest.get("limit")
    if not isinstance(first, int) or isinstance(first, bool):
        return ""
    del rest["offset"]
    if isinstance(length, int) and not isinstance(length, bool):
        del rest["limit"]
        return f"<span>:{first}-{first + length - 1}</span>"
    return f"<span>:{first}-</span>"


def _edits(rest: dict[str, object], made: bool) -> list[str]:
    """Replacements among the arguments as diffs; left out when the result carries the diff it made."""
    found = [pair] if (pair := _pair(rest)) else []
    edits = rest.get("edits")
    if isinstance(edits, list) and edits and all(isinstance(e, dict) for e in edits):
        pairs = [_pair(dict(e)) if len(e) == 2 else None for e in edits]
        if all(pairs):
            del rest["edits"]
            found.extend(p for p in pairs if p)
    return [] if made else [diff(_compared(old, new)) for old, new in found]


def _pair(values: dict[str, object]) -> tuple[str, str] | None:
    old = next((k for k in _OLD if isinstance(values.get(k), str)), None)
    new = next((k for k in _NEW if isinstance(values.get(k), str)), None)
    return (str(values.pop(old)), str(values.pop(new))) if old and new else None


def _compared(old: str, new: str) -> str:
    """A diff of two texts with their context; of large ones, all of the old and all of the new."""
    before, after = old.split("\n"), new.split("\n")
    if len(before) + len(after) <= 400:
        return "\n".join(_matched(before, after))
    return "\n".join([f"- {row}" for row in before] + [f"+ {row}" for row in after])


def _matched(before: list[str], after: list[str]) -> list[str]:
    rows: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            rows.extend(f"  {row}" for row in before[a:b])
        else:
            rows.extend(f"- {row}" for row in before[a:b])
            rows.extend(f"+ {row}" for row in after[c:d])
    return rows


def _json(value: object) -> str:
    try:
        flat = json.dumps(value, ensure_ascii=False)
        return flat if len(flat) <= 120 else json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return "(nested too deeply to be shown)"
