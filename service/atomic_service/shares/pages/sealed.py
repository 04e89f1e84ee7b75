"""The page that opens sealed links, filled in for one share, and the files beside it.

Knows neither secret nor content: the page is the same for every share but for its view limit.
Serve `page()` at `/s/ID` and each of `ASSETS` at `/s/assets/NAME`, under `html.policy.share_policy()`.
"""

from importlib.resources import files

from atomic_sessions.html.policy import VERSION

_MARK = "<!-- atomic-meta -->"
ASSETS = {
    "share.js": "text/javascript; charset=utf-8",
    "share.css": "text/css; charset=utf-8",
    "plain.css": "text/css; charset=utf-8",
}
"""Names under `/s/assets/` and their media types."""


def page(*, views: int | None = None) -> str:
    """`sealed.html` for one share; `views` is its limit, None for any number of views."""
    metas = f'<meta name="atomic-renderer" content="{VERSION}">'
    if views is not None:
        metas += (
            f'\n<meta name="atomic-claim" content="1">\n<meta name="atomic-views" content="{int(views)}">'
        )
    return read("sealed.html").replace(_MARK, metas)


def read(name: str) -> str:
    """One file of this folder."""
    return files("atomic_service.shares.pages").joinpath(name).read_text(encoding="utf-8")
