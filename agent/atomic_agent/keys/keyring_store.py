"""The OS keyring, asked through a child process with a time limit: it hangs for some people."""

import base64
import binascii
import json
import subprocess
import sys
from typing import Any

from atomic_agent.keys.local_key import LocalKey
from atomic_sessions.errors import KeyMissingError, KeyringLockedError, KeyringSilentError, NoKeyStoreError

TIMEOUT_SECONDS = 5.0

REMEDIES = (
    "Choose one: unlock or install a keyring (GNOME Keyring, KWallet, Keychain); or use a key file:"
    " `umask 077; openssl rand -base64 32 > ~/.atomic.key; export ATOMIC_KEY_FILE=~/.atomic.key`;"
    " or protect the key with a passphrase: `atomic keys use passphrase`."
)


def _ask(request: dict[str, Any]) -> dict[str, Any]:  # JSON
    try:
        child = subprocess.run(  # our own module, nothing secret in argv
            # -P: never a module of the folder one happens to stand in.
            [sys.executable, "-P", "-m", "atomic_agent.keys.keyring_child"],
            input=json.dumps(request) + "\n",
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KeyringSilentError(
            f"The keyring did not answer in {TIMEOUT_SECONDS:.0f} s.", REMEDIES
        ) from None
    try:
        found = json.loads(child.stdout)
    except ValueError:
        raise NoKeyStoreError("The keyring could not be asked.", REMEDIES) from None
    return found if isinstance(found, dict) else {"error": "failed"}


def _refuse(found: dict[str, Any]) -> NoKeyStoreError:  # JSON
    match found.get("error"):
        case "locked":
            return KeyringLockedError("The keyring is locked.", REMEDIES)
        case "refused":
            return NoKeyStoreError(
                f"The keyring backend {found.get('backend')} does not protect keys and is refused.", REMEDIES
            )
        case "not_stored":
            return NoKeyStoreError("The keyring took the key but did not keep it.", REMEDIES)
        case "failed":
            return NoKeyStoreError(f"The keyring failed ({found.get('backend', 'unknown')}).", REMEDIES)
    return NoKeyStoreError("There is no keyring on this machine.", REMEDIES)


def load(account: str, backend: str) -> LocalKey | None:
    """The key kept for this home, None when the keyring has none. Raises NoKeyStoreError and kin."""
    found = _ask({"do": "get", "account": account, "backend": backend})
    if not found.get("ok"):
        raise _refuse(found)
    text = found.get("secret")
    if not isinstance(text, str):
        return None
    try:
        return LocalKey(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise KeyMissingError(
            "The keyring's item holds no key.", "Restore it with: atomic recovery restore FILE"
        ) from None


def store(account: str, key: LocalKey) -> str:
    """Keep the key, read it back, and return the name of the backend that holds it."""
    found = _ask({"do": "set", "account": account, "secret": base64.b64encode(key.reveal()).decode()})
    if not found.get("ok"):
        raise _refuse(found)
    return str(found["backend"])
