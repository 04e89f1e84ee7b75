"""Everything that can answer at a service's address, or not: one sentence, the mend, its exit code.

What needs no service goes on working beside it.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from atomic_agent.keys import keystore
from atomic_agent.keys.keystore import Token
from atomic_sessions import wire
from system.fake_service import YEAR_MS, Account, Reply, answering, page, problem
from system.machines import Machine, MakeMachine, RunningService
from system.troubles import (
    COMMANDS,
    Trouble,
    assert_nothing_leaked,
    assert_seen,
    assert_told,
    copied,
    key_of,
    place,
    used,
)

ONLINE = ("sync", "share")
OFFLINE = ("capture", "sessions", "turn", "export", "status")
SHIFTED = """
import time
_real, _shift = time.time_ns, {seconds} * 10**9
time.time_ns = lambda: _real() + _shift
time.time = lambda: time.time_ns() / 1e9
"""


class Answer(Struct, frozen=True):
    """A row: what answers (by method, path and account), how the commands of `met` leave, and what they say.

    `seen`: the state of doctor's check that says so beforehand, with a fragment of it.
    """

    name: str
    give: Callable[[str, str, Account], Reply]
    code: int
    said: str
    mend: str
    met: tuple[str, ...] = ONLINE
    seen: str = "problem"
    told: str = ""
    token_ends: int = YEAR_MS
    known: int = 1


def _always(reply: Reply) -> Callable[[str, str, Account], Reply]:
    return lambda _method, _path, _account: reply


def _listed(then: Reply) -> Callable[[str, str, Account], Reply]:
    """The list of devices is given, all else is answered like this."""
    return lambda _, path, account: account.devices() if path.startswith("/v1/ledger") else then


def _gateway(status: int) -> Reply:
    return Reply(status, b"<html>bad gateway</html>", "text/html", None)


def _newer(reply: Reply) -> Reply:
    return Reply(reply.status, reply.content, reply.kind, "99", reply.more)


ANSWERS = [
    Answer("a captive portal", _always(page()), 8, "not an Atomic service", "login page"),
    Answer(
        "a portal that redirects",
        _always(page(302, Location="http://127.0.0.1:9/")),
        8,
        "status 302",
        "login page",
    ),
    Answer("a portal that says so", _always(page(511)), 8, "status 511", "login page"),
    Answer("a proxy without a service", _always(_gateway(502)), 8, "not an Atomic service", "proxy"),
    Answer(
        "a removed machine",
        _always(problem("device_removed", 403)),
        9,
        "The service says",
        "Pair this machine again",
    ),
    Answer(
        "a token that nobody renews",
        _always(problem("unauthorized", 401)),
        9,
        "The service says",
        "Log in again",
        token_ends=-YEAR_MS,
    ),
    Answer(
        "an agent that is too old",
        _always(problem("upgrade", 426)),
        9,
        "The service says",
        "Update atomic-sessions",
    ),
    Answer(
        "a newer service",
        _always(_newer(Reply(content=b"\xc1"))),
        8,
        "is of another version",
        "update atomic-sessions",
        seen="warning",
        told="speaks version 99",
    ),
    Answer(
        "an older service",
        _always(Reply(404, b"not found", "text/plain", None)),
        8,
        "not an Atomic service",
        "Check",
    ),
    Answer(
        "a route that an older service lacks",
        _always(problem("not_found", 404, "There is no such route.")),
        9,
        "There is no such route",
        "update atomic-sessions",
    ),
    Answer(
        "a refusal nobody knows yet",
        _always(problem("teapot", 418, "Short and stout.")),
        9,
        "Short and stout",
        "update atomic-sessions",
    ),
    Answer("a cut answer", _always(Reply(content=b"\x81")), 8, "was cut", "Try again"),
    Answer("a cut refusal", _always(Reply(403, b"{", wire.PROBLEM_TYPE)), 8, "was cut", "Try again"),
    Answer(
        "too many requests",
        _always(problem("slow_down", 429)),
        9,
        "The service says",
        "Try again in a moment",
    ),
    Answer(
        "a service without its stores",
        _always(problem("unavailable", 503)),
        9,
        "The service says",
        "Nothing is lost",
        told="answers with status 503",
    ),
    Answer(
        "no room left",
        _listed(problem("over_quota", 507)),
        9,
        "The service says",
        "more space",
        met=("sync",),
        seen="",
    ),
    Answer(
        "an altered list of devices",
        lambda _m, _p, account: account.forged(),
        11,
        "a signature that is not its signer's",
        "ask the service's operator",
        met=("sync",),
        seen="",
    ),
    Answer(
        "an older list of devices",
        _listed(problem("unavailable", 503)),
        11,
        "an older list of devices",
        "operator",
        met=("sync",),
        known=2,
    ),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return used(Machine(tmp_path_factory.mktemp("service-errors"), "original"))


@pytest.fixture
def laptop(original: Machine, machine: MakeMachine) -> Machine:
    return copied(original, machine("laptop"))


def _offline_works(machine: Machine) -> None:
    for name in OFFLINE:
        done = machine.atomic(*COMMANDS[name])
        assert "atomic: " not in done.err


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name.replace(" ", "-"))
def test_what_answers(laptop: Machine, answer: Answer) -> None:
    """Syncing and sharing say what answered; nothing waits for it, and doctor says it beforehand."""
    account = Account()
    with answering(lambda method, path: answer.give(method, path, account)) as url:
        account.join(place(laptop), key_of(laptop), url, token_ends=answer.token_ends, known=answer.known)
        for name in answer.met:
            done = laptop.atomic(*COMMANDS[name], code=None)
            assert done.code == answer.code, (name, done.code, done.err[-500:])
            assert_told(laptop, done, answer.said, answer.mend)
        if answer.seen:
            trouble = Trouble("", lambda *_: None, 1, answer.said, "", seen=answer.seen, told=answer.told)
            assert_seen(laptop, trouble, {})
    assert laptop.status()["unsynced_entries"] > 0


def test_what_needs_no_service_works_beside_a_portal(laptop: Machine) -> None:
    """Capturing, listing, a turn, an export and the status go on and say nothing of it."""
    account = Account()
    with answering(lambda *_: page()) as url:
        account.join(place(laptop), key_of(laptop), url)
        _offline_works(laptop)


def test_a_service_that_is_down(laptop: Machine) -> None:
    """Nothing listens: exit 8, everything else works."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    Account().join(place(laptop), key_of(laptop), url)
    for name in ONLINE:
        assert_told(
            laptop, laptop.atomic(*COMMANDS[name], code=8), "cannot be reached", "what is not synced is kept"
        )
    _offline_works(laptop)
    assert_seen(laptop, Trouble("", lambda *_: None, 8, "cannot be reached", ""), {})


