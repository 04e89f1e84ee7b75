"""infra/make-secrets: the first command on a new host."""

import base64
import json
import shutil
import stat
from pathlib import Path

import pytest

from infra.repository import ROOT, compose, run


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder with a fresh copy of the script."""
    (tmp_path / "infra").mkdir()
    shutil.copy(ROOT / "infra" / "make-secrets", tmp_path / "infra")
    return tmp_path


def test_makes_every_secret_compose_names(host: Path) -> None:
    """After one run each secret of compose.yaml is there, in a folder closed to others."""
    assert run("sh", "infra/make-secrets", "https://sessions.example.org/", cwd=host).returncode == 0
    for secret in compose()["secrets"].values():
        assert (host / secret["file"]).stat().st_size > 0
    assert stat.S_IMODE((host / "secrets").stat().st_mode) == 0o700
    assert "ATOMIC_PUBLIC_URL=https://sessions.example.org\n" in (host / ".env").read_text()


def test_keys_fit_together(host: Path) -> None:
    """The database addresses carry the passwords of their roles, the S3 identities the keys handed out."""
    run("sh", "infra/make-secrets", "https://sessions.example.org", cwd=host)
    secret = {path.name: path.read_text() for path in (host / "secrets").iterdir() if path.is_file()}
    assert f"atomic_owner:{secret['postgres_owner_password']}@" in secret["owner_database_url"]
    assert f"atomic_web:{secret['postgres_web_password']}@" in secret["web_database_url"]
    assert len(base64.b64decode(secret["server_secret"], validate=True)) == 32
    identities = {one["name"]: one for one in json.loads(secret["s3_identities"])["identities"]}
    assert identities["service"]["credentials"] == [
        {"accessKey": secret["s3_access_key"], "secretKey": secret["s3_secret_key"]}
    ]
    assert identities["administrator"]["credentials"] == [
        {"accessKey": secret["s3_admin_access_key"], "secretKey": secret["s3_admin_secret_key"]}
    ]
    bucket = compose()["services"]["service"]["environment"]["ATOMIC_S3_BUCKET"]
    assert all(action.endswith(f":{bucket}") for action in identities["service"]["actions"])


def test_two_hosts_share_nothing(host: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every secret is random, and no two of one host are equal."""
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(host / "infra", other / "infra")
    values = []
    for folder in (host, other):
        run("sh", "infra/make-secrets", "https://sessions.example.org", cwd=folder)
        values += [path.read_text() for path in (folder / "secrets").iterdir() if path.is_file()]
    assert len(values) == len(set(values))


def test_never_overwrites(host: Path) -> None:
    """A second run changes nothing and says what to do."""
    run("sh", "infra/make-secrets", "https://sessions.example.org", cwd=host)
    before = {path: path.read_bytes() for path in (host / "secrets").iterdir() if path.is_file()}
    again = run("sh", "infra/make-secrets", "https://other.example.org", cwd=host)
    assert again.returncode == 1
    assert "exists already" in again.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("address", ["", "sessions.example.org", "http://sessions.example.org"])
def test_refuses_an_address_a_browser_would_not_open_pages_on(host: Path, address: str) -> None:
    """Only https, or this very machine: the page decrypts with WebCrypto, which plain http does not have."""
    outcome = run("sh", "infra/make-secrets", address, cwd=host)
    assert outcome.returncode == 1
    assert "https" in outcome.stderr
    assert [path.name for path in host.iterdir()] == ["infra"]
