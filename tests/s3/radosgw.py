"""Ceph's object gateway over a store in memory: a real S3 server that checks signatures. Loopback only.

Without a manager daemon, which only counts, and without `auth none`, with which the gateway hangs. Its data
is gone with its processes. The two paxos settings make it start in 2 s: each of some fifteen new pools and maps
otherwise waits a second for others to join it (17 s).
"""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

PROGRAMS = ("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool")
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
ACCESS, SECRET = "test-access", "test-secret-0123456789"
START_SECONDS = 60.0
ALL = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{ports[0]}/0,v1:127.0.0.1:{ports[1]}/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {folder}/keyring
mon data = {folder}/mon
osd data = {folder}/osd
run dir = {folder}
admin socket =
log file =
mon cluster log file = /dev/null
mon cluster log to stderr = false
pid file =
mon allow pool size one = true
paxos propose interval = 0.05
paxos min wait = 0.01
mon max pg per osd = 1000
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
rgw enable usage log = false
rgw thread pool size = 64
"""


class S3ServerError(Exception):
    """The S3 server for the tests does not start."""


def is_installed() -> bool:
    """True when all of Ceph's programs are on this machine."""
    return all(shutil.which(name, path=PATH) for name in PROGRAMS)


def free_port() -> int:
    """A port nothing listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def run(*command: str) -> None:
    """One of Ceph's commands to its end."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": PATH},
        timeout=START_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise S3ServerError(f"{command[0]}: {done.stderr[-500:]}")


def spawn(folder: Path, *command: str) -> "subprocess.Popen[bytes]":
    """A daemon in the foreground that does not outlive the thread that started it."""
    with (folder / f"{command[0]}.log").open("ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": PATH},
        )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a daemon that holds nothing worth an orderly end."""
    process.kill()
    process.wait(20)


class Gateway:
    """One S3 endpoint over a running cluster. Keeps its port when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns when it answers."""
        self._process = spawn(
            self._folder,
            "radosgw",
            *("--conf", str(self._folder / "ceph.conf"), "-n", "client.rgw.a", "-f"),
            *("--rgw-frontends", f"beast endpoint=127.0.0.1:{self._port}"),
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise S3ServerError((self._folder / "radosgw.log").read_text("utf-8", "replace")[-500:])
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9, where it ran: every open connection breaks, the cluster behind it stays."""
        if self._process is not None:
            kill(self._process)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False


class Cluster:
    """A monitor, a store in memory and the first gateway, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._conf = folder / "ceph.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.gateway = Gateway(folder)

    def start(self) -> None:
        """Returns when the gateway answers and has its one user."""
        fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
        ports = (free_port(), free_port())
        self._conf.write_text(CONFIGURATION.format(fsid=fsid, folder=self.folder, ports=ports))
        self._make_keys()
        monmap, keyring = str(self.folder / "monmap"), str(self.folder / "keyring")
        address = f"[v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]"
        run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, monmap)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self._spawn("ceph-mon", "-i", "a", "-f")
        self._run("ceph", "--connect-timeout", "30", "osd", "new", osd, "0")
        self._run("ceph-osd", "-i", "0", "--mkfs", "--no-mon-config", "--osd-uuid", osd, "--keyring", keyring)
        self._spawn("ceph-osd", "-i", "0", "-f", "--crush-location", "root=default host=here")
        self.gateway.start()
        self._run(
            "radosgw-admin",
            *("user", "create", "--uid", "tests", "--display-name", "tests"),
            *("--access-key", ACCESS, "--secret-key", SECRET),
        )

    def stop(self) -> None:
        """End all processes and remove what they wrote; the folder is the caller's."""
        self.gateway.kill()
        for daemon in reversed(self._daemons):
            kill(daemon)
        for written in ("mon", "osd"):
            shutil.rmtree(self.folder / written, ignore_errors=True)

    def _make_keys(self) -> None:
        keyring = str(self.folder / "keyring")
        (self.folder / "mon").mkdir()
        (self.folder / "osd").mkdir()
        run(
            "ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"
        )
        for name in ("client.admin", "client.rgw.a"):
            run("ceph-authtool", keyring, "--gen-key", "-n", name, *ALL)
        caps = ("--cap", "mon", "allow profile osd", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
        run("ceph-authtool", keyring, "--gen-key", "-n", "osd.0", *caps)

    def _run(self, program: str, *arguments: str) -> None:
        run(program, "--conf", str(self._conf), *arguments)

    def _spawn(self, program: str, *arguments: str) -> None:
        self._daemons.append(spawn(self.folder, program, "--conf", str(self._conf), *arguments))
