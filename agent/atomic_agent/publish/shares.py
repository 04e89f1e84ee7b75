"""Share links: publish, list, revoke (C6, D5). The link's secret goes to the person, and sealed under
the account's key into the note that lets their other machines name the share."""

import base64
import hashlib
import secrets
from typing import Literal

import msgspec
from msgspec import Struct

from atomic_agent.keys.keystore import Membership
from atomic_agent.publish.redacting import Fit
from atomic_agent.stores.journal import Journal
from atomic_agent.sync.client import Client
from atomic_agent.sync.identity import connect, membership
from atomic_agent.sync.run import now_ms
from atomic_sessions import wire
from atomic_sessions.bundle import encode_bundle
from atomic_sessions.document import read
from atomic_sessions.errors import NotFoundError, SealError, UsageError
from atomic_sessions.html.render import render_page
from atomic_sessions.seal import open_small, seal_small
from atomic_sessions.sharing import link, new_share, parse_link, seal_share
from atomic_sessions.unreadable import UNREADABLE

NOTE_LABEL = b"atomic1/share-note"
Kind = Literal["sealed", "public"]


class Note(Struct, frozen=True, array_like=True):
    """What only the person's own machines can read of a share. `secret` empty for a public one."""

    version: int
    agent: str
    session: str
    title: str
    secret: bytes
    protected: bool = False

    def __repr__(self) -> str:
        return "<share note>"


class Published(Struct, frozen=True):
    """A share that was made. `link` is shown once and goes nowhere else."""

    link: str
    revision: int
    expires_at: int
    size: int

    def __repr__(self) -> str:
        return "<published share>"


class Own(Struct, frozen=True):
    """One of the person's shares with its opened note, None when it does not open."""

    share: wire.Share
    note: Note | None
    url: str

    def __repr__(self) -> str:
        return "<share>"


def publish(
    journal: Journal,
    ready: Fit,
    *,
    kind: Kind,
    seconds: int,
    password: str | None = None,
    views: int | None = None,
    fresh_link: bool = False,
) -> Published:
    """Publish a session; a session that has a live link of this kind gets a new revision under it.

    Raises NotLoggedInError, ServiceUnreachableError, ServiceRefusedError.
    """
    mine = membership(journal)
    if kind == "public" and (password is not None or views is not None):
        raise UsageError("A public page has neither password nor limited views.", "Leave out --public.")
    facts = ready.bundle.facts
    with connect(journal, now_ms) as client:
        known = None if fresh_link or views is not None else _live(client, mine, kind, facts.agent, facts.id)
        if known is not None and known.note is not None and known.note.protected and password is None:
            raise UsageError(
                "The link this session has needs a password, and would lose it.",
                "Give --password again, or --new for a link without one.",
            )
        note = known.note if known is not None and known.note is not None else None
        secret = note.secret if note is not None else secrets.token_bytes(32) if kind == "sealed" else b""
        payload = _payload(ready, kind, secret, password)
        share = (
            known.share.share
            if known is not None
            else _raw(new_share(secret).id)
            if kind == "sealed"
            else secrets.token_bytes(16)
        )
        object_id = hashlib.sha256(payload).digest()
        client.upload(wire.UploadRequest(object_id, len(payload), "share"), payload)
        written = Note(1, facts.agent, facts.id, ready.bundle.name[:200], secret, password is not None)
        sealed_note = seal_small(
            mine.key, NOTE_LABEL, msgspec.msgpack.encode(written), secrets.token_bytes(12)
        )
        made = client.share(
            wire.ShareRequest(
                share, kind, object_id, len(payload), sealed_note, now_ms() + seconds * 1000, views
            )
        )
    return Published(_link(mine.url, share, secret), made.revision, made.expires_at, len(payload))


def _payload(ready: Fit, kind: Kind, secret: bytes, password: str | None) -> bytes:
    bundle = encode_bundle(ready.bundle)
    if kind == "public":
        return bundle
    shown = ready.bundle
    page = render_page(read(shown.facts, shown.name, shown.leaf, shown.entries, ready.summary))
    return seal_share(secret, page, bundle, secrets.token_bytes(12), secrets.token_bytes(16), password)


def _link(url: str, share: bytes, secret: bytes) -> str:
    return link(url, secret) if secret else f"{url}/s/{_name(share)}"


def _name(share: bytes) -> str:
    return base64.urlsafe_b64encode(share).rstrip(b"=").decode()


def _raw(name: str) -> bytes:
    return base64.urlsafe_b64decode(name + "==")


def _live(client: Client, mine: Membership, kind: Kind, agent: str, session: str) -> Own | None:
    for own in _own(client, mine):
        usable = own.share.state == "live" and own.share.kind == kind and own.share.views_left is None
        if usable and own.note is not None and (own.note.agent, own.note.session) == (agent, session):
            return own
    return None


def _own(client: Client, mine: Membership) -> list[Own]:
    found = []
    for share in client.shares():
        note: Note | None
        try:
            note = msgspec.msgpack.decode(open_small(mine.key, NOTE_LABEL, share.note), type=Note)
        except (SealError, *UNREADABLE):
            note = None
        found.append(Own(share, note, _link(mine.url, share.share, note.secret if note is not None else b"")))
    return found


def listed(journal: Journal) -> list[Own]:
    """All shares of the account, from whichever machine."""
    with connect(journal, now_ms) as client:
        return sorted(_own(client, membership(journal)), key=lambda own: -own.share.created_at)


def revoke(journal: Journal, wanted: str) -> str:
    """Take a share back, named by its link, its id, or the id's first characters; returns the id."""
    text = wanted.strip()
    if "/" in text:
        text = parse_link(text).share_id
    with connect(journal, now_ms) as client:
        matches = [
            own for own in _own(client, membership(journal)) if _name(own.share.share).startswith(text)
        ]
        if len(text) < 4 or not matches:
            raise NotFoundError("No share of this account goes by that link or id.", "See: atomic shares")
        if len(matches) > 1:
            raise NotFoundError("Several shares begin like that.", "Give more of the id; see: atomic shares")
        client.revoke(matches[0].share.share)
        return _name(matches[0].share.share)


def name_of(own: Own) -> str:
    """The id a share has in its link."""
    return _name(own.share.share)
