"""The recovery kit: 24 words that bring back the local key, or the account on a new machine (D2)."""

import re
from pathlib import Path

import msgspec

from atomic_agent import private_files
from atomic_agent.account.device import (
    kit,
    new_device,
    public_kem_key,
    public_sign_key,
    statement,
    unwrap_with_kit,
    wrap_for_device,
    wrap_for_kit,
)
from atomic_agent.account.login import enter, kit_public_key, machine_name
from atomic_agent.account.words import from_words, to_words
from atomic_agent.keys import sources
from atomic_agent.keys.keystore import Membership
from atomic_agent.keys.local_key import LocalKey
from atomic_agent.locations import Home
from atomic_agent.stores.journal import Journal, recover_local_key
from atomic_agent.sync.client import Client
from atomic_agent.sync.identity import connect, sign_in, trusted_ledger
from atomic_sessions import ledger
from atomic_sessions.errors import KeyMissingError, NoKeyStoreError, NotFoundError, SealError, UsageError

TITLE = "Atomic Sessions recovery kit"


class KitFile(msgspec.Struct, frozen=True):
    """What a kit file says."""

    recovery: bytes
    url: str
    account: bytes
    root: bytes

    def __repr__(self) -> str:
        return "<recovery kit file>"


def save(journal: Journal, path: Path, now: int) -> None:
    """Write the kit to a new 0600 file, and see to it that the account knows the kit."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already.", "Name a new file.")
    secret = journal.secrets.recovery
    if not secret:
        raise KeyMissingError(
            "This machine has no recovery secret.", "Its keystore is from an unknown version."
        )
    mine = journal.secrets.membership
    if mine is not None:
        _enlist(journal, mine, secret, now)
    private_files.write(path, _text(secret, mine).encode())
    journal.change(recovery_saved=True)


def _enlist(journal: Journal, mine: Membership, secret: bytes, now: int) -> None:
    """Put this machine's kit into the account's device list if it is not there yet."""
    recovery = kit(secret)
    with connect(journal, lambda: now) as client:
        trusted = trusted_ledger(journal, client)
        if trusted.active(recovery.id) is not None:
            return
        keys = mine.account_keys()
        entry = statement(
            keys,
            trusted,
            role="recovery",
            device=recovery.id,
            sign_key=kit_public_key(recovery.sign_key),
            kem_key=b"",
            name="recovery kit",
            by=mine.device.id,
            signer=mine.device.sign_key,
        )
        client.append_ledger(entry, [wrap_for_kit(keys, recovery, mine.device.id, mine.device.sign_key)])
        trusted_ledger(journal, client)


def _text(secret: bytes, mine: Membership | None) -> str:
    words = to_words(secret).split()
    rows = [
        "  ".join(f"{at + 1:2}. {words[at]:<9}" for at in range(start, start + 4)).rstrip()
        for start in range(0, 24, 4)
    ]
    account = (
        f"service: {mine.url}\naccount: {mine.account.hex()}\ndevices: {mine.ledger_root.hex()}\n"
        if mine is not None
        else "service: none (this kit opens the cache of the machine it was made on)\n"
    )
    return (
        f"{TITLE}\n\nWhoever has these words can read the sessions. Print this or keep it offline,\n"
        "away from the machines it protects. To use it: atomic recovery restore FILE\n\n"
        + "\n".join(rows)
        + f"\n\n{account}"
    )


def read(path: Path) -> KitFile:
    """A kit file's content; words alone are enough for the local cache."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read as a recovery kit.", "Name the file `recovery save` wrote."
        ) from error
    numbered = re.findall(r"\b\d{1,2}\.\s+([a-z]+)", text)
    recovery = from_words(" ".join(numbered) if numbered else text)
    facts = dict(re.findall(r"^(service|account|devices): (\S+)$", text, re.MULTILINE))
    try:
        return KitFile(
            recovery,
            facts.get("service", ""),
            bytes.fromhex(facts.get("account", "")),
            bytes.fromhex(facts.get("devices", "")),
        )
    except ValueError:
        raise KeyMissingError(
            "The kit's account or devices line is damaged.", "Check it against your copy."
        ) from None


def restore_local(home: Home, found: KitFile, key_file: Path | None) -> LocalKey | None:
    """Bring back the key of the cache that lies here, into a new key file or the keyring; None when
    there is no cache."""
    if not home.cache.exists():
        return None
    try:
        key = recover_local_key(home, found.recovery)
    except SealError:
        raise KeyMissingError(
            f"This kit does not open the cache {home.cache}.",
            "Use the kit of this machine, or move the cache away to join the account with this one.",
        ) from None
    if key is None:
        raise NotFoundError(
            "Beside the cache there is nothing a kit could open.", f"{home.keyinfo} is missing."
        )
    if key_file is not None:
        sources.write_key_file(key_file, key)
        return key
    try:
        sources.keep_in_keyring(home, key)
    except NoKeyStoreError as error:
        raise type(error)(error.message, "Add --key-file PATH to put the key into a file.") from None
    return key


def restore_account(journal: Journal, found: KitFile) -> Membership:
    """Join the account from a machine that has nothing but the kit."""
    if not found.account:
        raise UsageError(
            "This kit belongs to no account.", "It opens the cache of the machine it was made on."
        )
    recovery = kit(found.recovery)
    with Client(found.url) as client:
        token = sign_in(client, found.account, recovery.id, recovery.sign_key)
    with Client(found.url, token=token.token) as known:
        entries = known.ledger()
        trusted = ledger.verify(entries, found.account)
        if trusted.root != found.root:
            raise SealError(
                "The service shows another list of devices than the kit knows.",
                "Do not use this service until you know why.",
            )
        wraps = [wrap for wrap in known.wraps() if wrap.device == recovery.id]
        if not wraps:
            raise SealError("The account's keys for this kit are missing at the service.")
        keys = unwrap_with_kit(wraps[-1], trusted, recovery)
        device = new_device(machine_name())
        entry = statement(
            keys,
            trusted,
            role="device",
            device=device.id,
            sign_key=public_sign_key(device),
            kem_key=public_kem_key(device),
            name=device.name,
            by=recovery.id,
            signer=recovery.sign_key,
        )
        after = ledger.append(trusted, entry, found.account)
        wrap = wrap_for_device(keys, device.id, public_kem_key(device), recovery.id, recovery.sign_key)
        known.append_ledger(entry, [wrap])
    with Client(found.url) as client:
        token = sign_in(client, found.account, device.id, device.sign_key)
    return enter(journal, found.url, keys, device, after, token)
