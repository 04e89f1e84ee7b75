"""Sealed shares: links, keys, payload; what opens and what must not."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions import sharing
from atomic_sessions.errors import SealError, UsageError
from atomic_sessions.sharing import link, needs_password, new_share, open_share, parse_link, seal_share

SECRET = bytes(range(32))
NONCE, SALT = bytes(12), bytes(16)
HTML, BUNDLE = "<p>héllo</p>", b"bundle"


@pytest.fixture(scope="module")
def payload() -> bytes:
    return seal_share(SECRET, HTML, BUNDLE, NONCE, SALT)


@pytest.fixture(scope="module")
def protected() -> bytes:
    return seal_share(SECRET, HTML, BUNDLE, NONCE, SALT, "päss")


def test_id_and_key_are_frozen() -> None:
    """Links made today open for ever: id and key of a secret never change."""
    keys = new_share(SECRET)
    assert keys.id == "p5DbAeN2cySZuNAwR0V_8Q"
    assert keys.key.hex() == "e66ad6e8f8ccdaeb0fc03374ad93b19b236729612ab20860f17e7f91fc2e28e1"


def test_payload_layout(payload: bytes) -> None:
    """The bytes that share.js reads: magic, version, suite, kind, flags, salt, nonce."""
    assert payload[:6] == b"AS\x01\x01\x05\x00"
    assert payload[6:34] == SALT + NONCE
    assert len(payload) == 34 + 4 + len(gzip.compress(HTML.encode(), 6, mtime=0)) + len(BUNDLE) + 16
    assert seal_share(SECRET, HTML, BUNDLE, NONCE, SALT) == payload


def test_opens_again(payload: bytes, protected: bytes) -> None:
    """What was sealed opens with the link, and with the password when it has one."""
    share_id = new_share(SECRET).id
    assert open_share(SECRET, share_id, payload) == (HTML, BUNDLE)
    assert open_share(SECRET, share_id, protected, "päss") == (HTML, BUNDLE)
    assert open_share(SECRET, share_id, payload, "not needed") == (HTML, BUNDLE)
    assert (needs_password(payload), needs_password(protected)) == (False, True)


def test_wrong_keys_do_not_open(payload: bytes, protected: bytes) -> None:
    """Another secret, another id, no password and a wrong one are each told apart from damage where they can be."""
    share_id = new_share(SECRET).id
    with pytest.raises(SealError, match="does not belong"):
        open_share(bytes(32), share_id, payload)
    with pytest.raises(SealError, match="does not belong"):
        open_share(SECRET, new_share(bytes(32)).id, payload)
    with pytest.raises(SealError, match="protected by a password"):
        open_share(SECRET, share_id, protected)
    with pytest.raises(SealError, match="password is wrong"):
        open_share(SECRET, share_id, protected, "pass")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_flipped_bit_fails(data: st.DataObject) -> None:
    """Any changed bit, cut or appended byte is refused with our error and nothing else."""
    whole = seal_share(SECRET, HTML, BUNDLE, NONCE, SALT)
    bit = data.draw(
        st.integers(0, len(whole) * 8 - 1).filter(lambda b: b != 40)
    )  # bit 40 asks for a password
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << (bit % 8)
    for broken in (bytes(flipped), whole[: bit // 8], whole + b"x"):
        with pytest.raises(SealError):
            open_share(SECRET, new_share(SECRET).id, broken, None)


@settings(deadline=None)
@given(st.binary(max_size=120))
def test_garbage_is_refused(raw: bytes) -> None:
    """No bytes raise anything but our error."""
    with pytest.raises(SealError):
        open_share(SECRET, new_share(SECRET).id, raw)


def test_a_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that unpacks beyond the limit is refused."""
    bomb = seal_share(SECRET, "a" * 5000, BUNDLE, NONCE, SALT)
    monkeypatch.setattr(sharing, "MAX_PAGE", 4999)
    with pytest.raises(SealError, match="larger"):
        open_share(SECRET, new_share(SECRET).id, bomb)


@settings(deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.one_of(st.none(), st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"]))),
)
def test_link_is_read_back(secret: bytes, entry: str | None) -> None:
    """A link says where, which, and with what; a deep link also which entry, whatever it is called."""
    made = link("https://share.example/team/", secret, entry)
    assert parse_link(f" {made}\n") == ("https://share.example/team", new_share(secret).id, secret, entry)


def test_public_links() -> None:
    """A public link has no secret and may name a form."""
    name = new_share(SECRET).id
    for suffix in ("", ".md", ".jsonl"):
        assert parse_link(f"http://127.0.0.1:8080/s/{name}{suffix}") == (
            "http://127.0.0.1:8080",
            name,
            None,
            None,
        )


@pytest.mark.parametrize(
    "text",
    ["", "x", "https://a.example/s/short", "ftp://a.example/s/" + "a" * 22, "https://u:p@a.example/s/" + "a" * 22,
     "https://a.example/s/" + "a" * 22 + "#v1.", "https://a.example/s/" + "a" * 22 + "#v2." + "a" * 43,
     "https://a.example/s/" + "a" * 22 + "#v1." + "a" * 43],
)  # fmt: skip
def test_broken_links_are_refused(text: str) -> None:
    """A link that was cut, or whose key is not its id's, is refused before anything is fetched."""
    with pytest.raises(UsageError):
        parse_link(text)
