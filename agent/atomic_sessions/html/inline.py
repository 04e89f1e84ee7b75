"""One run of Markdown text to HTML: code, emphasis, links. No blocks, no raw HTML, no images.

Linear in the length of the text: every construct is found by a bounded pattern or by a stack.
"""

import re
from bisect import bisect_left

from atomic_sessions.html.escaping import entities, target

_TOKEN = re.compile(
    r"\\[*_`~\[\]#<>|\\]|`+|\*+|_+|~~+|!?\[|(?<![\w/])(?:https?://|mailto:)|<(?=https?://)", re.IGNORECASE
)
_LINK = re.compile(
    r"!?\[([^\[\]]{0,1000})\]\([ \t]*<?((?:[^\s()<>]|\([^\s()<>]{0,500}\)){1,2000})>?"
    r"(?:[ \t]+[\"'][^\"'\n]{0,300}[\"'])?[ \t]*\)"
)
_BARE = re.compile(r"(?:https?://|mailto:)[^\s<>\"'`|\\^{}]+", re.IGNORECASE)
_TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
_REL = 'rel="noreferrer noopener" target=_blank'


def inline(text: str, links: bool = True) -> str:
    """Text that `clean` returned, with code, emphasis and links."""
    if _TOKEN.search(text) is None:
        return entities(text)
    out: list[str] = []
    opened: list[tuple[str, int]] = []
    runs: dict[int, list[int]] | None = None
    at = done = 0
    while token := _TOKEN.search(text, at):
        start, at = token.span()
        mark = token.group()
        out.append(entities(text[done:start]))
        done = start
        kind = mark[0]
        if kind == "\\":
            out.append(entities(mark[1]))
            done = at
        elif kind == "`":
            if runs is None:
                runs = _backticks(text)
            # A run behind an escaped backtick is shorter than the one that was counted.
            places = runs.get(len(mark), [])
            after = bisect_left(places, at)
            if after < len(places):
                code = text[at : places[after]]
                out.append(f"<code>{entities(code[1:-1] if _padded(code) else code)}</code>")
                at = done = places[after] + len(mark)
        elif kind in "[!":
            if links and (link := _LINK.match(text, start)):
                out.append(_linked(link, kind == "!"))
                at = done = link.end()
        elif kind in "hHmM":
            if links and (bare := _BARE.match(text, start)):
                url = _trimmed(bare.group())
                if (href := target(url)) is not None:
                    out.append(f'<a href="{href}" {_REL}>{href}</a>')
                    at = done = start + len(url)
        elif mark in _TAGS:
            done = at
            _emphasis(text, start, at, mark, opened, out)
    out.append(entities(text[done:]))
    return "".join(out)


def _emphasis(
    text: str, start: int, end: int, mark: str, opened: list[tuple[str, int]], out: list[str]
) -> None:
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    inside = mark[0] == "_"
    if not before.isspace() and not (inside and after.isalnum()):
        for level in range(len(opened) - 1, -1, -1):
            if opened[level][0] == mark:
                out[opened[level][1]] = f"<{_TAGS[mark]}>"
                out.append(f"</{_TAGS[mark]}>")
                del opened[level:]
                return
    if not after.isspace() and not (inside and before.isalnum()) and len(opened) < 12:
        opened.append((mark, len(out)))
    out.append(mark)


def _backticks(text: str) -> dict[int, list[int]]:
    runs: dict[int, list[int]] = {}
    for run in re.finditer(r"`+", text):
        runs.setdefault(len(run.group()), []).append(run.start())
    return runs


def _padded(code: str) -> bool:
    return len(code) > 2 and code[0] == " " and code[-1] == " " and not code.isspace()


def _linked(link: re.Match[str], image: bool) -> str:
    href = target(link[2])
    if href is None:
        return entities(link.group())
    label = inline(link[1], links=False) or href
    return f'<a href="{href}" {_REL}>{"image: " if image else ""}{label}</a>'


def _trimmed(url: str) -> str:
    url = url.rstrip(".,;:!?*_~")
    while url.endswith((")", "]")) and url.count(url[-1]) > url.count("(" if url[-1] == ")" else "["):
        url = url[:-1].rstrip(".,;:!?*_~")
    return url
