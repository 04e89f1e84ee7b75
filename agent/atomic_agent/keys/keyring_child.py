"""The only module that imports `keyring` or `secretstorage`; runs in a child process that can be killed.

`python -m atomic_agent.keys.keyring_child` reads one JSON line {"do": "get"|"set"|"probe", "backend",
"account", "secret"?} and writes one {"ok": ..., "backend": ..., "secret"?: ...} or {"error": kind}. Never
a value in argv, in the environment or in an error.
"""

import json
import os
import sys
from contextlib import closing
from typing import Any

SERVICE = "atomic-sessions"
ALLOWED = (
    "keyring.backends.SecretService.",
    "keyring.backends.libsecret.",
    "keyring.backends.kwallet.",
    "keyring.backends.macOS.",
    "keyring.backends.Windows.",
)
LINUX = "keyring.backends.SecretService.Keyring"


def answer(request: dict[str, Any]) -> dict[str, Any]:  # JSON
    """Do one thing with the keyring."""
    recorded = request["do"] == "get" and request.get("backend") == LINUX
    if recorded and not _is_configured():
        try:
            found = _from_secret_service(request["account"])
        except ImportError:
            pass  # the library knows why
        else:
            # An item that is not where it would be looked for is the library's to find.
            if not found.get("ok") or found["secret"] is not None:
                return found
    return _by_library(request)


def _is_configured() -> bool:
    """A person, or a test, told the library which backend to ask, or how."""
    if any(name == "PYTHON_KEYRING_BACKEND" or "KEYRING_PROPERTY_" in name for name in os.environ):
        return True
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  # no pathlib here
    return os.path.lexists(f"{folder}/python_keyring/keyringrc.cfg")


def _from_secret_service(account: str) -> dict[str, Any]:  # JSON
    """What that backend's `get_password` does, without the library around it: every command waits for this, and
    looking for backends that are not asked takes 0.14 of 0.20 s of CPU."""
    import secretstorage
    from secretstorage.exceptions import PromptDismissedException, SecretServiceNotAvailableException

    try:
        with closing(secretstorage.dbus_init()) as connection:
            if not secretstorage.check_service_availability(connection):
                return {"error": "none"}
            collection = secretstorage.get_default_collection(connection)
            if collection.is_locked():
                collection.unlock()
                if collection.is_locked():  # nobody answered the prompt
                    return {"error": "locked"}
            found = None
            for item in collection.search_items({"service": SERVICE, "username": account}):
                if item.is_locked():
                    item.unlock()
                    if item.is_locked():
                        return {"error": "locked"}
                found = item.get_secret().decode("utf-8", "replace")
                break
            return {"ok": True, "backend": LINUX, "secret": found}
    except PromptDismissedException:
        return {"error": "locked"}
    except SecretServiceNotAvailableException:
        return {"error": "none"}
    except Exception as error:  # noqa: BLE001  # D-Bus raises what it likes
        return {"error": "failed", "backend": type(error).__name__}


def _by_library(request: dict[str, Any]) -> dict[str, Any]:  # JSON
    """The same for any backend of the list, and all that is written."""
    import keyring
    from keyring.errors import InitError, KeyringError, KeyringLocked, NoKeyringError

    try:
        backend = keyring.get_keyring()
        members = getattr(backend, "backends", [backend])
        chosen = [b for b in members if _name(b).startswith(ALLOWED)]
        wanted = request.get("backend") or ""
        chosen = [b for b in chosen if _name(b) == wanted] if wanted else chosen
        if not chosen:
            found = _name(backend)
            return {"error": "none" if ".fail." in found else "refused", "backend": found}
        backend = chosen[0]
        if request["do"] == "probe":
            return {"ok": True, "backend": _name(backend)}
        if request["do"] == "get":
            return {
                "ok": True,
                "backend": _name(backend),
                "secret": backend.get_password(SERVICE, request["account"]),
            }
        backend.set_password(SERVICE, request["account"], request["secret"])
        stored = backend.get_password(SERVICE, request["account"])
        return {"ok": stored == request["secret"], "backend": _name(backend), "error": "not_stored"}
    except NoKeyringError:
        return {"error": "none"}
    except (KeyringLocked, InitError):
        return {"error": "locked"}
    except KeyringError as error:
        return {"error": "locked" if "-25308" in str(error) else "failed"}
    # Backends raise what they like: pywintypes.error, jeepney and D-Bus errors, RuntimeError.
    except Exception as error:  # noqa: BLE001  # see above
        return {"error": "failed", "backend": type(error).__name__}


def _name(backend: object) -> str:
    return f"{type(backend).__module__}.{type(backend).__name__}"


def main() -> None:
    # What a backend prints is no answer.
    out, sys.stdout = sys.stdout, sys.stderr
    json.dump(answer(json.loads(sys.stdin.readline())), out)


if __name__ == "__main__":
    main()
