"""How fast is a list when the key lies in the keyring of the desktop: a real one, on a bus of its own.

Needs dbus-daemon and gnome-keyring-daemon; without them there is nothing to measure.
"""

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.stage import Figure, Machine, figure, timed

DAEMONS = ("dbus-daemon", "gnome-keyring-daemon")
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>"""
BARE = "import keyring, sys; sys.exit(keyring.get_password('bench', 'item') != 'secret')"
STORE = "import keyring; keyring.set_password('bench', 'item', 'secret')"


@contextmanager
def secret_service() -> Iterator[dict[str, str]]:
    """The environment of a session with an unlocked keyring, for the length of a measurement."""
    # In a short folder of its own: a socket's path holds 107 bytes.
    with TemporaryDirectory(prefix="ab-") as name:
        folder = Path(name)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": name,
            "XDG_RUNTIME_DIR": name,
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder / 'bus'}",
            "LANG": "C.UTF-8",
        }
        (folder / "bus.conf").write_text(BUS.format(path=folder / "bus"))
        bus = [
            DAEMONS[0],
            "--nofork",
            "--nopidfile",
            "--print-address=1",
            f"--config-file={folder / 'bus.conf'}",
        ]
        keyring = [DAEMONS[1], "--foreground", "--components=secrets", "--unlock"]
        quiet = subprocess.DEVNULL
        with (
            subprocess.Popen(bus, env=environment, stdout=subprocess.PIPE, stderr=quiet) as first,
            subprocess.Popen(
                keyring, env=environment, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
            ) as second,
        ):
            try:
                assert first.stdout is not None
                assert second.stdin is not None
                first.stdout.readline()
                second.stdin.write(b"bench")
                second.stdin.close()
                _wait(environment, second)
                yield environment
            finally:
                second.terminate()
                first.terminate()


def _wait(environment: dict[str, str], daemon: "subprocess.Popen[bytes]") -> None:
    """Until the keyring keeps an item; each try takes some tenths of a second itself."""
    for _ in range(50):
        if daemon.poll() is not None:
            break
        done = subprocess.run(
            [sys.executable, "-c", STORE], env=environment, stderr=subprocess.DEVNULL, check=False
        )
        if done.returncode == 0:
            return
    raise RuntimeError("the keyring did not start: it may need a container that lets it lock memory")


def list_keyring(root: Path, data: Path, runs: int) -> Iterator[Figure]:
    """`atomic sessions` over 200 sessions as a whole process; the limit is a bare Python that asks the keyring for
    one item, in turn with it."""
    if not all(shutil.which(name) for name in DAEMONS):
        return
    machine = Machine(root, "keyring", data / "home")
    del machine.environment["ATOMIC_KEY_FILE"]
    with secret_service() as session:
        machine.environment |= {
            name: session[name] for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
        }
        machine.run("capture")
        if len(machine.run("sessions", "--all").splitlines()) < 200:
            raise RuntimeError("the sessions are not there")
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(runs * 3):
            ours.append(machine.seconds("sessions", "--all"))
            bare.append(timed(lambda: subprocess.run([sys.executable, "-c", BARE], env=session, check=True)))
    yield figure("list_keyring", statistics.median(ours), "s", statistics.median(bare))
