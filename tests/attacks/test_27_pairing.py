"""Attack 27: a pairing with another string, a second use, too late, altered, or with another machine."""

import base64
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from atomic_agent.account import pairing
from atomic_agent.keys import keystore
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.sync.client import Client
from atomic_sessions import wire
from atomic_sessions.seal import seal_small
from attacks.stage import Liar, copied, one_sentence
from system.machines import Machine, RunningService, kill, until


class Pairing:
    """A machine of an account that has made a string."""

    def __init__(self, liar: Liar, approving: Machine) -> None:
        self.liar, self.approving = liar, approving
        self.string = self.approving.atomic("devices", "add").out.strip()
        self.devices = self._devices()

    def _devices(self) -> str:
        return self.approving.atomic("devices", "--json").out

    def join(self, name: str = "joining") -> "subprocess.Popen[str]":
        self.joining = Machine(self.approving.home, name)
        return self.joining.start("login", self.liar.url, "--join", "-", stdin=self.string)

    def words(self, waiting: "subprocess.Popen[str]") -> list[str]:
        assert waiting.stdout is not None
        return next(line for line in waiting.stdout if line.startswith("Words: ")).split()[1:]

    def approve(self, words: list[str], code: int) -> str:
        return one_sentence(self.approving.atomic("devices", "approve", "--yes", *words, code=code))

    def nobody_came(self) -> None:
        """The list is as it was, by the real service's word."""
        self.liar.tell()
        assert self._devices() == self.devices

    def end(self) -> None:
        """Give the mailbox back: an account has four."""
        mailbox = pairing.mailbox_of(pairing.secret_of(self.string)).hex()
        token = _secrets(self.approving)[2].token
        assert token is not None
        self.liar.http.delete(f"/v1/mailbox/{mailbox}", headers={"Authorization": f"Bearer {token.text}"})


def _secrets(machine: Machine) -> tuple[Home, LocalKey, keystore.Secrets]:
    home, key = Home(machine.home / ".atomic"), LocalKey(base64.b64decode(machine.key_file.read_bytes()))
    return home, key, keystore.load(home, key)


