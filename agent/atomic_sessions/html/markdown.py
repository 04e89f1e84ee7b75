"""Markdown of a message to HTML: what models write (headings, lists, code, tables, links), nothing else.

Raw HTML is text, images are links, addresses are http, https or mailto. Line breaks stay (the
style sheet keeps them). Linear in the length of the text, whatever it holds; nesting is bounded.
"""

import re

from atomic_sessions.html.escaping import clean, entities
from atomic_sessions.html.inline import inline

MAX_DEPTH = 6

_PLAIN = re.compile(r"[*_`\[\]#>|~<\\\n=+-]|\d[.)] |://|mailto:")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)$")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"( {0,12}|\t{1,3})([-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$")
_QUOTE = re.compile(r" {0,3}> ?(.*)$")


def to_html(text: str) -> str:
    """The whole text as block elements."""
    text = clean(text)
    if _PLAIN.search(text) is None:
        return f"<p>{entities(text)}</p>" if text.strip() else ""
    out: list[str] = []
    _blocks(text.split("\n"), 0, out)
    return "".join(out)


def _blocks(lines: list[str], depth: int, out: list[str]) -> None:
    paragraph: list[str] = []
    at, end = 0, len(lines)

    def flush() -> None:
        if paragraph:
            out.append(f"<p>{inline(chr(10).join(paragraph))}</p>")
            paragraph.clear()

    while at < end:
        text = lines[at]
        first = text.lstrip()[:1]
        if not first:
            flush()
            at += 1
        elif first in "`~" and (fence := _FENCE.match(text)):
            flush()
            at = _fenced(lines, at, fence, out)
        elif first == "#" and (heading := _HEADING.match(text)):
            flush()
            level = min(len(heading[1]) + 2, 6)
            out.append(f"<h{level}>{inline(heading[2].rstrip(' #'))}</h{level}>")
            at += 1
        elif first in "-*_" and _RULE.match(text):
            flush()
            out.append("<hr>")
            at += 1
        elif first == ">" and depth < MAX_DEPTH and _QUOTE.match(text):
            flush()
            at = _quoted(lines, at, depth, out)
        elif (
            first in "-*+0123456789"
            and depth < MAX_DEPTH
            and (item := _ITEM.match(text))
            and _starts(item, paragraph)
        ):
            flush()
            at = _listed(lines, at, item, depth, out)
        elif "|" in text and at + 1 < end and _is_ruler(lines[at + 1], text):
            flush()
            at = _table(lines, at, out)
        else:
            paragraph.append(text)
            at += 1
    flush()


def _starts(item: re.Match[str], paragraph: list[str]) -> bool:
    """Inside a paragraph only a bullet or `1.` starts a list: a line may begin with a year or a minus."""
    return not paragraph or (item[3] is not None and item[2] in {"-", "*", "+", "1.", "1)"})


def _fenced(lines: list[str], at: int, fence: re.Match[str], out: list[str]) -> int:
    mark, language = fence[1], fence[2].strip().split(" ")[0][:40]
    indent = len(lines[at]) - len(lines[at].lstrip())
    body: list[str] = []
    at += 1
    while at < len(lines):
        stripped = lines[at].strip()
        if stripped[:1] == mark[0] and len(stripped) >= len(mark) and not stripped.strip(mark[0]):
            at += 1
            break
        body.append(lines[at][indent:] if lines[at][:indent].isspace() else lines[at])
        at += 1
    label = f' data-l="{entities(language)}"' if language else ""
    out.append(f"<pre{label}><code>{entities(chr(10).join(body))}</code></pre>")
    return at


def _quoted(lines: list[str], at: int, depth: int, out: list[str]) -> int:
    body: list[str] = []
    while at < len(lines) and (quote := _QUOTE.match(lines[at])):
        body.append(quote[1])
        at += 1
    out.append("<blockquote>")
    _blocks(body, depth + 1, out)
    out.append("</blockquote>")
    return at


def _listed(lines: list[str], at: int, first: re.Match[str], depth: int, out: list[str]) -> int:
    """One list: items of the same kind at this indent; deeper lines belong to the item above them."""
    base = len(first[1].expandtabs(4))
    ordered = first[2] not in {"-", "*", "+"}
    start = first[2][:-1] if ordered else ""
    out.append((f'<ol start="{int(start)}">' if start != "1" else "<ol>") if ordered else "<ul>")
    body: list[str] = [first[3] or ""]
    width = base + len(first[2]) + 1
    at += 1
    while at < len(lines):
        text = lines[at]
        if not text.strip():
            following = next((t for t in lines[at + 1 : at + 4] if t.strip()), "")
            if not following or not (_indent(following) > base or _same(following, base, ordered)):
                break
            body.append("")
        elif _same(text, base, ordered):
            _item(body, depth, out)
            again = _ITEM.match(text)
            body = [(again[3] or "") if again else ""]
        elif _indent(text) > base:
            body.append(_dedent(text, width))
        elif body[-1] and not _interrupts(text):
            body.append(text)
        else:
            break
        at += 1
    _item(body, depth, out)
    out.append("</ol>" if ordered else "</ul>")
    return at


def _item(body: list[str], depth: int, out: list[str]) -> None:
    if len(body) == 1:
        out.append(f"<li>{inline(body[0])}</li>")
        return
    inner: list[str] = []
    _blocks(body, depth + 1, inner)
    if inner and inner[0].startswith("<p>"):
        inner[0] = inner[0][3:-4]  # a tight item: its first paragraph stands beside the bullet
    out.append(f"<li>{''.join(inner)}</li>")


def _same(text: str, base: int, ordered: bool) -> bool:
    item = _ITEM.match(text)
    return (
        item is not None
        and abs(len(item[1].expandtabs(4)) - base) < 2
        and (item[2] not in {"-", "*", "+"}) == ordered
        and not _RULE.match(text)
    )


def _interrupts(text: str) -> bool:
    return bool(
        _FENCE.match(text)
        or _HEADING.match(text)
        or _RULE.match(text)
        or _ITEM.match(text)
        or _QUOTE.match(text)
    )


def _indent(text: str) -> int:
    return len(text[: len(text) - len(text.lstrip())].expandtabs(4))


def _dedent(text: str, width: int) -> str:
    return text.expandtabs(4)[width:] if _indent(text) >= width else text.lstrip()


def _is_ruler(text: str, head: str) -> bool:
    marks = text.strip()
    return (
        "-" in marks
        and "|" in marks
        and not marks.strip("|:- \t")
        and len(_cells(marks)) == len(_cells(head))
    )


def _cells(text: str) -> list[str]:
    text = text.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", text)]


def _table(lines: list[str], at: int, out: list[str]) -> int:
    head = _cells(lines[at])
    out.append("<div class=tb><table><tr>" + "".join(f"<th>{inline(cell)}</th>" for cell in head) + "</tr>")
    at += 2
    while at < len(lines) and "|" in lines[at]:
        cells = _cells(lines[at])
        out.append("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in cells) + "</tr>")
        at += 1
    out.append("</table></div>")
    return at
