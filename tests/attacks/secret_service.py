"""A bus of the test's own, with a real GNOME Keyring on it, with a service that never answers, or with none."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import secretstorage
from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]  # ships no types

from system.machines import SECONDS, Machine, until

HERE = [shutil.which(name) for name in ("dbus-daemon", "gnome-keyring-daemon")]
needs_daemons = pytest.mark.skipif(
    None in HERE, reason="no Secret Service here (apt-get install dbus gnome-keyring)"
)
# No folder of services: nothing is started by being asked for.
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>"""
SILENT = """
import sys, time
from jeepney import message_bus
from jeepney.io.blocking import Proxy, open_dbus_connection
connection = open_dbus_connection(sys.argv[1])
Proxy(message_bus, connection).RequestName("org.freedesktop.secrets")
print("ready", flush=True)
while True: connection.receive()
"""
DENYING = """
import sys
from jeepney import HeaderFields, MessageType, message_bus, new_error
from jeepney.io.blocking import Proxy, open_dbus_connection
connection = open_dbus_connection(sys.argv[1])
Proxy(message_bus, connection).RequestName("org.freedesktop.secrets")
print("ready", flush=True)
while True:
    asked = connection.receive()
    if asked.header.message_type == MessageType.method_call:
        connection.send(new_error(asked, "org.freedesktop.DBus.Error.AccessDenied", "s", ("sk-canary no",)))
"""


class Bus:
    """A session bus in a folder of its own; `join` puts a machine on it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.home, runtime = folder / "home", folder / "run"
        self.home.mkdir(mode=0o700)
        runtime.mkdir(mode=0o700)
        self.address = f"unix:path={folder / 'bus'}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(runtime),
            "LANG": "C.UTF-8",
            "DBUS_SESSION_BUS_ADDRESS": self.address,
        }
        config = folder / "bus.conf"
        config.write_text(BUS.format(path=folder / "bus"))
        self._running: list[subprocess.Popen[str]] = []
        self._start(
            ["dbus-daemon", "--nofork", "--nopidfile", "--print-address=1", f"--config-file={config}"]
        )

    def _start(self, command: list[str]) -> "subprocess.Popen[str]":
        """A process on this bus that says a line when it is ready."""
        process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), f"{command[0]} did not start"
        return process

    def answer_with(self, code: str) -> None:
        """A service of ours under the keyring's name."""
        self._start([sys.executable, "-c", code, self.address])

    def keyring(self, *, password: str | None) -> None:
        """A real GNOME Keyring: unlocked with this password, or started and never unlocked."""
        options = ["--foreground", "--components=secrets", *(["--unlock"] if password is not None else [])]
        with (self.home / "log").open("w+") as log:
            daemon = subprocess.Popen(
                ["gnome-keyring-daemon", *options],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )
            self._running.append(daemon)
            assert daemon.stdin is not None
            daemon.stdin.write(password or "")
            daemon.stdin.close()
            daemon.stdin = None
            until(lambda: daemon.poll() is not None or self._is_up())
            if daemon.poll() is not None:
                log.seek(0)
                said = log.read()
                if "Operation not permitted" in said:
                    pytest.skip("this container does not let the daemon lock memory")
                raise AssertionError(said[-500:])

    def _connect(self) -> Any:  # jeepney's connection, untyped
        return open_dbus_connection(self.address)

    def _is_up(self) -> bool:
        with self._connect() as connection:
            return bool(secretstorage.check_service_availability(connection))

    def lock(self) -> None:
        """As a screen lock does."""
        with self._connect() as connection:
            secretstorage.get_default_collection(connection).lock()

    def delete_items(self) -> int:
        """As a person in their keyring's window; how many there were."""
        with self._connect() as connection:
            items = list(secretstorage.get_default_collection(connection).get_all_items())
            for item in items:
                item.delete()
            return len(items)

    def join(self, machine: Machine) -> Machine:
        """The machine has this bus and no key file."""
        machine.environment = {
            **machine.environment,
            "XDG_RUNTIME_DIR": self.environment["XDG_RUNTIME_DIR"],
            "DBUS_SESSION_BUS_ADDRESS": self.address,
        }
        del machine.environment["ATOMIC_KEY_FILE"]
        return machine

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
            process.wait(SECONDS)
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def bus(folder: Path) -> Iterator[Bus]:
    found = Bus(folder)
    try:
        yield found
    finally:
        found.stop()
