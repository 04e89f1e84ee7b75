"""The recovery kit: for the day the key, or all machines, are lost."""

from system.machines import Machine, MakeMachine, RunningService


def test_the_kit_brings_back_the_local_key(machine: MakeMachine) -> None:
    """Without a service: the key is lost, the kit opens the cache again."""
    laptop = machine("laptop")
    laptop.say("something worth keeping")
    kit = laptop.home / "kit.txt"
    assert "recovery save" in laptop.atomic("status").out
    laptop.atomic("recovery", "save", str(kit))
    assert kit.stat().st_mode & 0o777 == 0o600
    assert "recovery" not in laptop.atomic("status").out
    old = laptop.key_file.read_text()
    laptop.key_file.unlink()
    missing = laptop.atomic("sessions", ATOMIC_KEY_FILE="", code=4)
    assert "key is missing" in missing.err
    done = laptop.atomic(
        "recovery", "restore", str(kit), ATOMIC_KEY_FILE="", DBUS_SESSION_BUS_ADDRESS="", code=3
    )
    assert "no keyring" in done.err
    laptop.atomic("recovery", "restore", str(kit), "--key-file", str(laptop.key_file), ATOMIC_KEY_FILE="")
    assert laptop.key_file.read_text().strip() == old.strip()
    assert laptop.sessions()


def test_the_kit_brings_back_the_account_on_a_new_machine(
    machine: MakeMachine, service: RunningService
) -> None:
    """All machines are gone; a new one with the kit alone has every session again, and goes on."""
    laptop = machine("laptop")
    laptop.atomic("login", service.url, "--invite", "-", stdin=service.invite())
    laptop.say("said before the fire")
    kit = laptop.home / "kit.txt"
    laptop.atomic("recovery", "save", str(kit))
    phoenix = machine("phoenix")
    assert "in the account again" in phoenix.atomic("recovery", "restore", str(kit)).out
    assert phoenix.sessions() == laptop.sessions()
    phoenix.say("said after the fire")
    laptop.atomic("sync")
    assert phoenix.sessions() == laptop.sessions()


def test_a_wrong_word_is_found_before_anything_is_asked(laptop: Machine) -> None:
    """One wrong word breaks the kit's checksum."""
    kit = laptop.home / "kit.txt"
    laptop.atomic("recovery", "save", str(kit))
    words = kit.read_text()
    first = words.split("1. ")[1].split()[0]
    kit.write_text(words.replace(f"1. {first}", "1. zoo" if first != "zoo" else "1. zone", 1))
    assert "24 words" in laptop.atomic("recovery", "restore", str(kit), code=4).err
    assert "exists already" in laptop.atomic("recovery", "save", str(kit), code=2).err
