"""A document to one self-contained HTML page: the only renderer, for exports, shares and the archive.

The page asks the network for nothing, reads as a plain transcript without its script, and holds
every entry of every branch once. The same document gives the same bytes.
"""

from atomic_sessions.document import Document
from atomic_sessions.html import page, policy
from atomic_sessions.html.outline import outline
from atomic_sessions.html.totals import totals


def render_page(document: Document, *, script: bool = True) -> str:
    """The whole page. Without `script` it is the plain transcript that any browser shows."""
    return "".join(render_pieces(document, script=script))


def render_pieces(document: Document, *, script: bool = True) -> list[str]:
    """The page in pieces to be written one after the other: a large one need not be held twice."""
    plan = outline(document)
    out = [page.head(document, script=script), "<body>", page.banner(document, totals(document.nodes))]
    page.transcript(plan, document.labels, out)
    if script:
        out.append(f"<script>{policy.SCRIPT}</script>")
    out.append("</body></html>\n")
    return out
