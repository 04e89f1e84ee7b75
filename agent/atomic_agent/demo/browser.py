"""A headless browser that opens one page and tells its text."""

import os
import shutil

from atomic_agent.demo.stage import DemoError

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 20_000
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def text_of_page(link: str, wanted: str) -> str:
    """The text the sealed page shows in its frame, once `wanted` is in it. DemoError when it never is."""
    executable = os.environ.get("ATOMIC_BROWSER") or next(
        (p for c in CANDIDATES if (p := shutil.which(c))), None
    )
    if executable is None:
        raise DemoError("there is no Chromium or Chrome; install one, or set ATOMIC_BROWSER to its path")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise DemoError("playwright is not installed; run ./dev setup") from None
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable, args=ARGUMENTS)
        try:
            page = browser.new_page()
            page.goto(link)
            shown = page.frame_locator("iframe").locator("body")
            page.frame_locator("iframe").get_by_text(wanted).first.wait_for(timeout=SECONDS)
            return shown.inner_text()
        except Error as error:
            raise DemoError(f"the page did not show the session: {error.message.splitlines()[0]}") from None
        finally:
            browser.close()
