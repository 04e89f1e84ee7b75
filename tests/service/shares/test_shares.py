"""Share links: published on purpose, counted only by claims, over when they are over."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from atomic_service.shares.rules import id_to_name, name_to_id
from atomic_sessions import wire
from service.devices import Device, Refusal, visit
from service.running import RunningService

DAY = 24 * 3600


def share_sealed(
    service: RunningService, device: Device, body: bytes = b"sealed", **changes: Any
) -> wire.Share:
    """Upload and publish; `changes` are fields of the request."""
    object_id = device.upload(body, "share")
    fields: dict[str, Any] = {
        "share": secrets.token_bytes(16), "kind": "sealed", "object": object_id, "size": len(body), "note": b"note",
        "expires_at": service.clock() + DAY * 1000, **changes,
    }  # fmt: skip
    return device.post("/v1/shares", wire.ShareRequest(**fields), wire.Share)


def link(service: RunningService, share: wire.Share, rest: str = "") -> str:
    return f"{service.url}/s/{id_to_name(share.share)}{rest}"


def listed(device: Device) -> dict[bytes, wire.Share]:
    return {share.share: share for share in device.get("/v1/shares", wire.Shares).shares}


def test_sealed_share_gives_its_bytes_to_whoever_has_the_link(storing_service: RunningService) -> None:
    """The page answers, and its payload is what was uploaded; no token is needed."""
    share = share_sealed(storing_service, storing_service.device(), b"sealed bytes")
    assert (share.revision, share.state, share.views_left) == (1, "live", None)
    page = visit(link(storing_service, share))
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    payload = visit(link(storing_service, share, "/payload"))
    assert (payload.status_code, payload.content) == (200, b"sealed bytes")
    assert visit(link(storing_service, share, "/claim"), "POST").content == b"sealed bytes"


@pytest.mark.parametrize("rest", ["", "/payload", ".md"])
def test_every_answer_under_a_link_keeps_it_private(service: RunningService, rest: str) -> None:
    """No cache, no referrer, no index, no sniffing, and a policy that lets nothing else in."""
    share = share_sealed(service, service.device())
    for address in (link(service, share, rest), f"{service.url}/s/{'A' * 22}{rest}"):
        headers = visit(address).headers
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-robots-tag"] == "noindex"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_page_of_sealed_links_has_the_policy_of_the_design(service: RunningService) -> None:
    """design.md section 8, with the hashes of the renderer's script and style."""
    from atomic_sessions.html.policy import script_and_style_hashes

    hashes = script_and_style_hashes()
    policy = visit(link(service, share_sealed(service, service.device()))).headers["content-security-policy"]
    assert [part.strip() for part in policy.split(";")] == [
        "default-src 'none'",
        f"script-src 'self' {hashes.script}",
        f"style-src 'self' {hashes.style}",
        "img-src data:",
        "connect-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types share",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]


def test_page_loads_its_own_files(own_service: RunningService) -> None:
    """Script and styles come from the same service; nothing else is served there."""
    for name, kind in (("share.js", "text/javascript"), ("share.css", "text/css"), ("plain.css", "text/css")):
        reply = visit(f"{own_service.url}/s/assets/{name}")
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith(kind)
    for name in ("sealed.html", "sealed.py", "..%2fsealed.html", "nothing"):
        assert visit(f"{own_service.url}/s/assets/{name}").status_code == 404


def test_reading_never_uses_a_view_up(storing_service: RunningService) -> None:
    """Fifty GETs and HEADs of page and payload later the only view is still there."""
    device = storing_service.device()
    share = share_sealed(storing_service, device, b"once", views=1)
    for _ in range(25):
        assert visit(link(storing_service, share)).status_code == 200
        assert visit(link(storing_service, share), "HEAD").status_code == 200
        assert visit(link(storing_service, share, "/payload")).status_code == 403
        assert visit(link(storing_service, share, "/payload"), "HEAD").status_code == 403
    assert 'name="atomic-claim" content="1"' in visit(link(storing_service, share)).text
    assert visit(link(storing_service, share, "/claim"), "POST").content == b"once"
    assert visit(link(storing_service, share, "/claim"), "POST").status_code == 410
    assert visit(link(storing_service, share)).status_code == 410
    assert listed(device)[share.share].state == "expired"


