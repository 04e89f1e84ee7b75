"""Public shares: rendered here from the published entries, in three forms, and never from markup."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from atomic_service.problems import Refused
from atomic_service.shares.published import as_jsonl, read_bundle
from atomic_sessions.bundle import VERSION, Bundle, encode_bundle
from atomic_sessions.entry import Entry, Facts
from service.devices import Refusal, visit
from service.running import RunningService
from service.shares.test_shares import link, share_sealed

NASTY = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>"


def bundle(text: str = "Why is the sky blue?") -> Bundle:
    """A session of two messages in the lines of pi."""
    lines = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-11-30T10:00:00.000Z", "cwd": ""},
        {
            "type": "message", "id": "aaaaaaaa", "parentId": None, "timestamp": "2026-11-30T10:00:01.000Z",
            "message": {"role": "user", "content": text, "timestamp": 1796032801000},
        },
        {
            "type": "message", "id": "bbbbbbbb", "parentId": "aaaaaaaa", "timestamp": "2026-11-30T10:00:02.000Z",
            "message": {
                "role": "assistant", "content": [{"type": "text", "text": "Rayleigh."}], "timestamp": 1796032802000,
            },
        },
    ]  # fmt: skip
    raws = [json.dumps(line).encode() for line in lines]
    entries = [
        Entry("h", None, 0, 1, raws[0], loose=True),
        Entry("aaaaaaaa", None, 1, 1796032801000, raws[1]),
        Entry("bbbbbbbb", "aaaaaaaa", 2, 1796032802000, raws[2]),
    ]
    return Bundle(
        VERSION, Facts("pi", "s1", "", "", "", 1796032800000), "Sky", "bbbbbbbb", 1796032803000, entries
    )


def test_public_share_is_html_markdown_and_jsonl(service: RunningService) -> None:
    """One id, three forms, each saying what the session says."""
    device = service.device()
    share = share_sealed(service, device, encode_bundle(bundle()), kind="public")
    page = visit(link(service, share))
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    markdown = visit(link(service, share, ".md"))
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    for reply in (page, markdown):
        assert reply.status_code == 200
        assert "Why is the sky blue?" in reply.text
        assert "Rayleigh." in reply.text
    lines = visit(link(service, share, ".jsonl"))
    assert lines.content == as_jsonl(encode_bundle(bundle()))
    assert [json.loads(line)["type"] for line in lines.text.splitlines()] == ["session", "message", "message"]
    assert visit(link(service, share, "/payload")).content == encode_bundle(bundle())


def test_public_page_runs_nothing_of_its_content(service: RunningService) -> None:
    """Markup in messages is text, and the policy allows the renderer's own script only, and no request."""
    share = share_sealed(service, service.device(), encode_bundle(bundle(NASTY)), kind="public")
    page = visit(link(service, share))
    assert "<script>alert" not in page.text
    assert "<img src=http" not in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy
    assert "'self'" not in policy


def test_bundle_that_cannot_be_shown_is_not_published(service: RunningService) -> None:
    """Nobody meets a public link that does not open."""
    foreign = msgspec.structs.replace(bundle(), facts=Facts("nobody", "s1", "", "", "", 0))
    device = service.device()
    for body in (b"no gzip", gzip.compress(b"no msgpack"), encode_bundle(foreign)):
        with pytest.raises(Refusal, match="400 bad_request"):
            share_sealed(service, device, body, kind="public")


def test_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small object that unpacks to more than the limit is refused."""
    monkeypatch.setattr("atomic_service.shares.published.MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(Refused, match="bad_request"):
        read_bundle(gzip.compress(bytes(100_000)))


def test_revoked_and_remade_public_share_has_its_bytes(own_service: RunningService, tmp_path: Path) -> None:
    """The same session made public again gives the same object, which was removed meanwhile."""
    device = own_service.device()
    body = encode_bundle(bundle())
    first = share_sealed(own_service, device, body, kind="public")
    device.send("DELETE", f"/v1/shares/{first.share.hex()}")
    second = share_sealed(own_service, device, body, kind="public")
    assert visit(link(own_service, second)).status_code == 200
    assert visit(link(own_service, first)).status_code == 410


def test_object_shown_by_two_shares_lives_as_long_as_one_of_them(service: RunningService) -> None:
    """Revoking one link does not break another over the same bytes."""
    device = service.device()
    body = encode_bundle(bundle())
    first = share_sealed(service, device, body, kind="public")
    second = share_sealed(service, device, body, kind="public")
    device.send("DELETE", f"/v1/shares/{first.share.hex()}")
    assert visit(link(service, second, ".md")).status_code == 200


def test_lost_object_is_an_answer_and_no_crash(own_service: RunningService, tmp_path: Path) -> None:
    """A store that lost an object makes the link not found, not an internal error."""
    share = share_sealed(own_service, own_service.device(), encode_bundle(bundle()), kind="public")
    for path in (tmp_path / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    reply = visit(link(own_service, share))
    assert reply.status_code == 404


def test_unordered_and_broken_entries_are_shown(service: RunningService) -> None:
    """Children before parents, unknown parents, cycles, doubled ids and lines of no JSON never break the page."""
    good = bundle().entries
    odd = [
        Entry("cccccccc", "dddddddd", 3, 5, good[2].raw),
        Entry("dddddddd", "cccccccc", 4, 6, good[2].raw),
        Entry("eeeeeeee", "nowhere", 5, 7, b"\xff not json"),
        Entry("aaaaaaaa", None, 6, 8, b"[" * 10_000),
    ]
    hostile = msgspec.structs.replace(bundle(), entries=[*odd, *reversed(good)], leaf="nowhere")
    share = share_sealed(service, service.device(), encode_bundle(hostile), kind="public")
    for rest in ("", ".md", ".jsonl"):
        assert visit(link(service, share, rest)).status_code == 200
