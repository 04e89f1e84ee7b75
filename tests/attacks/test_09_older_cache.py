"""Attack 9: an older database file is put back, as a backup does. No record number is used twice."""

import shutil

from attacks.stage import Account, refused, texts, whole
from attacks.test_18_swapped import WHOLE
from system.machines import claude_lines

OLD, NEW = (f"0e900000-0000-4000-8000-00000000000{n}" for n in (1, 2))


def test_an_older_cache_put_back(account: Account) -> None:
    """Attack 9: what it had sent comes back from the log, it goes on under a new name, and nobody refuses it."""
    victim, witness = account.victim(), account.victim()
    account.write(victim, OLD, ["before the backup"])
    backup = victim.home / "backup"
    shutil.copytree(victim.cache.parent, backup)
    account.write(victim, OLD, ["before the backup", "after it"])
    shutil.rmtree(victim.cache.parent)
    shutil.move(backup, victim.cache.parent)
    # The agent's file grew another way than before: the numbers of the lost records are wanted again.
    path = victim.claude_file(NEW, claude_lines(NEW, str(victim.folder), ["another life"]))
    assert path.exists()
    victim.claude_file(OLD, claude_lines(OLD, str(victim.folder), ["before the backup", "another way"]))
    victim.atomic("capture")
    victim.atomic("sync")
    witness.atomic("sync")
    for machine in (victim, witness):
        held = texts(machine)
        assert whole(held) == WHOLE
        assert held[NEW] == ["another life"]
        assert {"before the backup", "after it", "another way"} <= set(held[OLD])
        assert refused(machine) == []
    assert victim.status()["unsynced_records"] == 0
