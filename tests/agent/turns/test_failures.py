"""What a person is told when a provider fails, and that nothing of the turn is left in the session."""

import json
import socket
from collections.abc import Callable

import pytest

from agent.turns.machines import CANARY, Machine, Ran

SECRET = "PROMPT-CANARY"


@pytest.fixture(params=["openai", "anthropic"])
def ask(
    request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """One turn in the machine's session against either protocol."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", machine.provider.anthropic_url)
    machine.atomic("-p", "first", "--provider", request.param)

    def ask(prompt: str, *flags: str) -> Ran:
        before = len(machine.provider.requests)
        ran = machine.atomic("-c", "-p", f"{SECRET} {prompt}", "--provider", request.param, *flags)
        asked = len(machine.provider.requests) - before
        ran.err += f"\nrequests: {asked}"
        return ran

    return ask


def untouched(machine: Machine) -> None:
    """The session holds its first turn only, and nothing is in flight or claimed."""
    (row,) = machine.rows()
    assert row.messages == 2
    assert machine.count("turns") == machine.count("claims") == 0


def quiet(ran: Ran) -> None:
    """Neither the key nor the prompt is told, though the provider's own message quotes both."""
    assert CANARY not in ran.err + ran.out
    assert SECRET not in ran.err


@pytest.mark.parametrize(
    ("status", "sentence", "mend"),
    [
        (401, "refuses the key", "atomic keys set"),
        (403, "refuses the key", "atomic keys set"),
        (402, "asks for payment", "balance"),
        (404, "knows no model", "--model"),
        (413, "too long", "new session"),
        (400, "refuses the request with 400", "--model"),
    ],
)
def test_refusals_are_final(
    machine: Machine, ask: Callable[..., Ran], status: int, sentence: str, mend: str
) -> None:
    """A refusal that no second try can change is asked once and told with its mend."""
    ran = ask(f"[[status: {status}]]")
    assert ran.code == 10
    assert sentence in ran.err
    assert mend in ran.err
    assert "requests: 1" in ran.err
    quiet(ran)
    untouched(machine)


def test_busy_is_tried_again_in_sight(machine: Machine, ask: Callable[..., Ran]) -> None:
    """429 and 5xx before the first word are tried again, each time said; the answer then counts."""
    machine.provider.refuse, machine.provider.retry_after = [429, 529], "0"
    ran = ask("go")
    assert ran.code == 0
    assert "answered 429; trying again in 0 s (1 of 2)" in ran.err
    assert "answered 529; trying again in 0 s (2 of 2)" in ran.err
    assert machine.rows()[0].messages == 4


def test_busy_too_often_is_an_error(machine: Machine, ask: Callable[..., Ran]) -> None:
    """After two more tries it is an error; a wait longer than twenty seconds is told, not slept."""
    machine.provider.retry_after = "0"
    machine.provider.refuse = [503, 503, 503]
    ran = ask("go")
    assert (ran.code, "failed with 503" in ran.err, "requests: 3" in ran.err) == (10, True, True)
    machine.provider.refuse, machine.provider.retry_after = [429], "3600"
    ran = ask("go")
    assert "asks to wait 3600 s" in ran.err
    assert "requests: 1" in ran.err
    untouched(machine)


def test_a_cut_stream_is_no_answer(machine: Machine, ask: Callable[..., Ran]) -> None:
    """A stream that ends in the middle is an error, never tried again, and nothing of it is saved."""
    ran = ask("[[cut]]")
    assert ran.code == 10
    assert "was cut off" in ran.err
    assert "requests: 1" in ran.err
    assert ran.out.endswith("\n")
    quiet(ran)
    untouched(machine)


def test_a_page_instead_of_an_answer(machine: Machine, ask: Callable[..., Ran]) -> None:
    """HTML from a proxy or a wrong address is told as that, with the variable to check."""
    ran = ask("[[html]]")
    assert ran.code == 10
    assert "does not speak the protocol" in ran.err
    assert "_BASE_URL" in ran.err
    untouched(machine)


def test_nobody_answers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port is told with the address, without a password that stands in it."""
    monkeypatch.setattr("atomic_agent.turns.providers.failures.time.sleep", lambda _: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:hunter2@127.0.0.1:{port}/v1")
    ran = machine.atomic("-p", "hi")
    assert ran.code == 10
    assert f"does not answer at http://127.0.0.1:{port}/v1" in ran.err
    assert "hunter2" not in ran.err
    assert machine.rows() == []
    assert machine.count("turns") == 0


def test_a_first_turn_that_fails_leaves_no_session(machine: Machine) -> None:
    """No session row, no entry, no claim, no turn in flight."""
    assert machine.atomic("-p", "[[status: 401]]").code == 10
    assert machine.rows() == []
    assert [machine.count(t) for t in ("entries", "turns", "claims", "sessions")] == [0, 0, 0, 0]


@pytest.mark.parametrize("provider_name", ["openai", "anthropic"])
def test_debug_logging_of_the_libraries_tells_nothing(machine: Machine, provider_name: str) -> None:
    """With OPENAI_LOG or ANTHROPIC_LOG set to debug neither prompt nor key is printed."""
    machine.env |= {"OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug", "ANTHROPIC_API_KEY": CANARY}
    machine.env["ANTHROPIC_BASE_URL"] = machine.provider.anthropic_url
    process = machine.start("-p", SECRET, "--provider", provider_name)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert SECRET not in err
    assert CANARY not in out + err


def test_the_key_is_in_no_argument_list(machine: Machine) -> None:
    """While a turn runs, no process shows the key in its arguments, and the answer is saved after it."""
    process = machine.start("-p", "[[slow: 0.05]] hi")
    shown = b""
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/cmdline", "rb") as stream:  # noqa: PTH123  # /proc
                shown += stream.read()
        except OSError:
            break
    process.communicate()
    assert CANARY.encode() not in shown
    assert process.returncode == 0


def test_a_key_no_header_can_hold(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a line break or a foreign letter is refused by name, not shown."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\u00e9\nx")
    ran = machine.atomic("-p", "hi", "--provider", "openai")
    assert ran.code == 10
    assert "characters that no key has" in ran.err
    assert "sk-" not in ran.err


def test_no_key_at_all(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any key a turn says which variables and commands there are; nothing is asked or saved."""
    monkeypatch.delenv("OPENAI_API_KEY")
    ran = machine.atomic("-p", "hi")
    assert ran.code == 10
    assert "OPENCODE_API_KEY" in ran.err
    assert "atomic keys set" in ran.err
    assert machine.rows() == []


def test_json_mode_keeps_stdout_parseable_when_a_turn_fails(machine: Machine) -> None:
    """What was begun is whole lines of JSON; the error is on stderr and in the exit code."""
    ran = machine.atomic("-p", "x [[cut]]", "--mode", "json")
    assert ran.code == 10
    assert [json.loads(line)["type"] for line in ran.out.splitlines()] == ["session", "delta"]
