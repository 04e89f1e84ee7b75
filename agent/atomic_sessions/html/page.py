"""The page around the entries: head, session header, transcript, other branches.

Makes no choice about an entry (that is `articles`) and none about the tree (that is `outline`).
"""

from collections.abc import Mapping

from atomic_sessions.document import Document
from atomic_sessions.html import policy
from atomic_sessions.html.articles import clock, day, draw
from atomic_sessions.html.escaping import anchor, escape, line
from atomic_sessions.html.outline import Outline, Segment
from atomic_sessions.html.totals import Totals, count


def head(document: Document, *, script: bool) -> str:
    """Everything above the body. The policy stands before anything it governs."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f'<meta http-equiv=Content-Security-Policy content="{policy.page_policy(script=script)}">'
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        '<meta name=referrer content=no-referrer><meta name=color-scheme content="light dark">'
        f"<meta name=atomic-renderer content={policy.VERSION}>"
        f"<title>{escape(line(document.title, 120)) or 'Session'}</title><style>{policy.STYLE}</style>"
    )


def banner(document: Document, sums: Totals) -> str:
    """The session's header: what it is, when, which models, how much."""
    facts = [
        ("Agent", document.agent),
        ("Session", document.id),
        ("Started", f"{day(document.created_at)} {clock(document.created_at)} UTC"),
        ("Folder", document.cwd),
        ("Model" if len(sums.models) == 1 else "Models", ", ".join(sums.models)),
        ("Messages", _messages(sums)),
        ("Tokens", _tokens(sums)),
        ("Cost", f"${sums.usage.cost:.3f}" if sums.usage.cost else ""),
    ]
    rows = "".join(
        f"<div><dt>{name}</dt><dd><bdi>{escape(value)}</bdi></dd></div>" for name, value in facts if value
    )
    title = escape(line(document.title, 300)) or "Untitled session"
    summary = f"<p class=lead>{escape(document.summary)}</p>" if document.summary else ""
    return f"<header class=top><h1><bdi>{title}</bdi></h1>{summary}<dl>{rows}</dl></header>"


def _messages(sums: Totals) -> str:
    parts = [f"{sums.user} user", f"{sums.assistant} assistant"]
    if sums.calls:
        parts.append(_plural(sums.calls, "tool call"))
    return " \u00b7 ".join(parts)


def _tokens(sums: Totals) -> str:
    usage = sums.usage
    named = [
        ("in", usage.input),
        ("out", usage.output),
        ("cache read", usage.cache_read),
        ("cache write", usage.cache_write),
    ]
    return " \u00b7 ".join(f"{count(number)} {name}" for name, number in named if number)


def transcript(plan: Outline, labels: Mapping[str, str], out: list[str]) -> None:
    """The active path, then the other branches, each behind a fold that names it."""
    drawn = [_Draft(segment, plan, labels) for segment in plan.segments]
    forks: dict[str, list[int]] = {}
    for number, draft in enumerate(drawn[1:], 1):
        if draft.spoken and draft.segment.origin is not None:
            forks.setdefault(draft.segment.origin, []).append(number)
    out.append("<main id=transcript><section class=path aria-label=Conversation>")
    drawn[0].write(out, forks, drawn)
    if not plan.segments[0].nodes:
        out.append("<p class=no>This conversation is empty.</p>")
    out.append("</section>")
    rest = [number for number, draft in enumerate(drawn) if number and draft.shown]
    if rest:
        out.append("<section class=others aria-label='Other branches'><h2>Other branches</h2>")
        for number in rest:
            draft = drawn[number]
            origin = (
                f' data-from="{anchor(draft.segment.origin)}"' if draft.segment.origin is not None else ""
            )
            out.append(f"<details class=branch id=b{number}{origin}><summary>{draft.title}</summary>")
            draft.write(out, forks, drawn)
            out.append("</details>")
        out.append("</section>")
    out.append("</main>")


class _Draft:
    """One segment while it is drawn: pieces by entry, so that notes on forks can go between them."""

    def __init__(self, segment: Segment, plan: Outline, labels: Mapping[str, str]) -> None:
        self.segment = segment
        self.html: list[tuple[str, str]] = []
        self.spoken = 0
        quiet: list[str] = []
        before = last_day = ""
        for node in segment.nodes:
            drawn = draw(node, plan, labels.get(node.id, ""), before)
            if drawn.quiet:
                quiet.append(drawn.html)
                self.html.append((node.id, ""))
                continue
            piece = ""
            if drawn.html:
                if quiet:
                    piece = _events(quiet)
                    quiet = []
                today = day(node.view.at if node.view.at is not None else node.stamp)
                if today != last_day:
                    last_day = today
                    piece += f"<h2 class=day>{today}</h2>"
                piece += drawn.html
                before = drawn.speaker
                self.spoken += drawn.spoken
            self.html.append((node.id, piece))
        if quiet:
            self.html.append(("", _events(quiet)))

    @property
    def shown(self) -> bool:
        """Whether anything of it is drawn here; results that stand in their calls are not."""
        return any(piece for _, piece in self.html)

    @property
    def title(self) -> str:
        """What a reader sees of a folded branch: how it begins and how long it is."""
        first = ""
        side = bool(self.segment.nodes) and self.segment.nodes[0].view.side
        for node in self.segment.nodes:
            text = node.view.spoken() or node.view.text
            if text.strip():
                first = line(text, 90)
                break
        kind = "Sub-agent" if side else "Branch"
        size = _plural(self.spoken, "message") if self.spoken else _plural(len(self.segment.nodes), "event")
        return f"{kind}: <bdi>{escape(first)}</bdi> <small>{size}</small>"

    def write(self, out: list[str], forks: Mapping[str, list[int]], drawn: list["_Draft"]) -> None:
        """The segment, and after each entry where another branch leaves, a link to it."""
        for node_id, piece in self.html:
            if piece:
                out.append(piece)
            for number in forks.get(node_id, ()):
                out.append(f"<p class=fork><a href=#b{number}>{drawn[number].title}</a></p>")


def _events(quiet: list[str]) -> str:
    label = _plural(len(quiet), "event")
    return f"<details class=quiet><summary>{label}</summary><ul>{''.join(quiet)}</ul></details>"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
