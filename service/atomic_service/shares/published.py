"""Public shares as HTML, Markdown and JSONL, made from the published entries by the one renderer. No markup comes in.

Everything here takes memory and time in proportion to the session, so it is bounded and runs in threads.
"""

from atomic_service.problems import Refused
from atomic_sessions.bundle import Bundle, decode_bundle
from atomic_sessions.document import Document, jsonl, read
from atomic_sessions.errors import AtomicError, SealError
from atomic_sessions.formats.agents import viewer
from atomic_sessions.html.render import render_page
from atomic_sessions.markdown import render_markdown
from atomic_sessions.wire import ErrorCode

MAX_PUBLIC_BYTES = 16 * 1024 * 1024
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""A replica has 768 MiB, and a page in the making is several times its session."""


def read_bundle(raw: bytes) -> Bundle:
    """A bundle that can be shown, or a refusal."""
    try:
        bundle = decode_bundle(raw, MAX_UNPACKED_BYTES)
        viewer(bundle.facts.agent)
    except (AtomicError, SealError, RecursionError) as error:
        raise Refused(
            ErrorCode.BAD_REQUEST, "The object is not a published session this service can show."
        ) from error
    return bundle


def document_of(bundle: Bundle) -> Document:
    """What a reader sees of a bundle."""
    return read(bundle.facts, bundle.name, bundle.leaf, bundle.entries)


def as_html(raw: bytes) -> bytes:
    return render_page(document_of(read_bundle(raw))).encode("utf-8", "replace")


def as_markdown(raw: bytes) -> bytes:
    return render_markdown(document_of(read_bundle(raw))).encode("utf-8", "replace")


def as_jsonl(raw: bytes) -> bytes:
    """The session's own lines as they were published; the header first where it is no line of its own."""
    bundle = read_bundle(raw)
    return b"".join(jsonl(bundle.facts, bundle.entries))
