"""infra/Dockerfile is built on machines with a container engine; its rules are checked here."""

import re

import pytest

from infra.repository import ROOT, text


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The file as (instruction, rest), comments gone and continued lines joined."""
    lines = "\n".join(
        line for line in text("infra/Dockerfile").splitlines() if not line.lstrip().startswith("#")
    )
    joined = lines.replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def last_stage(instructions: list[tuple[str, str]]) -> list[tuple[str, str]]:
    start = max(place for place, (name, _) in enumerate(instructions) if name == "FROM")
    return instructions[start:]


def test_build_tools_stay_in_the_first_stage(instructions: list[tuple[str, str]]) -> None:
    """Two stages; the last one runs no installer and copies the finished environment."""
    assert sum(name == "FROM" for name, _ in instructions) == 2
    last = last_stage(instructions)
    assert not any(
        re.search(r"\b(apt-get|pip|uv|gcc|hatchling)\b", rest) for name, rest in last if name == "RUN"
    )
    assert any(name == "COPY" and rest.startswith("--from=build ") for name, rest in last)


def test_runs_as_a_numbered_user_that_is_not_root(instructions: list[tuple[str, str]]) -> None:
    """The last word on the user is a uid above the system's, and nothing changes it afterwards."""
    users = [rest for name, rest in last_stage(instructions) if name == "USER"]
    assert len(users) == 1
    uid, _, gid = users[0].partition(":")
    assert int(uid) >= 10_000
    assert int(gid) >= 10_000


def test_base_image_is_pinned_to_the_python_of_the_tests(instructions: list[tuple[str, str]]) -> None:
    """Both stages start from one pinned patch release."""
    argument = next(rest for name, rest in instructions if name == "ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.11\.\d+-slim-\w+", argument)
    assert {rest.split()[0] for name, rest in instructions if name == "FROM"} == {"${PYTHON_IMAGE}"}


def test_nothing_is_fetched_by_address_and_no_secret_is_baked_in(instructions: list[tuple[str, str]]) -> None:
    """No ADD, no downloads but the locked packages, no secret in an argument or a variable."""
    assert not any(name == "ADD" for name, _ in instructions)
    for name, rest in instructions:
        if name in {"RUN", "COPY"}:
            assert "://" not in rest
            assert not re.search(r"\b(curl|wget|git)\b", rest)
        if name in {"ARG", "ENV"}:
            assert not re.search(r"PASSWORD|SECRET|TOKEN|_KEY", rest)


def test_packages_are_checked_against_the_lock(instructions: list[tuple[str, str]]) -> None:
    """Each installation names the lock and verifies hashes."""
    for _, rest in instructions:
        for install in re.findall(r"(?:pip|uv pip) install [^&]*", rest):
            assert re.search(r"--require-hashes|--verify-hashes", install), install
            assert ".lock" in install


def test_image_is_byte_compiled_and_probed(instructions: list[tuple[str, str]]) -> None:
    """Start-up compiles nothing, and the engine asks the service itself whether it is ready."""
    assert any("--compile-bytecode" in rest for name, rest in instructions if name == "RUN")
    probe = next(rest for name, rest in last_stage(instructions) if name == "HEALTHCHECK")
    assert "/readyz" in probe


def test_everything_copied_is_in_the_build_context(instructions: list[tuple[str, str]]) -> None:
    """What the build copies exists and is let through by .dockerignore, which lets nothing else through."""
    ignore = text(".dockerignore").splitlines()
    assert "*" in ignore
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = {
        source.removeprefix("./")
        for name, rest in instructions
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_the_tools_the_build_names_are_in_the_lock() -> None:
    """The build takes its tools out of the lock by name; a name gone from there would fail only there."""
    names = re.search(r"\^\(([a-z|-]+)\)==", text("infra/Dockerfile"))
    assert names is not None
    locked = set(re.findall(r"^([a-z0-9-]+)==", text("requirements.lock"), re.MULTILINE))
    assert set(names[1].split("|")) <= locked