def test_twenty_claims_of_one_view_have_one_winner(storing_service: RunningService) -> None:
    """A view is taken in one statement of the database."""
    share = share_sealed(storing_service, storing_service.device(), b"once", views=1)
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: visit(link(storing_service, share, "/claim"), "POST"), range(20)))
    assert sorted(reply.status_code for reply in replies) == [200] + [410] * 19
    assert [reply.content for reply in replies if reply.status_code == 200] == [b"once"]


def test_revoked_share_is_gone_for_ever(own_storing_service: RunningService) -> None:
    """Its link says so, its bytes leave the store at once, and it cannot be published again."""
    device = own_storing_service.device()
    share = share_sealed(own_storing_service, device)
    device.send("DELETE", f"/v1/shares/{share.share.hex()}")
    device.send("DELETE", f"/v1/shares/{share.share.hex()}")
    page = visit(link(own_storing_service, share))
    assert page.status_code == 410
    assert "no longer shared" in page.text
    for rest in ("/payload", ".md", ".jsonl"):
        assert visit(link(own_storing_service, share, rest)).status_code == 410
    assert visit(link(own_storing_service, share, "/claim"), "POST").status_code == 410
    assert own_storing_service.stored(device.account) == []
    assert listed(device)[share.share].state == "revoked"
    with pytest.raises(Refusal, match="410 gone"):
        share_sealed(own_storing_service, device, share=share.share)


def test_expired_share_is_gone(own_service: RunningService) -> None:
    """At its time the link is over."""
    device = own_service.device()
    share = share_sealed(own_service, device, expires_at=own_service.clock() + 60_000)
    assert visit(link(own_service, share)).status_code == 200
    own_service.clock.forward(seconds=61)
    assert visit(link(own_service, share)).status_code == 410
    assert visit(link(own_service, share, "/claim"), "POST").status_code == 410


def test_revision_keeps_the_link_and_replaces_the_bytes(own_storing_service: RunningService) -> None:
    """The same id again is revision 2; a retry of it is not revision 3."""
    device = own_storing_service.device()
    share = share_sealed(own_storing_service, device, b"first")
    expires_at = own_storing_service.clock() + DAY * 1000
    second = share_sealed(own_storing_service, device, b"second", share=share.share, expires_at=expires_at)
    again = share_sealed(own_storing_service, device, b"second", share=share.share, expires_at=expires_at)
    assert (second.revision, again.revision) == (2, 2)
    assert visit(link(own_storing_service, share, "/payload")).content == b"second"
    assert len(own_storing_service.stored(device.account)) == 1


def test_shares_are_their_owners(service: RunningService) -> None:
    """Another account can neither revise, revoke nor list them."""
    device, other = service.device(), service.device()
    share = share_sealed(service, device)
    with pytest.raises(Refusal, match="403 forbidden"):
        share_sealed(service, other, b"other", share=share.share)
    with pytest.raises(Refusal, match="404"):
        other.send("DELETE", f"/v1/shares/{share.share.hex()}")
    assert listed(other) == {}
    assert listed(device.new_mate())[share.share].note == b"note"
    assert visit(link(service, share, "/payload")).content == b"sealed"


def test_what_no_share_can_be(service: RunningService) -> None:
    """Ends, sizes, notes and views are checked, and the object must have arrived."""
    device = service.device()
    for changes, code in (
        ({"expires_at": service.clock() - 1}, "400"),
        ({"expires_at": service.clock() + 2 * wire.MAX_SHARE_SECONDS * 1000}, "400"),
        ({"size": 7}, "404"),
        ({"object": b"o" * 32}, "404"),
        ({"share": b"short"}, "400"),
        ({"note": bytes(wire.MAX_NOTE_BYTES + 1)}, "413"),
        ({"views": 0}, "400"),
        ({"kind": "public", "views": 1}, "400"),
        ({"kind": "public"}, "400"),
    ):
        with pytest.raises(Refusal, match=code):
            share_sealed(service, device, **changes)


def test_unknown_links_are_not_found(service: RunningService) -> None:
    """Whatever cannot be a link gets the same page."""
    for name in ("A" * 22, "A" * 21, "A" * 21 + "B", "..", "%00" * 22, "ü" * 22):
        assert visit(f"{service.url}/s/{name}").status_code == 404


def test_names_of_links_are_one_to_one() -> None:
    """A share has one name, and a name one share."""
    share = secrets.token_bytes(16)
    assert name_to_id(id_to_name(share)) == share
    assert name_to_id("A" * 22) == bytes(16)
    for name in ("A" * 21 + "B", "A" * 22 + "=", "A" * 20 + "==", "+" * 22):
        assert name_to_id(name) is None
