"""Identities: of a session in a store and on the wire, and ids made from content. Pure."""

import hashlib
import hmac
import re
import unicodedata

from msgspec import Struct

UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
CUSTOM_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
PREFIX = re.compile(r"[0-9a-fA-F]{8}")


class SessionKey(Struct, frozen=True, order=True):
    """What a session is called everywhere: the agent it came from and its native id.

    `scope` is the project key when the id holds no UUID (two projects may both have a session
    called `notes`), else empty (B8). A sub-agent's id is its parent's UUID, a slash and its own.
    """

    agent: str
    id: str
    scope: str = ""


def session_key(agent: str, session_id: str, project: str) -> SessionKey:
    """The key of a session of `agent` with this native id, seen in `project` (B8)."""
    unique = UUID.fullmatch(session_id.split("/", 1)[0])
    return SessionKey(agent, session_id, "" if unique else project)


def wire_id(id_key: bytes, key: SessionKey) -> bytes:
    """The 16 bytes the service knows a session by: HMAC under the account's id key."""
    text = f"{key.agent}\x00{key.scope}\x00{key.id}".encode("utf-8", "surrogatepass")
    return hmac.new(id_key, b"atomic1/session\x00" + text, hashlib.sha256).digest()[:16]


def line_id(previous: str, raw: bytes, occurrence: int) -> str:
    """An id for a line that has none: from the last line before it that has one, its bytes, and how
    many equal lines came since that one. The same file gives the same ids on every machine."""
    seed = previous.encode("utf-8", "surrogatepass") + b"\x00" + raw + b"\x00" + str(occurrence).encode()
    return "h" + hashlib.sha256(seed).hexdigest()[:15]


def upgraded_id(session_id: str, index: int, raw: bytes, attempt: int) -> str:
    """Eight hex characters for a format 1 record, from content and position alone."""
    seed = b"\x00".join(
        (session_id.encode("utf-8", "surrogatepass"), str(index).encode(), raw, str(attempt).encode())
    )
    return hashlib.sha256(seed).hexdigest()[:8]


def digest(raw: bytes) -> bytes:
    """Eight bytes that tell two lines apart which carry the same id."""
    return hashlib.sha256(raw).digest()[:8]


_SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^@/\s]*@)?([^/\s]+)(/.*)?")


def remote_key(url: str) -> str | None:
    """A git remote as one text, however it is written: `host/path`, host in lower case, no user, no
    port, no `.git`. None for a local path, which means nothing on another machine."""
    url = url.strip()
    if match := _URL.fullmatch(url):
        if url.lower().startswith("file:"):
            return None
        host, path = match.group(1), match.group(2) or ""
        host = re.sub(r":\d+$", "", host)
    elif match := _SCP.fullmatch(url):
        host, path = match.group(1), match.group(2)
        if len(host) == 1:
            return None
    else:
        return None
    path = re.sub(r"/+", "/", path).strip("/")
    path = path.removesuffix(".git").rstrip("/")
    if not host or not path:
        return None
    return unicodedata.normalize("NFC", f"{host.lower()}/{path}")
