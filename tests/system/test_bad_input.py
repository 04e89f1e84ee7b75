"""Invites and pairings that go wrong: one clear sentence with the mend, and nobody is let in."""

from system.machines import Machine, MakeMachine, RunningService


def test_a_wrong_or_used_invite(machine: MakeMachine, service: RunningService) -> None:
    """Exit 9 and how to get another; this machine is in no account then."""
    laptop, other = machine("laptop"), machine("other")
    invite = service.invite()
    laptop.atomic("login", service.url, "--invite", "-", stdin=invite)
    for code in (invite, "NOSUCH-INVITE0-AAAAAA-BBBBBB"):
        done = other.atomic("login", service.url, "--invite", "-", stdin=code, code=9)
        assert "atomic-service invite" in done.err
        assert code not in done.err
    assert "none" in other.atomic("status").out


def test_wrong_pairing_strings_and_words(
    laptop: Machine, machine: MakeMachine, service: RunningService
) -> None:
    """A mistyped string, a string without a mailbox, words nobody shows."""
    other = machine("other")
    assert (
        "pairing string" in other.atomic("login", service.url, "--join", "-", stdin="atomic1-x", code=2).err
    )
    unknown = "atomic1-" + "a" * 26
    assert "No pairing waits" in other.atomic("login", service.url, "--join", "-", stdin=unknown, code=7).err
    assert "devices add" in laptop.atomic("devices", "approve", "--yes", "a", "b", "c", "d", code=7).err
    string = laptop.atomic("devices", "add").out
    waiting = other.start("login", service.url, "--join", "-", stdin=string)
    assert waiting.stdout is not None
    next(line for line in waiting.stdout if line.startswith("Words: "))
    wrong = laptop.atomic("devices", "approve", "--yes", "zoo", "zoo", "zoo", "zoo", code=2)
    assert "called off" in wrong.err
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 7
    assert "called the pairing off" in err
    assert "desktop" not in laptop.atomic("devices").out
