"""Text of a session to text of a page. Everything a page shows goes through here; there is no way round.

Never returns a character that ends a tag or an attribute, reorders the text around it, or cannot
be encoded. Nothing is dropped but terminal escapes: what cannot be shown is named instead.
"""

import re
from urllib.parse import quote

# What a page must not carry as it is: controls but tab and newline, bidi overrides and isolates, lone surrogates.
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

# CSI sequences; strings (OSC, DCS …) only when they are closed, so that none can swallow the rest; two-character ones.
_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]?[0-OQ-WYZ\\`-~])"
)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x20]+", re.IGNORECASE)


def clean(text: str) -> str:
    """The text without terminal escapes, with every other unprintable character made visible."""
    if _ODD.search(text) is None:
        return text
    text = _TERMINAL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _ODD.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0x202A <= code <= 0x2069:
        return f"\u27e6U+{code:04X}\u27e7"
    return "\ufffd"


def entities(text: str) -> str:
    """Text that `clean` returned, as HTML for elements and double-quoted attributes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def escape(text: str) -> str:
    """Any text, as HTML for elements and double-quoted attributes."""
    return entities(clean(text))


def line(text: str, limit: int) -> str:
    """Any text as one line of at most `limit` characters, not yet escaped."""
    flat = " ".join(clean(text[: limit * 4]).split())
    return flat if len(flat) <= limit and len(text) <= limit * 4 else flat[: limit - 1].rstrip() + "\u2026"


def target(url: str) -> str | None:
    """The address as an attribute value when it is http, https or mailto; None for every other."""
    return entities(url) if _LINK.fullmatch(url) and _ODD.search(url) is None else None


def anchor(entry_id: str) -> str:
    """The element id of an entry, as an attribute value. The prefix keeps it apart from the page's own."""
    return "e-" + escape(entry_id)


def reference(entry_id: str) -> str:
    """The fragment that leads to `anchor(entry_id)`, as an attribute value."""
    return "#e-" + quote(clean(entry_id), safe="-._~")
