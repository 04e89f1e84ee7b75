"""What a page may do: its own style and script by hash, pictures as `data:`, and nothing else.

The hashes are of the very bytes that `page` embeds, so the policy of the share page and the
renderer cannot drift apart. `VERSION` names this pair; a page made by another pair does not run here.
"""

import base64
import hashlib
from importlib.resources import files

from msgspec import Struct


class Hashes(Struct, frozen=True):
    """Content policy sources of the renderer's script and style, `'sha256-…'`."""

    script: str
    style: str


def _asset(name: str) -> str:
    return files("atomic_sessions.html").joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


STYLE = _asset("style.css")
SCRIPT = _asset("script.js")
_HASHES = Hashes(_source(SCRIPT), _source(STYLE))
VERSION = hashlib.sha256(f"{_HASHES.script}{_HASHES.style}".encode()).hexdigest()[:16]


def script_and_style_hashes() -> Hashes:
    """The sources that allow the script and the style of every page of this renderer."""
    return _HASHES


def page_policy(*, script: bool) -> str:
    """The policy inside a page, for when it is opened as a file."""
    allowed = _HASHES.script if script else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_HASHES.style}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def share_policy() -> str:
    """The Content-Security-Policy header of the page that opens sealed links (design.md section 8).

    A `srcdoc` frame inherits it, hence the renderer's hashes.
    """
    return (
        f"default-src 'none'; script-src 'self' {_HASHES.script}; style-src 'self' {_HASHES.style}; img-src data:; "
        "connect-src 'self'; require-trusted-types-for 'script'; trusted-types share; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
