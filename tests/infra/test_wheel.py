"""The wheel holds everything the programs need: an editable install would hide a file forgotten there."""

import sys
import zipfile
from pathlib import Path

import pytest

from infra.repository import PACKAGES, run


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The project, built as ./dev wheel builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(str(Path(sys.executable).parent / "hatchling"), "build", "-t", "wheel", "-d", str(folder))
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_holds_every_file_of_the_three_packages(wheel: zipfile.ZipFile) -> None:
    """Modules, SQL, styles, pages and markers: each source file is there byte for byte, and nothing else."""
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}": path
        for name, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == set(expected)
    for name, path in expected.items():
        assert wheel.read(name) == path.read_bytes(), name


def test_every_package_says_it_is_typed(wheel: zipfile.ZipFile) -> None:
    """py.typed is in all three packages."""
    assert {f"{name}/py.typed" for name in PACKAGES} <= set(wheel.namelist())


def test_names_both_programs_and_the_licence(wheel: zipfile.ZipFile) -> None:
    """Installing the wheel makes `atomic` and `atomic-service`, and the licence travels with it."""
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    programs = wheel.read(entry_points).decode()
    assert "atomic = atomic_agent.cli.app:main" in programs
    assert "atomic-service = atomic_service.__main__:main" in programs
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
