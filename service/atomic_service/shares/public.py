"""`/s/…`: what anybody with a link sees. A GET never counts as a view: previews and scanners make them.

Nothing of a link is logged, cached or told to another site (edge.py), and no page loads anything from elsewhere.
"""

import asyncio
from collections.abc import Callable

from litestar import HttpMethod, Response, Router, get, post, route
from litestar.params import FromPath
from litestar.response import Stream

from atomic_service.blobs.port import object_key
from atomic_service.blobs.routes import object_reply
from atomic_service.problems import Refused
from atomic_service.replica import Here, Replica
from atomic_service.shares import published
from atomic_service.shares.pages import sealed
from atomic_service.shares.rules import ShareRow, name_to_id, state_of
from atomic_service.shares.store import claim, find_share
from atomic_sessions.html.policy import page_policy, share_policy
from atomic_sessions.wire import ErrorCode

READ = [HttpMethod.GET, HttpMethod.HEAD]
POLICY = "content-security-policy"
RENDERED: dict[str, tuple[Callable[[bytes], bytes], str, dict[str, str]]] = {
    ".md": (published.as_markdown, "text/markdown", {}),
    ".jsonl": (published.as_jsonl, "application/x-ndjson", {}),
    "": (published.as_html, "text/html", {POLICY: page_policy(script=True) + "; frame-ancestors 'none'"}),
}


async def live_share(replica: Replica, name: str) -> ShareRow:
    """The share of a link that still holds; not_found or gone otherwise."""
    replica.open_requests.take()
    share = name_to_id(name)
    row = None
    if share is not None:
        async with replica.db.connection() as connection:
            row = await find_share(connection, share)
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND)
    if state_of(row, replica.clock()) != "live":
        raise Refused(ErrorCode.GONE)
    return row


@route("/s/{name:str}", http_method=READ, media_type="text/html")
async def get_page(name: FromPath[str], replica: Here) -> Response[bytes]:
    """The page of a link; with `.md` or `.jsonl` a public share in that form."""
    stem, dot, suffix = name.partition(".")
    form = RENDERED.get(dot + suffix)
    try:
        if form is None:
            raise Refused(ErrorCode.NOT_FOUND)
        row = await live_share(replica, stem)
        if row.kind == "public":
            return await _rendered(replica, row, *form)
        if suffix:
            raise Refused(ErrorCode.NOT_FOUND)
    except Refused as refused:
        if suffix or refused.code not in {ErrorCode.NOT_FOUND, ErrorCode.GONE}:
            raise
        page, status = ("gone.html", 410) if refused.code is ErrorCode.GONE else ("notfound.html", 404)
        return _html(sealed.read(page), status)
    return _html(sealed.page(views=row.views_left), 200)


async def _rendered(
    replica: Replica,
    row: ShareRow,
    render: Callable[[bytes], bytes],
    media_type: str,
    headers: dict[str, str],
) -> Response[bytes]:
    raw = await replica.blobs.get(object_key("share", row.account, row.object))
    async with replica.rendering:
        body = await asyncio.to_thread(render, raw)
    return Response(body, media_type=media_type, headers=headers)


def _html(text: str, status: int) -> Response[bytes]:
    return Response(
        text.encode(), status_code=status, media_type="text/html", headers={POLICY: share_policy()}
    )


@route("/s/{name:str}/payload", http_method=READ, media_type="application/octet-stream")
async def get_payload(name: FromPath[str], replica: Here) -> Stream:
    """The published object's bytes, unless its views are counted."""
    row = await live_share(replica, name)
    if row.views_left is not None:
        raise Refused(ErrorCode.FORBIDDEN, "This link counts its views: POST to claim takes one.")
    return await _payload(replica, row)


@post("/s/{name:str}/claim", status_code=200, media_type="application/octet-stream")
async def post_claim(name: FromPath[str], replica: Here) -> Stream:
    """Take one view and get the bytes. Of two claims of the last view, one is answered 410."""
    row = await live_share(replica, name)
    if row.views_left is None:
        return await _payload(replica, row)
    reply = await _payload(replica, row)  # before the view is taken: a store that is away must not use it up
    async with replica.db.connection() as connection:
        if await claim(connection, row.share, replica.clock()) is None:
            raise Refused(ErrorCode.GONE)
    return reply


async def _payload(replica: Replica, row: ShareRow) -> Stream:
    key = object_key("share", row.account, row.object)
    if await replica.blobs.stat(key) != row.size:
        raise Refused(ErrorCode.GONE)
    return object_reply(replica.blobs.stream(key), row.size)


@get("/s/assets/{name:str}", media_type="text/plain")
async def get_asset(name: FromPath[str]) -> Response[bytes]:
    """Script and styles of the page that opens sealed links."""
    media_type = sealed.ASSETS.get(name)
    if media_type is None:
        raise Refused(ErrorCode.NOT_FOUND)
    return Response(sealed.read(name).encode(), media_type=media_type.partition(";")[0])


public_routes = Router("/", route_handlers=[get_page, get_payload, post_claim, get_asset], tags=["shares"])
