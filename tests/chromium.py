"""The browser of this machine, as the tests start it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP share.test 127.0.0.1",
]


def chromium_path() -> str:
    """The browser of this machine; these tests fail without one, they are never left out."""
    for name in (os.environ.get("ATOMIC_BROWSER"), "chromium", "chromium-browser", "google-chrome", "chrome"):
        found = shutil.which(name) if name else None
        if found:
            return found
    pytest.fail(
        "No Chromium was found. Install it (Debian: apt-get install chromium) or set ATOMIC_BROWSER to its path."
    )


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium. While it is there, this thread has a running event loop: what needs one of its own fails,
    so it must not outlive the tests that look at pages."""
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()
