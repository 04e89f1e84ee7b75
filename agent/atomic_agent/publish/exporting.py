"""A session to a file of the person's own: HTML, JSONL or Markdown (B29)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from atomic_agent import private_files
from atomic_agent.publish.redacting import redactor, without_places
from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_sessions.document import jsonl, read
from atomic_sessions.entry import Entry
from atomic_sessions.errors import UsageError
from atomic_sessions.html.render import render_pieces
from atomic_sessions.markdown import markdown_pieces
from atomic_sessions.redact import Report

Form = Literal["html", "jsonl", "md"]
FORMS: dict[str, Form] = {".html": "html", ".htm": "html", ".jsonl": "jsonl", ".md": "md", ".markdown": "md"}


def form_of(path: Path) -> Form:
    """The form a file name asks for; UsageError for another ending."""
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(f"'{path.name}' does not say what to write.", "End it in .html, .jsonl or .md")
    return form


class Rendering:
    """A file's content in pieces. `report` says what was redacted once they are all read; None when nothing
    was to be."""

    def __init__(
        self,
        store: Store,
        row: Row,
        form: Form,
        *,
        branch: bool = False,
        redact: bool = False,
    ) -> None:
        """`branch`: only the open branch; `redact`: without secrets and home paths."""
        self._store, self._row, self._form = store, row, form
        self._branch = branch
        self._work = redactor() if redact else None
        self._facts = row.facts if self._work is None else without_places(row.facts, self._work)

    @property
    def report(self) -> Report | None:
        return self._work.report() if self._work is not None else None

    def pieces(self) -> Iterator[bytes]:
        """A JSONL file is read and written line by line; a page needs its whole conversation first."""
        opened = self._store.leaf(self._row.key)
        found = self._entries(opened)
        if self._form == "jsonl":
            yield from jsonl(self._facts, found)
            return
        page = read(self._facts, self._row.label, opened, found, self._row.summary)
        if self._work is not None:
            page = msgspec.structs.replace(page, title=self._row.name or self._row.facts.id)
        drawn = render_pieces(page) if self._form == "html" else markdown_pieces(page)
        for piece in drawn:
            yield piece.encode("utf-8", "replace")

    def _entries(self, opened: str | None) -> Iterator[Entry]:
        key = self._row.key
        on_it = {entry.id for entry in self._store.climb(key, opened)} if self._branch else None
        for entry in self._store.read(key):
            if on_it is None or entry.id in on_it or _is_header(entry):
                yield entry if self._work is None else self._work.entry(entry)


def _is_header(entry: Entry) -> bool:
    return entry.pos == 0 and entry.loose


def export(
    store: Store,
    row: Row,
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
    rendering = Rendering(store, row, form, branch=branch, redact=redact)
    size = private_files.write_pieces(path, rendering.pieces())
    return size, rendering.report
