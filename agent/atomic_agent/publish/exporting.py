"""A session to a file of the person's own: HTML, JSONL or Markdown (B29)."""

from pathlib import Path
from typing import Literal

import msgspec

from atomic_agent import private_files
from atomic_agent.cache import entries, leaf, sessions
from atomic_agent.cache.cache import Cache
from atomic_agent.publish.reading import lines_of
from atomic_agent.publish.redacting import redacted_lines
from atomic_sessions.document import jsonl, read
from atomic_sessions.entry import Entry
from atomic_sessions.errors import UsageError
from atomic_sessions.html.render import render_page
from atomic_sessions.markdown import render_markdown
from atomic_sessions.redact import Report

Form = Literal["html", "jsonl", "md"]
FORMS: dict[str, Form] = {".html": "html", ".htm": "html", ".jsonl": "jsonl", ".md": "md", ".markdown": "md"}


def form_of(path: Path) -> Form:
    """The form a file name asks for; UsageError for another ending."""
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(f"'{path.name}' does not say what to write.", "End it in .html, .jsonl or .md")
    return form


def render(
    cache: Cache, row: sessions.SessionRow, form: Form, *, branch: bool = False, redact: bool = False
) -> tuple[bytes, Report | None]:
    """The file's content. `branch`: only the open branch; `redact`: without secrets and home paths."""
    report: Report | None = None
    facts = row.facts
    if redact:
        facts, found, report = redacted_lines(cache, row)
    else:
        found = list(lines_of(cache, row))
    opened = leaf.leaf(cache, row.key)
    if branch:
        on_it = {entry.id for entry in entries.branch(cache, row.key, opened)}
        found = [entry for entry in found if entry.id in on_it or _is_header(entry)]
    if form == "jsonl":
        return b"".join(jsonl(facts, found)), report
    page = read(facts, row.label, opened, found, row.summary)
    if redact:
        page = msgspec.structs.replace(page, title=row.name or row.id)
    text = render_page(page) if form == "html" else render_markdown(page)
    return text.encode("utf-8", "replace"), report


def _is_header(entry: Entry) -> bool:
    return entry.pos == 0 and entry.loose


def export(
    cache: Cache,
    row: sessions.SessionRow,
    path: Path,
    *,
    branch: bool = False,
    redact: bool = False,
    replace: bool = False,
) -> tuple[int, Report | None]:
    """Write the file whole or not at all; returns its size in bytes and what was redacted."""
    form = form_of(path)
    if path.exists() and not replace:
        raise UsageError(f"{path} exists already.", "Name another file, or give --force to replace it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", "Make it first.")
    content, report = render(cache, row, form, branch=branch, redact=redact)
    private_files.write(path, content)
    return len(content), report
