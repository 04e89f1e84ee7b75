"""Share links between people: sealed, public, revised, imported, taken back."""

import httpx

from system.machines import Machine, MakeMachine


def _session(machine: Machine) -> str:
    machine.say("how do we ship it?")
    return str(machine.sessions()[0]["id"])


def test_anyone_with_a_sealed_link_can_go_on(laptop: Machine, machine: MakeMachine) -> None:
    """A colleague without an account imports the link as a new session and continues it."""
    session = _session(laptop)
    link = laptop.atomic("share", session, "--yes").out.strip()
    colleague = machine("colleague")
    colleague.atomic(
        "--import", "-", "-p", "and who reviews it?", "--provider", "openai", "--model", "m", stdin=link
    )
    found = [one for one in colleague.sessions() if one["id"] != session]
    assert any("who reviews it" in colleague.shown(one["id"]) for one in found)
    assert all(one["id"] != session for one in colleague.sessions())
    assert any(one["parent"] == session for one in found)


def test_a_public_page_is_plain_and_a_sealed_one_is_not(laptop: Machine) -> None:
    """`--public` serves HTML, JSONL and Markdown; the sealed page holds no word of the session."""
    session = _session(laptop)
    public = laptop.atomic("share", session, "--public", "--yes").out.strip()
    for ending in ("", ".jsonl", ".md"):
        reply = httpx.get(public + ending)
        assert reply.status_code == 200
        assert "how do we ship it?" in reply.text
        assert str(laptop.home) not in reply.text
    sealed = laptop.atomic("share", session, "--yes").out.strip().split("#")[0]
    assert "ship it" not in httpx.get(sealed).text
    assert "ship it" not in httpx.get(sealed + "/payload").text


def test_sharing_again_is_a_revision_under_the_same_link(laptop: Machine, desktop: Machine) -> None:
    """The link stays, its content follows, from whichever machine of the person."""
    session = _session(laptop)
    link = laptop.atomic("share", session, "--yes").out
    laptop.say("one more thing")
    desktop.atomic("sync")
    again = desktop.atomic("share", session, "--yes")
    assert again.out == link
    assert "revision 2" in again.err


def test_a_revoked_link_is_gone_for_everyone(laptop: Machine, desktop: Machine) -> None:
    """Any machine of the account can take a share back; the page answers 410, an import says so."""
    session = _session(laptop)
    link = laptop.atomic("share", session, "--yes").out.strip()
    assert session in desktop.atomic("shares", "--json").out
    desktop.atomic("shares", "revoke", "-", stdin=link)
    assert httpx.get(link.split("#")[0]).status_code == 410
    gone = laptop.atomic("--import", "-", stdin=link, code=7)
    assert "taken back" in gone.err
    assert "revoked" in laptop.atomic("shares").out


def test_secrets_are_replaced_before_anything_is_published(laptop: Machine) -> None:
    """The report names kinds, never values; what is published holds neither the key nor the home."""
    key = "AKIA" + "QQ7EXAMPLE4ZZ7YT"
    laptop.say(f"use {key} in {laptop.home}/notes.txt")
    session = str(laptop.sessions()[0]["id"])
    unasked = laptop.atomic("share", session, "--public", code=13)
    assert key not in unasked.err
    published = laptop.atomic("share", session, "--public", "--yes")
    assert "aws" in published.err.lower()
    text = httpx.get(published.out.strip() + ".jsonl").text
    assert key not in text
    assert str(laptop.home) not in text
    assert "notes.txt" in text