@pytest.fixture(scope="module")
def first(liar: Liar, service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The only machine of an account."""
    found = Machine(tmp_path_factory.mktemp("pairing"), "first")
    found.atomic("login", liar.url, "--invite", "-", "--name", "first", stdin=service.invite())
    return found


@pytest.fixture
def offered(liar: Liar, first: Machine, tmp_path: Path) -> Iterator[Pairing]:
    """A pairing that a copy of it offers; its mailbox is given back, since an account has four."""
    found = Pairing(liar, copied(first, tmp_path, "approving"))
    yield found
    found.end()


def test_another_string(offered: Pairing) -> None:
    """Attack 27: a string with one letter changed finds no mailbox, and the right one is still good."""
    letter = offered.string[-2]
    true, offered.string = (
        offered.string,
        offered.string[:-2] + ("a" if letter != "a" else "b") + offered.string[-1],
    )
    _, err = offered.join("mistyped").communicate(timeout=60)
    assert "No pairing waits" in err
    offered.string = true
    waiting = offered.join()
    offered.words(waiting)
    kill(waiting)
    offered.nobody_came()


def test_second_use(offered: Pairing) -> None:
    """Attack 27: who comes second with the string is refused, while the first waits and after it is in."""
    early = offered.join("early")
    words = offered.words(early)
    second = offered.join("second")
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "used already" in err
    offered.approving.atomic("devices", "approve", "--yes", *words)
    early.communicate(timeout=60)
    assert early.returncode == 0
    third = offered.join("third")
    third.communicate(timeout=60)
    assert third.returncode == 7
    assert "third" not in offered.approving.atomic("devices").out
    assert offered.joining.status()["service"] is None


def test_after_ten_minutes(offered: Pairing) -> None:
    """Attack 27: an offer that is over is not approved, whatever the service still shows."""
    waiting = offered.join()
    words = offered.words(waiting)
    home, key, content = _secrets(offered.approving)
    assert content.offer is not None
    late = msgspec.structs.replace(content.offer, expires_at=1)
    keystore.save(home, key, msgspec.structs.replace(content, offer=late))
    assert "No pairing is waiting" in offered.approve(words, code=7)
    kill(waiting)
    offered.nobody_came()


def test_other_words(offered: Pairing) -> None:
    """Attack 27: words of another screen end the pairing on both sides, and the string is used up."""
    waiting = offered.join()
    words = offered.words(waiting)
    assert "called off" in offered.approve([*words[:3], "zoo" if words[3] != "zoo" else "zone"], code=2)
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 7
    assert "called the pairing off" in err
    assert "No pairing is waiting" in offered.approve(words, code=7)
    offered.nobody_came()


@pytest.mark.parametrize("slot", ["offer", "reveal", "keys"])
def test_altered_messages(offered: Pairing, slot: str) -> None:
    """Attack 27: one bit of one message, keys included, altered in the mailbox: exit 11, nobody is let in."""
    offered.liar.tell("/v1/mailbox/", "slot", slot=slot)
    waiting = offered.join()
    if slot == "keys":
        words = offered.words(waiting)
        assert "altered" in offered.approve(words, code=11)
        # The string is used up on both sides.
        _, err = waiting.communicate(timeout=60)
        assert (waiting.returncode, "called the pairing off" in err) == (7, True)
        assert "No pairing is waiting" in offered.approve(words, code=7)
    else:
        _, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 11, err[-300:]
        assert "altered" in err
        assert offered.joining.status()["service"] is None
    assert not [one for one in offered.liar.seen() if (one["method"], one["path"]) == ("POST", "/v1/ledger")]
    offered.nobody_came()


NOT_KEYS = msgspec.msgpack.encode(
    pairing.Joining(bytes(16), bytes(32), b"\xff" * (1184 + 32), "evil\x1b[2J", bytes(32))
)


@pytest.mark.parametrize(
    "said",
    [b"", b"\xc1", b"\x91" * 10_000, msgspec.msgpack.encode([1, 2, 3]), NOT_KEYS],
    ids=["nothing", "noise", "deep", "other", "not keys"],
)
def test_a_stranger_with_the_string(offered: Pairing, said: bytes) -> None:
    """Attack 27: who got hold of the string may say anything: one sentence, exit 11, nobody is let in."""
    secret = pairing.secret_of(offered.string)
    box = pairing.mailbox_of(secret)

    def post(slot: str, plain: bytes) -> None:
        sealed = seal_small(secret, b"atomic1/pair/" + slot.encode(), plain, bytes(12))
        client.mailbox_post(box, wire.MailboxPost(slot, sealed))  # type: ignore[arg-type]  # one of its slots

    with Client(offered.liar.url) as client:
        post("commit", hashlib.sha256(b"atomic1/commit/b" + said).digest())
        until(lambda: "reveal" in client.mailbox(box).slots)
        post("keys", said)
        reveal = client.mailbox(box).slots["reveal"]
    plain = pairing._open(secret, "reveal", reveal)
    # The words are right: a person who was talked into typing them does not let a malformed machine in either.
    line = offered.approve(pairing.words(plain, said).split(), code=11)
    assert "\x1b" not in line
    offered.nobody_came()


def test_keys_other_than_announced(offered: Pairing) -> None:
    """Attack 27: who commits to one key and shows another, so that words could be made to agree, is refused."""
    secret = pairing.secret_of(offered.string)
    box = pairing.mailbox_of(secret)
    with Client(offered.liar.url) as client:
        for slot, plain in (("commit", bytes(32)), ("keys", NOT_KEYS)):
            sealed = seal_small(secret, b"atomic1/pair/" + slot.encode(), plain, bytes(12))
            client.mailbox_post(box, wire.MailboxPost(slot, sealed))  # type: ignore[arg-type]  # one of its slots
        until(lambda: "reveal" in client.mailbox(box).slots)
    assert "not those it announced" in offered.approve(["a", "b", "c", "d"], code=11)
    offered.nobody_came()
