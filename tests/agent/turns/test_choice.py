"""Which model answers: the order of A8, what falls back, and what is remembered."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.turns.machines import CANARY, Machine
from atomic_agent.locations import Home
from atomic_agent.turns import picks
from atomic_agent.turns.choice import PROVIDERS, choose
from atomic_sessions.context import Settings
from atomic_sessions.errors import ProviderError, UsageError

NONE = Settings()
ALL = {"OPENCODE_API_KEY": "z", "OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
SESSION = Settings("anthropic", "claude-x", "high")
SAVED = Settings("openai", "gpt-x", "low")
ZEN = {"OPENCODE_ZEN_MODEL": "zen-x"}


@pytest.mark.parametrize(
    ("flags", "environ", "session", "saved", "expected"),
    [
        (Settings("openai", "gpt-y", "off"), ALL | ZEN, SESSION, SAVED, ("openai", "gpt-y", "off")),
        (Settings("openai"), ALL | ZEN, SESSION, SAVED, ("openai", "gpt-x", "high")),
        (Settings("anthropic"), ALL, SESSION, SAVED, ("anthropic", "claude-x", "high")),
        (Settings("zen"), ALL | ZEN, NONE, NONE, ("zen", "zen-x", "")),
        (Settings("", "any"), ALL | ZEN, SESSION, SAVED, ("zen", "any", "high")),
        (Settings("", "any"), ALL, SESSION, SAVED, ("anthropic", "any", "high")),
        (NONE, ALL | ZEN, SESSION, SAVED, ("zen", "zen-x", "high")),
        (NONE, ALL, SESSION, SAVED, ("anthropic", "claude-x", "high")),
        (NONE, ALL, NONE, SAVED, ("openai", "gpt-x", "low")),
        (NONE, ALL, NONE, NONE, ("zen", PROVIDERS["zen"].model, "")),
        (NONE, ALL, Settings("opencode", "m"), NONE, ("zen", "m", "")),
        (NONE, {"OPENAI_API_KEY": "o"}, NONE, NONE, ("openai", PROVIDERS["openai"].model, "")),
    ],
)
def test_order(
    flags: Settings,
    environ: Mapping[str, str],
    session: Settings,
    saved: Settings,
    expected: tuple[str, str, str],
) -> None:
    """Flag, then OPENCODE_ZEN_MODEL, the session, the picks, zen, and at last whoever has a key."""
    choice = choose(flags, environ, session, saved, dict)
    assert (choice.provider, choice.model, choice.effort) == expected
    assert choice.endpoint is not None
    assert choice.notes == ()


def test_what_cannot_be_used_is_said() -> None:
    """A session's model of a provider nobody knows and a saved one without a key fall back, each said once."""
    choice = choose(NONE, {"OPENCODE_API_KEY": "z"}, Settings("fake", "fake-model"), SAVED, dict)
    assert (choice.provider, choice.model) == ("zen", PROVIDERS["zen"].model)
    assert choice.notes == (
        "The session's model fake/fake-model cannot be used: its provider is not known here.",
        "The saved model openai/gpt-x cannot be used: OPENAI_API_KEY is not set.",
    )


def test_an_explicit_provider_never_falls_back() -> None:
    """--provider without a key is an error with its mend; an unknown name is a usage error."""
    with pytest.raises(ProviderError, match="atomic keys set openai"):
        choose(Settings("openai"), {"OPENCODE_API_KEY": "z"}, NONE, NONE, dict)
    with pytest.raises(UsageError, match="zen, openai, anthropic"):
        choose(Settings("gemini"), ALL, NONE, NONE, dict)


def test_keys_come_from_the_environment_first() -> None:
    """The keystore is asked only when the environment has no key, and endpoints do not show theirs."""

    def never() -> dict[str, str]:
        raise AssertionError("the keystore was asked")

    choice = choose(Settings("openai"), {"OPENAI_API_KEY": CANARY}, NONE, NONE, never)
    assert choice.endpoint is not None
    assert choice.endpoint.key == CANARY
    assert CANARY not in repr(choice)
    assert CANARY not in repr(choice.endpoint)
    kept = choose(Settings("openai"), {}, NONE, NONE, lambda: {"openai": "kept"})
    assert kept.endpoint is not None
    assert kept.endpoint.key == "kept"
    assert choose(NONE, {}, NONE, NONE, dict).endpoint is None


def test_picks_are_saved_with_the_completed_turn(machine: Machine) -> None:
    """A failed turn saves no picks, a completed one does; the next launch uses them for a fresh conversation,
    and --no-session neither reads nor writes them."""
    machine.atomic("-p", "[[status: 401]]", "--provider", "openai", "--model", "m1", "--effort", "low")
    home = Home(Path(machine.env["ATOMIC_HOME"]))
    assert picks.load(home) == NONE
    machine.atomic("-p", "hi", "--provider", "openai", "--model", "m1", "--effort", "low")
    machine.atomic("--no-session", "-p", "hi", "--model", "m2")
    assert picks.load(home) == Settings("openai", "m1", "low")
    ran = machine.atomic("-p", "fresh")
    assert "1 user" in ran.out
    sent = machine.provider.requests[-1].body
    assert (sent["model"], sent["reasoning_effort"]) == ("m1", "low")


def test_a_saved_provider_without_its_key_falls_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the key of the saved provider is gone the turn goes to the zen default, said in one line."""
    machine.atomic("-p", "hi", "--provider", "openai", "--model", "m1")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OPENCODE_API_KEY", CANARY)
    monkeypatch.setenv("OPENCODE_ZEN_BASE_URL", machine.provider.openai_url)
    ran = machine.atomic("-p", "hi")
    assert ran.code == 0
    line = f"The saved model openai/m1 cannot be used: OPENAI_API_KEY is not set. Using zen/{PROVIDERS['zen'].model}."
    assert ran.err.strip() == line
    assert machine.provider.requests[-1].body["model"] == PROVIDERS["zen"].model


def test_a_switch_is_recorded_once(machine: Machine) -> None:
    """A change of model or effort is an entry before the prompt; going on with the same is none."""
    machine.atomic("-p", "one", "--model", "m1")
    machine.atomic("-c", "-p", "two", "--model", "m2", "--effort", "high")
    machine.atomic("-c", "-p", "three")
    (row,) = machine.rows()
    text = b"\n".join(machine.lines(row)).decode()
    assert (text.count('"model_change"'), text.count('"thinking_level_change"')) == (2, 1)
    assert machine.provider.requests[-1].body["model"] == "m2"
