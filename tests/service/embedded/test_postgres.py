"""The embedded Postgres: comes back after a kill, takes over an orphan, leaves nothing."""

import asyncio
import os
import signal
from pathlib import Path

import asyncpg
import pytest

from atomic_service.embedded.binaries import AS_NOBODY, PostgresError, find_binaries
from atomic_service.embedded.postgres import OWNER, EmbeddedPostgres, socket_folder, stop_orphan
from service.running import wait_for


async def ask(url: str, question: str = "SELECT 1") -> object:
    connection = await asyncpg.connect(url, timeout=5)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


def answers(server: EmbeddedPostgres) -> bool:
    try:
        return asyncio.run(ask(server.url(OWNER, "postgres"))) == 1
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False


def test_killed_server_is_started_again(tmp_path: Path) -> None:
    """kill -9 of the postmaster: the same address answers again, from another process."""
    server = EmbeddedPostgres(tmp_path, durable=False)
    server.start()
    try:
        killed = server.pid
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: server.pid != killed and answers(server))
    finally:
        server.stop()
    assert not answers(server)
    assert socket_folder(tmp_path / "postgres") is None


def test_orphan_of_a_killed_supervisor_is_stopped(tmp_path: Path) -> None:
    """The next supervisor over the folder ends the server it finds there, and its sockets."""
    first = EmbeddedPostgres(tmp_path, durable=False)
    first.start()
    orphan, sockets = first.pid, socket_folder(tmp_path / "postgres")
    first._stopping.set()  # as if its supervisor were gone
    second = EmbeddedPostgres(tmp_path, durable=False)
    second.start()
    try:
        assert second.pid != orphan
        assert answers(second)
        assert sockets is not None
        assert not sockets.exists()
    finally:
        second.stop()
        first.stop()


def test_other_process_with_the_old_pid_is_left_alone(tmp_path: Path) -> None:
    """A pid file that outlived its server may name anybody by now."""
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n")
    stop_orphan(tmp_path)


def test_server_listens_on_its_socket_only(tmp_path: Path) -> None:
    """No TCP port is open, and the socket's folder is private."""
    server = EmbeddedPostgres(tmp_path, durable=False)
    server.start()
    try:
        assert asyncio.run(ask(server.url(OWNER, "postgres"), "SHOW listen_addresses")) == ""
        sockets = socket_folder(tmp_path / "postgres")
        assert sockets is not None
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert len(str(sockets)) < 90
    finally:
        server.stop()


def test_data_of_a_missing_version_is_named() -> None:
    """A folder made by a Postgres that is not installed is not touched."""
    with pytest.raises(PostgresError, match="made by Postgres 9"):
        find_binaries(9)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")
def test_without_namespaces_it_runs_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where unshare is refused the server runs as nobody from a copy, with data it owns."""
    import shutil
    import tempfile

    monkeypatch.setattr("atomic_service.embedded.binaries.NAMESPACE", ("false",))
    folder = Path(tempfile.mkdtemp(prefix="atomic-nobody-"))
    server = EmbeddedPostgres(folder, durable=False)
    try:
        server.start()
        assert server._binaries is not None
        assert server._binaries.prefix == AS_NOBODY
        assert answers(server)
    finally:
        server.stop()
        shutil.rmtree(folder)
