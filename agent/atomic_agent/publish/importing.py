"""Bringing a file or a shared session into a store (B9, C6). Nothing there is replaced."""

import getpass
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from atomic_agent.stores.port import Store
from atomic_agent.stores.rows import Row
from atomic_agent.sync.client import Client
from atomic_agent.sync.run import now_ms
from atomic_sessions import compose, wire
from atomic_sessions.bundle import Bundle, decode_bundle
from atomic_sessions.entry import Entry, Facts
from atomic_sessions.errors import (
    BadSessionFileError,
    NotFoundError,
    ServiceRefusedError,
    UsageError,
)
from atomic_sessions.formats import atom_import
from atomic_sessions.formats.agents import viewer
from atomic_sessions.formats.atom import MAX_BYTES
from atomic_sessions.formats.detect import detect
from atomic_sessions.formats.lines import split
from atomic_sessions.formats.scan import Scanner, ScanState
from atomic_sessions.formats.upgrade import read_header, upgrade
from atomic_sessions.ids import session_key
from atomic_sessions.sharing import ShareLink, needs_password, open_share, parse_link
from atomic_sessions.unreadable import UNREADABLE

CHUNK = 1024 * 1024


class _Said(Struct):
    sessionId: str = ""
    isSidechain: bool = False


_CLAUDE = msgspec.json.Decoder(_Said)


def import_file(store: Store, path: Path, cwd: str) -> Row:
    """Copy a session file in under its own id, older formats upgraded.

    Raises BadSessionFileError, FutureFormatError, SessionExistsError; nothing is half imported.
    """
    if (atom := _atom_file(path)) is not None:
        said, entries = atom_import.session(atom, cwd, store.project_of(cwd), now_ms())
        return store.create(said, entries)
    facts, lines = read_file(path, cwd, store.project_of)
    return store.create(facts, _entries(facts, lines))


def _atom_file(path: Path) -> bytes | None:
    """The bytes of an Atom file (A2), None for anything else."""
    try:
        if not path.is_file() or detect(_head(path)).agent:
            return None
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError:
        return None  # read_file says why
    return raw if atom_import.is_atom(raw) else None


def read_file(path: Path, cwd: str, project_of: Callable[[str], str]) -> tuple[Facts, Iterator[bytes]]:
    """What a session file is, and its lines (format 4 for Atomic and pi files), streamed."""
    if path.is_dir():
        raise BadSessionFileError(
            f"{path} is a folder, not a session file.", "To take in a folder: atomic capture --from DIR"
        )
    if not path.is_file():
        what = "is no regular file" if path.exists() else "is not there"
        raise BadSessionFileError(f"{path} {what}.", "Name an exported .jsonl file.")
    try:
        head = _head(path)
    except OSError as error:
        raise BadSessionFileError(
            f"{path} cannot be read: {error.strerror}.", "Check the file's rights."
        ) from error
    kind = detect(head)
    if not kind.agent:
        mend = (
            "Export it as .jsonl"
            if path.suffix == ".html"
            else "Name a session file of Atomic, pi or Claude Code."
        )
        raise BadSessionFileError(f"{path} is {kind.why}.", mend)
    if kind.agent == "claude-code":
        return _claude_facts(path, head, cwd, project_of), _raw_lines(path)
    if kind.agent == "codex":
        raise BadSessionFileError(
            f"{path} is a session of Codex, which is captured, not imported.",
            f"Take it in: atomic capture --from {path}",
        )
    lines = (raw for raw in _raw_lines(path) if raw.strip())
    try:
        header = read_header(next(lines))
    except BadSessionFileError as error:
        raise type(error)(f"{path}: {error.message}", error.mend) from None
    project = project_of(header.cwd or cwd)
    key = session_key("atomic", header.id, project)
    facts = Facts(
        "atomic",
        header.id,
        key.scope,
        header.cwd,
        project,
        header.created_at,
        header.parent,
        header.internal,
        header.raw,
    )
    return facts, upgrade(header, lines)