def test_a_machine_in_no_account(laptop: Machine) -> None:
    """Exit 9 and how to log in; doctor finds nothing wrong with that."""
    for name in ONLINE:
        assert_told(laptop, laptop.atomic(*COMMANDS[name], code=9), "is in no account", "atomic login URL")
    assert "problem " not in laptop.atomic("doctor").out


@pytest.mark.parametrize(
    ("address", "code", "said", "mend"),
    [
        ("http://127.0.0.1:9", 8, "cannot be reached", "Check the address"),
        ("http://example.com", 2, "for this machine only", "https://"),
        ("ftp://x", 2, "not a service's address", "https://"),
        ("https://user:word@example.com", 2, "no user or password", "https://"),
    ],
)
def test_an_address_to_log_in_at(machine: MakeMachine, address: str, code: int, said: str, mend: str) -> None:
    """An address that is none, and one where nobody is."""
    laptop = machine("laptop")
    done = laptop.atomic("login", address, "--invite", "-", stdin="x", code=code)
    assert_told(laptop, done, said, mend)


@pytest.mark.parametrize("reply", [page(), page(302, Location="https://127.0.0.1:9"), _gateway(503)])
def test_logging_in_at_what_is_not_ours(machine: MakeMachine, reply: Reply) -> None:
    """A login page or a proxy is told from a service; the invite is kept for another time."""
    laptop = machine("laptop")
    with answering(lambda *_: reply) as url:
        done = laptop.atomic("login", url, "--invite", "-", stdin="x", code=8)
    assert_told(laptop, done, "not an Atomic service", "login page")


# --- time --------------------------------------------------------------------------------


@contextmanager
def _clock(folder: Path, seconds: int) -> Iterator[dict[str, str]]:
    """The variables of a process whose clock is off by this much."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFTED.format(seconds=seconds))
    yield {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("years", [-1, 1])
def test_a_clock_off_by_a_year(
    machine: MakeMachine, original: Machine, service: RunningService, tmp_path: Path, years: int
) -> None:
    """Syncing works all the same, the other machine gets everything, and doctor says how far the clock is off."""
    laptop = copied(original, machine("laptop"))
    laptop.atomic("login", service.url, "--invite", "-", "--name", "laptop", stdin=service.invite())
    with _clock(tmp_path / "clock", years * 365 * 86_400) as environment:
        for name in ("capture", "turn", "sync", "status", "sessions", "export"):
            assert "atomic: " not in laptop.atomic(*COMMANDS[name], code=0, **environment).err
        said = "365 days behind" if years < 0 else "365 days ahead of"
        assert_seen(laptop, Trouble("", lambda *_: None, 1, said, ""), environment)
    assert "Nothing new" in laptop.atomic("sync").out
    assert laptop.status()["unsynced_entries"] == 0


def test_an_expired_token_is_renewed(
    machine: MakeMachine, original: Machine, service: RunningService
) -> None:
    """A token that ended, and one that the service no longer takes: a sync signs in again without a word."""
    laptop = copied(original, machine("laptop"))
    laptop.atomic("login", service.url, "--invite", "-", "--name", "laptop", stdin=service.invite())
    home, key = place(laptop), key_of(laptop)
    for ends in (-YEAR_MS, YEAR_MS):
        content = keystore.load(home, key)
        stale = Token("0" * 32, time.time_ns() // 1_000_000 + ends)
        keystore.save(home, key, msgspec.structs.replace(content, token=stale))
        done = laptop.atomic("sync")
        assert "atomic: " not in done.err
        assert_nothing_leaked(laptop, done)