def _claude_facts(path: Path, head: list[bytes], cwd: str, project_of: Callable[[str], str]) -> Facts:
    view = viewer("claude-code")
    views = [view(raw) for raw in head]
    identity = next(filter(None, map(_claude_session, head)), path.stem)
    there = next((v.cwd for v in views if v.cwd), "")
    created = next((v.at for v in views if v.at is not None), 0)
    project = project_of(there or cwd)
    return Facts(
        "claude-code",
        identity,
        session_key("claude-code", identity, project).scope,
        there,
        project,
        created,
    )


def _claude_session(raw: bytes) -> str:
    """The session that a line of Claude Code says it is of, whatever its file is called by now; a sub-agent's line
    names its parent's."""
    try:
        said = _CLAUDE.decode(raw)
    except UNREADABLE:
        return ""
    return "" if said.isSidechain else said.sessionId


def _head(path: Path) -> list[bytes]:
    with path.open("rb") as stream:
        return [line.raw for line in split([stream.read(CHUNK)])][:200]


def _raw_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        for line in split(iter(lambda: stream.read(CHUNK), b"")):
            yield line.raw


def _entries(facts: Facts, lines: Iterator[bytes]) -> Iterator[Entry]:
    scanner = Scanner(
        facts.agent, ScanState(linear=False), now=now_ms(), stamp_of=lambda _: 0, internal=facts.internal
    )
    for raw in lines:
        yield scanner.read(raw)[0]


def is_link(text: str) -> bool:
    """True for what can only be a link, so that the two kinds of --import are told apart."""
    return text.strip().startswith(("http://", "https://"))


def import_link(store: Store, text: str, cwd: str = "", password: str | None = None) -> Row:
    """A shared session as a new one of our own: new id, its parent recorded.

    Raises UsageError (no link), ServiceUnreachableError, ServiceRefusedError (gone), SealError.
    """
    found = parse_link(text)
    bundle = fetch(found, password)
    return adopt(store, bundle, cwd)


def fetch(found: ShareLink, password: str | None = None) -> Bundle:
    """The published session behind a link, opened here."""
    with Client(found.base_url) as client:
        payload = _payload(client, found)
    if found.secret is None:
        if payload[:2] != b"\x1f\x8b":
            raise UsageError(
                "The link has lost its key, the part behind the #.",
                "Copy the whole link, and pass it on stdin with `-`.",
            )
        return decode_bundle(payload)
    if password is None and needs_password(payload):
        password = _ask_password()
    _, bundle = open_share(found.secret, found.share_id, payload, password)
    return decode_bundle(bundle)


def _payload(client: Client, found: ShareLink) -> bytes:
    """The published bytes; of a link with limited views, one view is taken."""
    try:
        return client.public(f"/s/{found.share_id}/payload")
    except ServiceRefusedError as error:
        if error.code == wire.ErrorCode.FORBIDDEN:
            return client.claim(f"/s/{found.share_id}/claim")
        if error.code in {wire.ErrorCode.GONE, wire.ErrorCode.NOT_FOUND}:
            raise NotFoundError(
                "The share is not there: it was taken back, has expired, or the link is wrong.",
                "Ask its sender for a new link.",
            ) from None
        raise


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise UsageError(
            "This share needs the password its sender set.", "Open it on a terminal, which asks for it."
        )
    return getpass.getpass("Password of the share: ")


def adopt(store: Store, bundle: Bundle, cwd: str) -> Row:
    """Store a published session under a new id."""
    now = now_ms()
    identity = compose.session_id(now, secrets.token_bytes(10))
    project = store.project_of(cwd) if cwd else ""
    old = bundle.facts
    header = compose.header(identity, now, cwd, project=project, parent=old.id) if old.header else b""
    facts = Facts(
        old.agent, identity, "", cwd, project, old.created_at, old.id, internal=False, header=header
    )
    return store.create(facts, _bounded(bundle, now))


def _bounded(bundle: Bundle, now: int) -> Iterator[Entry]:
    """A bundle's entries with times that are not ahead of ours: a stranger's numbers decide nothing."""
    for entry in bundle.entries:
        if not entry.file:
            yield msgspec.structs.replace(entry, stamp=min(max(0, entry.stamp), now))
